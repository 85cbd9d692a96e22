"""The keys and the certificate as they were last read of their files. A worker begins with what its
parent has: what is in the files now may be half of what is to come, and has not been asked for."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from dataclasses import dataclass, field

from lookhear.engine.config import ConfigError
from lookhear.gateway.config import GatewayConfig


@dataclass(frozen=True, slots=True)
class Credentials:
    """keys: those that clients need; none: nobody needs one. certificate: it and its private key,
    as the files have them; None: connections are not encrypted."""

    keys: tuple[str, ...] = field(repr=False)
    certificate: tuple[bytes, bytes] | None = field(default=None, repr=False)

    def context(self) -> ssl.SSLContext | None:
        """How connections are encrypted; None: they are not. Raises OSError, ValueError."""
        if self.certificate is None:
            return None
        with contextlib.ExitStack() as files:
            # OpenSSL reads files only: these have no names, so nobody else can open them.
            held = [files.enter_context(tempfile.TemporaryFile()) for _ in self.certificate]
            for file, content in zip(held, self.certificate, strict=True):
                file.write(content)
                file.seek(0)
            return _encrypting(*(f"/dev/fd/{file.fileno()}" for file in held))


def read_credentials(config: GatewayConfig) -> Credentials:
    """Raises ConfigError."""
    return Credentials(config.read_keys(), _read_certificate(config))


def read_again(before: Credentials, config: GatewayConfig) -> Credentials:
    """Keys and certificate each by itself: what cannot be used stays as it was."""
    keys, certificate = before.keys, before.certificate
    with contextlib.suppress(ConfigError):
        keys = config.read_keys()
    with contextlib.suppress(ConfigError):
        certificate = _read_certificate(config)
    return Credentials(keys, certificate)


def check_certificate(config: GatewayConfig) -> None:
    """Raises ConfigError if the certificate and its key cannot be used together."""
    certified(config)


def certified(config: GatewayConfig) -> ssl.SSLContext | None:
    """By what the files have now; None: connections are not encrypted. Raises ConfigError."""
    if config.ssl_certfile is None or config.ssl_keyfile is None:
        return None
    try:
        return _encrypting(str(config.ssl_certfile), str(config.ssl_keyfile))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise _unusable(config, error) from None


def _encrypting(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key, password="")
    return context


def _read_certificate(config: GatewayConfig) -> tuple[bytes, bytes] | None:
    if config.ssl_certfile is None or config.ssl_keyfile is None:
        return None
    try:
        pair = config.ssl_certfile.read_bytes(), config.ssl_keyfile.read_bytes()
        Credentials((), pair).context()
    except (OSError, ValueError) as error:
        raise _unusable(config, error) from None
    return pair


def _unusable(config: GatewayConfig, error: Exception) -> ConfigError:
    return ConfigError(
        f"ssl-certfile: expected a PEM certificate and its unencrypted key, got "
        f"{config.ssl_certfile} and {config.ssl_keyfile} ({error})"
    )
