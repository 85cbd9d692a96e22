"""uvicorn with a goodbye: sessions are closed with 1001 before the connections are taken down."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import uvicorn
from starlette.applications import Starlette
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from lookhear.engine.config import ConfigError
from lookhear.gateway.app.garbage import tended
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.services import Services
from lookhear.gateway.sockets.frames import PacedProtocol

T = TypeVar("T")

PING_INTERVAL = 20.0  # seconds
PING_TIMEOUT = 60.0  # seconds in which nothing at all came, though the client was read
# An idle connection of HTTP. Whoever asks again just when it is closed gets no answer: clients and
# load balancers, which give it up after 5 to 60 s, are to be first.
KEEP_ALIVE = 75  # seconds


class GatewayServer(uvicorn.Server):
    """Serves one app on sockets that are already bound."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the sessions first, for uvicorn would cut them off."""
        app = cast(Starlette, self.config.app)
        services: Services = app.state.services
        await services.close_sessions()
        await super().shutdown(sockets)


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` of a process that is a gateway: garbage is collected as suits one, and the loop
    is uvloop's where it is installed, a tenth less work per message."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop as factory  # type: ignore[import-not-found,unused-ignore]
    with asyncio.Runner(loop_factory=factory) as runner, tended(runner.get_loop()):
        return runner.run(main)


def compute_alone() -> None:
    """Keep numpy's matrix products in the thread that asks for them. Ours are small; helper threads
    would spin on cores that the engine needs."""
    threadpool_limits(limits=1, user_api="blas")


def make_server(app: Starlette) -> GatewayServer:
    """The server of `app` with our limits. Logging is the caller's."""
    config = app.state.services.config
    return GatewayServer(
        uvicorn.Config(
            app,
            ws=PacedProtocol,
            # Base64 of sound: deflate costs several times what it saves.
            ws_per_message_deflate=False,
            ws_max_size=config.max_message_bytes,
            ws_ping_interval=PING_INTERVAL,
            ws_ping_timeout=PING_TIMEOUT,
            ssl_certfile=config.ssl_certfile,
            ssl_keyfile=config.ssl_keyfile,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=5,
        )
    )


def check_certificate(config: GatewayConfig) -> None:
    """Raises ConfigError if the certificate and its key cannot be used together."""
    if config.ssl_certfile is None:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(config.ssl_certfile, config.ssl_keyfile, password="")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"ssl-certfile: expected a PEM certificate and its unencrypted key, got "
            f"{config.ssl_certfile} and {config.ssl_keyfile} ({error})"
        ) from None


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address. Raises OSError: it is taken, not ours, or none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as error:
        raise OSError(f"{host!r} is no host name ({error})") from None
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    sock.set_inheritable(False)
    return sock
