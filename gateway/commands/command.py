"""`lookhear serve`, and what `lookhear models` lists of this machine."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Sequence

from lookhear.engine.config import ConfigError, EngineConfig
from lookhear.engine.config.log import logging_to_stderr
from lookhear.engine.messages import ModelCard
from lookhear.gateway import catalogue
from lookhear.gateway.app.notify import READY, notify
from lookhear.gateway.app.server import bind, compute_alone, run
from lookhear.gateway.commands.arguments import check_aliases, engine_configs, gateway_config
from lookhear.gateway.commands.parent import lead
from lookhear.gateway.commands.serving import Gateway, refuse
from lookhear.gateway.commands.settings import read_settings
from lookhear.gateway.commands.startup import greet, server_console, tell_served
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.credentials import check_certificate
from lookhear.gateway.sockets.files import allow_more_files
from lookhear.gateway.tracing.otlp import check_tracing
from lookhear.gateway.workers.portions import check_portions

log = logging.getLogger(__name__)


def serve(argv: list[str]) -> int:
    """Runs until Ctrl-C or SIGTERM (exit 0). What cannot be served: a line on stderr and exit 2."""
    try:
        settings = read_settings(argv, os.environ)
    except ConfigError as error:
        return refuse(str(error))
    options = settings.options
    try:
        config = gateway_config(options)
        engines = engine_configs(options)
        check_aliases(config, engines)
        check_certificate(config)
        check_portions(config)
        check_tracing(config.otlp_endpoint)
        keys = config.read_keys()
    except ConfigError as error:
        return refuse(settings.located(str(error)))
    if options.print_config:
        print(settings.printed())
        return 0
    try:
        listening = bind(config.host, config.port)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason += ". Is another server running there? --port picks another"
        return refuse(f"cannot listen on {config.host} port {config.port}: {reason}")
    compute_alone()
    allow_more_files()
    logs = logging_to_stderr(options.log_level, options.log_format, secrets=keys)
    with listening, logs:
        try:
            if config.workers > 1:
                levels = (options.log_level, options.log_format)
                return asyncio.run(lead(config, engines, listening, *levels))
            return run(_serve(config, engines, listening))
        except KeyboardInterrupt:
            return 0
        except Exception:
            log.exception("the gateway stopped")
            return 1


async def _serve(
    config: GatewayConfig, engines: Sequence[EngineConfig], listening: socket.socket
) -> int:
    console, port = server_console(), int(listening.getsockname()[1])

    def loaded(models: Sequence[ModelCard]) -> None:
        tell_served(console, config, port, models)
        notify(READY)

    gateway = Gateway(config, engines, loaded, console)
    greet(console, config, engines)
    return await gateway.serve([listening])


def local_models() -> tuple[list[catalogue.Row], str]:
    """For `lookhear models`: what can be served here, and a line about what else can."""
    *kinds, last = dict.fromkeys(catalogue.SUPPORTED.values())  # several kinds may be one family
    advice = (
        f"Of the Hugging Face hub: any {', '.join(kinds)} or {last}, lookhear serve --model REPO"
    )
    return [*catalogue.packaged(), *catalogue.downloaded()], advice
