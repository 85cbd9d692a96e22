"""One gateway process: its engines are loaded beside its server."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from lookhear.engine.client.client import EngineClient, EngineStartError
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import ModelCard
from lookhear.gateway import catalogue
from lookhear.gateway.app.app import create_app
from lookhear.gateway.app.server import make_server
from lookhear.gateway.commands.startup import LoadingBar
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.services import Services
from lookhear.gateway.services.siblings import Siblings
from lookhear.gateway.sockets.handshakes import Accept
from lookhear.gateway.tracing.otlp import metrics_exporting, tracer_provider

WRONG_USE = 2  # exit status: what was asked for cannot be done


def refuse(reason: str) -> int:
    """A line on stderr, and the exit status."""
    print(f"lookhear serve: {reason}", file=sys.stderr)
    return WRONG_USE


class Gateway:
    """loaded: told the models when all are. console: where the loading is shown; None: nowhere.
    siblings, accept: of a worker. Raises ConfigError."""

    def __init__(
        self,
        config: GatewayConfig,
        engines: Sequence[EngineConfig],
        loaded: Callable[[Sequence[ModelCard]], None],
        console: Console | None,
        *,
        siblings: Siblings | None = None,
        accept: Accept | None = None,
    ) -> None:
        self._engines = engines
        self._loaded = loaded
        self._console = console
        self._failure: Exception | None = None
        self._engine = EngineClient(engines)
        app = create_app(
            config,
            self._engine,
            self._load,
            on_load_failure=self._stop,
            traces=tracer_provider(config.otlp_endpoint),
            numbers=metrics_exporting(config.otlp_endpoint),
            siblings=siblings,
        )
        self.services: Services = app.state.services
        self._server = make_server(app, accept)

    async def serve(self, sockets: Sequence[socket.socket] = ()) -> int:
        """Until a signal, or `end`; an exit status. sockets: bound ones."""
        await self._server.serve(sockets=list(sockets))
        if isinstance(self._failure, EngineStartError):
            meant = filter(None, (catalogue.similar(config.model) for config in self._engines))
            hint = "".join(f". Did you mean {name}?" for name in dict.fromkeys(meant))
            return refuse(f"{self._failure}{hint}")
        if self._failure is not None:
            raise self._failure
        return 0

    def end(self) -> None:
        """At once, as Ctrl-C."""
        self._server.should_exit = True

    async def _load(self) -> None:
        if self._console is None:
            await self._engine.load()
        else:
            several = len(self._engines) > 1 or self._engines[0].replicas > 1
            with LoadingBar(self._console, several=several) as bar:
                await self._engine.load(bar.update)
        self._loaded(self._engine.models)

    def _stop(self, error: Exception) -> None:
        self._failure = error
        self.end()
