"""uvicorn with a goodbye, as signals ask for it.

SIGTERM drains: nothing new is begun, what is under way ends, for some seconds at most; connections
are accepted meanwhile, so that a load balancer hears why not. Ctrl-C, or any second signal, closes
all sessions with 1001 and ends at once. SIGHUP reads the certificate and the keys again.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import FrameType
from typing import Any, TypeVar, cast

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from lookhear.gateway.app.garbage import tended
from lookhear.gateway.app.notify import STOPPING, notify
from lookhear.gateway.app.reload import has_files, reload
from lookhear.gateway.app.spare import SpareApp
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.credentials import certified
from lookhear.gateway.services.services import Services
from lookhear.gateway.sockets.connections import on_both
from lookhear.gateway.sockets.frames import PacedProtocol
from lookhear.gateway.sockets.handshakes import Accept, Listener, accepting
from lookhear.gateway.sockets.relay import Arrival, Keepers, door
from lookhear.gateway.sockets.requests import Doors, WatchedProtocol
from lookhear.gateway.sockets.unfinished import Unfinished
from lookhear.gateway.telemetry.log import log_event

T = TypeVar("T")

PING_INTERVAL = 20.0  # seconds
PING_TIMEOUT = 60.0  # seconds in which nothing at all came, though the client was read
# An idle connection of HTTP. Whoever asks again just when it is closed gets no answer: clients and
# load balancers, which give it up after 5 to 60 s, are to be first.
KEEP_ALIVE = 75  # seconds


class GatewayServer(uvicorn.Server):
    """Serves one app on sockets that are already bound. context: of its connections, if they are
    encrypted. accept: where connections come from besides, accepted already. Handlers of signals
    only take a note, which is read ten times a second."""

    def __init__(
        self,
        config: uvicorn.Config,
        services: Services,
        doors: Doors,
        context: ssl.SSLContext | None,
        accept: Accept | None = None,
    ) -> None:
        super().__init__(config)
        self._accept = accept
        self._doors = doors
        self._context = context
        self._services = services
        self._is_to_drain = self._is_to_reload = False
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. Encrypted connections are accepted by us, and so are those that come from other
        processes."""
        if self._context is None:
            await super().startup(sockets)
        else:
            await super().startup([])
        make = partial(
            cast(Callable[..., WatchedProtocol], self.config.http_protocol_class),
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        sources = [] if self._context is None else [accepting(sock) for sock in sockets or ()]
        for source in [*sources, *([] if self._accept is None else [self._accept])]:
            listener = Listener(source, make, self._context, self._doors)
            self.servers.append(cast(asyncio.base_events.Server, listener))  # only to be closed
        if self._doors.keepers is not None:
            self.servers.append(await self._open_door(self._doors.keepers, make))

    @staticmethod
    async def _open_door(
        keepers: Keepers, make: Callable[[], WatchedProtocol]
    ) -> asyncio.base_events.Server:
        """For connections that other workers pass on."""

        def relayed() -> WatchedProtocol:
            protocol = make()
            protocol.relayed()
            return protocol

        # What a dead worker of that number has left there is taken away first, by asyncio.
        path = str(door(keepers.folder, keepers.own))
        return await asyncio.get_running_loop().create_unix_server(lambda: Arrival(relayed), path)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """uvicorn's, and SIGHUP; but at a terminal, where that means that it was closed, only if
        there is something to read again."""
        with super().capture_signals():
            is_main = threading.current_thread() is threading.main_thread()
            if not is_main or (at_terminal() and not has_files(self._services.config)):
                yield
                return
            before = signal.signal(signal.SIGHUP, self._hang_up)
            try:
                yield
            finally:
                signal.signal(signal.SIGHUP, before)

    def _hang_up(self, _: int, __: FrameType | None) -> None:
        self._is_to_reload = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The signal is dealt with here: uvicorn would raise it again at the end, and the exit
        status would be that of one who was killed."""
        if self.should_exit:
            self.force_exit = True
        elif (
            sig == signal.SIGTERM and not self._is_to_drain and self._services.config.drain_seconds
        ):
            self._is_to_drain = True
        else:
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """What the signals asked for."""
        if self._is_to_reload:
            self._is_to_reload = False
            reload(self._services.config, self._services.access, self._context)
        if self._is_to_drain and self._draining is None:
            notify(STOPPING)
            self._draining = asyncio.create_task(self._drain())
        return await super().on_tick(counter)

    async def _drain(self) -> None:
        await self._services.drain(self._services.config.drain_seconds)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the sessions first, for uvicorn would cut them off."""
        if self._draining is None:
            notify(STOPPING)
        else:
            self._draining.cancel()
        await self._services.close_sessions()
        await super().shutdown(sockets)
        log_event("server.end")  # here, for a signal ends the process behind us


def at_terminal() -> bool:
    """Whether somebody sees what we say, and presses Ctrl-C."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's where it is installed, a tenth less work per message; else asyncio's."""
    try:
        import uvloop  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` of a process that is a gateway: garbage is collected as suits one."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner, tended(runner.get_loop()):
        return runner.run(main)


def compute_alone() -> None:
    """Keep numpy's matrix products in the thread that asks for them. Ours are small; helper threads
    would spin on cores that the engine needs."""
    threadpool_limits(limits=1, user_api="blas")


def make_server(app: Starlette, accept: Accept | None = None) -> GatewayServer:
    """The server of `app` with our limits. accept: where connections come from, if not from bound
    sockets alone. Logging is the caller's. Raises ConfigError: its certificate cannot be used."""
    services: Services = app.state.services
    config, siblings = services.config, services.siblings
    keepers = None
    if siblings.folder is not None:
        keepers = Keepers(siblings.folder, siblings.number, services.relays.one)
    doors = Doors(
        services.connections,
        Unfinished(config.max_unfinished_bytes, services.refusals.add),
        config.head_seconds,
        SpareApp(app, services),
        services.refusals.add,
        keepers,
    )
    own = uvicorn_config(app, config, doors)
    began_with = siblings.credentials
    context = certified(config) if began_with is None else began_with.context()
    return GatewayServer(own, services, doors, context, accept)


def uvicorn_config(app: ASGIApp, config: GatewayConfig, doors: Doors) -> uvicorn.Config:
    """How `app` is served."""
    return uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(WatchedProtocol, doors=doors)),
        ws=PacedProtocol,
        # Base64 of sound: deflate costs several times what it saves.
        ws_per_message_deflate=False,
        ws_max_size=config.max_message_bytes,
        ws_ping_interval=PING_INTERVAL,
        ws_ping_timeout=PING_TIMEOUT,
        proxy_headers=bool(config.trusted_proxies),
        forwarded_allow_ips=[str(network) for network in on_both(config.trusted_proxies)],
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=5,
    )


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises OSError: the address is taken, not ours, or none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as error:
        raise OSError(f"{host!r} is no host name ({error})") from None
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        # At once: until one of them listens, several may be bound, and the last would serve nobody.
        sock.listen()
    except OSError:
        sock.close()
        raise
    sock.set_inheritable(False)
    return sock
