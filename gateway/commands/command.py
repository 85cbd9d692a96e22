"""`lookhear serve`, and what `lookhear models` lists of this machine."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from lookhear.engine.client.client import EngineClient, EngineStartError
from lookhear.engine.config import ConfigError, EngineConfig
from lookhear.engine.config.log import logging_to_stderr
from lookhear.gateway import catalogue
from lookhear.gateway.app.app import create_app
from lookhear.gateway.app.notify import READY, notify
from lookhear.gateway.app.reload import check_certificate
from lookhear.gateway.app.server import bind, compute_alone, make_server, run
from lookhear.gateway.commands.arguments import check_aliases, engine_configs, gateway_config
from lookhear.gateway.commands.settings import read_settings
from lookhear.gateway.commands.startup import LoadingBar, greet, tell_ready, url
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.sockets.files import allow_more_files
from lookhear.gateway.telemetry.log import log_event
from lookhear.gateway.tracing.otlp import tracer_provider

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger(__name__)

WRONG_USE = 2  # exit status: what was asked for cannot be done


def serve(argv: list[str]) -> int:
    """Runs until Ctrl-C or SIGTERM (exit 0). What cannot be served: a line on stderr and exit 2."""
    try:
        settings = read_settings(argv, os.environ)
    except ConfigError as error:
        return _refuse(str(error))
    options = settings.options
    try:
        config = gateway_config(options)
        engines = engine_configs(options)
        check_aliases(config, engines)
        check_certificate(config)
        traces = tracer_provider(config.otlp_endpoint)
    except ConfigError as error:
        return _refuse(settings.located(str(error)))
    if options.print_config:
        print(settings.printed())
        return 0
    try:
        listening = bind(config.host, config.port)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason += ". Is another server running there? --port picks another"
        return _refuse(f"cannot listen on {config.host} port {config.port}: {reason}")
    compute_alone()
    allow_more_files()
    logs = logging_to_stderr(options.log_level, options.log_format, secrets=config.api_keys)
    with listening, logs:
        try:
            return run(_serve(config, engines, listening, traces))
        except KeyboardInterrupt:
            return 0
        except Exception:
            log.exception("the gateway stopped")
            return 1


async def _serve(
    config: GatewayConfig,
    engines: Sequence[EngineConfig],
    listening: socket.socket,
    traces: TracerProvider | None,
) -> int:
    console = Console()
    port = int(listening.getsockname()[1])
    failure: Exception | None = None
    engine = EngineClient(engines)

    async def load() -> None:
        several = len(engines) > 1 or engines[0].replicas > 1
        with LoadingBar(console, several=several) as bar:
            await engine.load(bar.update)
        tell_ready(console, config, port, engine.models)
        notify(READY)
        served = [card.id for card in engine.models]
        log_event("server.ready", models=served, url=url(config, port))

    def stop(error: Exception) -> None:
        nonlocal failure
        failure = error
        server.should_exit = True

    server = make_server(create_app(config, engine, load, on_load_failure=stop, traces=traces))
    greet(console, config, engines)
    await server.serve(sockets=[listening])
    if isinstance(failure, EngineStartError):
        meant = filter(None, (catalogue.similar(config.model) for config in engines))
        hint = "".join(f". Did you mean {name}?" for name in dict.fromkeys(meant))
        return _refuse(f"{failure}{hint}")
    if failure is not None:
        raise failure
    return 0


def local_models() -> tuple[list[catalogue.Row], str]:
    """For `lookhear models`: what can be served here, and a line about what else can."""
    *kinds, last = catalogue.SUPPORTED.values()
    advice = (
        f"Of the Hugging Face hub: any {', '.join(kinds)} or {last}, lookhear serve --model REPO"
    )
    return [*catalogue.packaged(), *catalogue.downloaded()], advice


def _refuse(reason: str) -> int:
    print(f"lookhear serve: {reason}", file=sys.stderr)
    return WRONG_USE
