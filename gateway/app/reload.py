"""What a running server reads again: its certificate and its keys."""

from __future__ import annotations

import logging
import ssl

from lookhear.engine.config import ConfigError
from lookhear.engine.config.log import hide
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.credentials import check_certificate
from lookhear.gateway.http.access import Access
from lookhear.gateway.telemetry.log import log_event


def has_files(config: GatewayConfig) -> bool:
    """Whether there is anything that could be read again."""
    return config.ssl_certfile is not None or config.api_key_file is not None


def reload(config: GatewayConfig, access: Access, context: ssl.SSLContext | None) -> None:
    """Each by itself: what cannot be used is told in one line, and the old one stays. New
    connections get the new certificate, new sessions and requests need a new key; who is inside
    stays. context: of the connections, if they are encrypted."""
    try:
        if context is not None and config.ssl_certfile is not None:
            check_certificate(config)  # or the context would be left with half of it
            context.load_cert_chain(config.ssl_certfile, config.ssl_keyfile, password="")
            log_event("reloaded", what="certificate")
    except (ConfigError, OSError) as error:
        _kept("certificate", error)
    if not has_files(config):
        log_event("nothing to reload", expected="--ssl-certfile or --api-key-file")
    if config.api_key_file is None:
        return
    try:
        keys = config.read_keys()
    except ConfigError as error:
        _kept("keys", error)
    else:
        hide(keys)
        access.set_keys(keys)
        log_event("reloaded", what="keys", keys=len(keys))


def _kept(what: str, error: Exception) -> None:
    log_event("not reloaded", level=logging.ERROR, what=what, reason=f"{error}; the old stay")
