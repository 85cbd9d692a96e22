"""`lookhear serve`, and what `lookhear models` lists of this machine."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import Sequence

from rich.console import Console

from lookhear.engine.client.client import EngineClient, EngineStartError
from lookhear.engine.config import ConfigError, EngineConfig
from lookhear.gateway import catalogue
from lookhear.gateway.app.app import create_app
from lookhear.gateway.app.server import bind, check_certificate, compute_alone, make_server, run
from lookhear.gateway.commands.arguments import engine_configs, gateway_config, serve_parser
from lookhear.gateway.commands.startup import LoadingBar, greet, tell_ready
from lookhear.gateway.config import GatewayConfig

WRONG_USE = 2  # exit status: what was asked for cannot be done


def serve(argv: list[str]) -> int:
    """Runs until Ctrl-C (exit 0). What cannot be served is one line on stderr and exit 2."""
    options = serve_parser().parse_args(argv)
    try:
        config = gateway_config(options, os.environ)
        engines = engine_configs(options, os.environ)
        check_certificate(config)
    except ConfigError as error:
        return _refuse(str(error))
    try:
        listening = bind(config.host, config.port)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason += ". Is another server running there? --port picks another"
        return _refuse(f"cannot listen on {config.host} port {config.port}: {reason}")
    _set_up_logging(options.log_level)
    compute_alone()
    with listening:
        try:
            return run(_serve(config, engines, listening))
        except KeyboardInterrupt:
            return 0


async def _serve(
    config: GatewayConfig, engines: Sequence[EngineConfig], listening: socket.socket
) -> int:
    console = Console()
    port = int(listening.getsockname()[1])
    failure: Exception | None = None
    engine = EngineClient(engines)

    async def load() -> None:
        with LoadingBar(console, several=len(engines) > 1) as bar:
            await engine.load(bar.update)
        tell_ready(console, config, port, engine.models)

    def stop(error: Exception) -> None:
        nonlocal failure
        failure = error
        server.should_exit = True

    server = make_server(create_app(config, engine, load, on_load_failure=stop))
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


def _set_up_logging(level: str) -> None:
    """JSON lines of ours on stderr; uvicorn's own talk only when debugging."""
    logging.basicConfig(level=level.upper(), format="%(message)s", stream=sys.stderr)
    for name in ("uvicorn", "uvicorn.error", "asyncio", "httpx"):
        logging.getLogger(name).setLevel("DEBUG" if level == "debug" else "WARNING")
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """uvicorn takes every handshake that was refused, with a status and in words, for a bug of
    ours; our own line has told of it."""
    return not record.getMessage().startswith("ASGI callable returned without completing")


def _refuse(reason: str) -> int:
    print(f"lookhear serve: {reason}", file=sys.stderr)
    return WRONG_USE
