"""`lookhear serve --workers N`: what the parent gives each of them."""

from __future__ import annotations

import secrets
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lookhear.engine.config import EngineConfig
from lookhear.gateway.app.notify import READY, STOPPING, notify
from lookhear.gateway.app.reload import has_files
from lookhear.gateway.app.server import at_terminal
from lookhear.gateway.commands.startup import greet, server_console, tell_workers
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.siblings import Siblings
from lookhear.gateway.workers.portions import engines_of, portion
from lookhear.gateway.workers.supervisor import Setup, Supervisor

WORKER = "lookhear.gateway.commands.worker"  # what their processes run


async def lead(
    config: GatewayConfig,
    engines: Sequence[EngineConfig],
    listening: socket.socket,
    log_level: str,
    log_format: str,
) -> int:
    """Until all workers have ended; an exit status."""
    console, port = server_console(), int(listening.getsockname()[1])
    signer = secrets.token_bytes(32)
    greet(console, config, engines)
    tell_workers(console, config.workers)
    # Nobody else can enter it: who listens there asks for no name.
    with tempfile.TemporaryDirectory(prefix="lookhear-") as name:
        folder = Path(name)
        (folder / "metrics").mkdir()
        setups = [
            Setup(
                portion(config, number),
                engines_of(engines, number),
                Siblings(number, folder, signer),
                port,
                log_level,
                log_format,
                greets=number == 1,
            )
            for number in range(1, config.workers + 1)
        ]
        supervisor = Supervisor(
            setups,
            listening,
            folder,
            WORKER,
            is_reloadable=has_files(config) or not at_terminal(),
            on_ready=lambda: notify(READY),
            on_end=lambda: notify(STOPPING),
        )
        return await supervisor.run()
