"""`lookhear serve --workers N`: what the parent gives each of them."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lookhear.engine.config import EngineConfig
from lookhear.gateway.app.notify import READY, STOPPING, notify
from lookhear.gateway.app.reload import has_files
from lookhear.gateway.app.server import at_terminal
from lookhear.gateway.commands.serving import refuse
from lookhear.gateway.commands.startup import greet, server_console, tell_workers
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.siblings import Siblings
from lookhear.gateway.sockets.relay import door
from lookhear.gateway.workers.portions import engines_of, portion
from lookhear.gateway.workers.supervisor import Setup, Supervisor

MEMORY = "/dev/shm"  # a folder, of Linux
ROOM = 1 << 20  # bytes for what a worker counts
WORKER = "lookhear.gateway.commands.worker"  # what their processes run


async def lead(
    config: GatewayConfig,
    engines: Sequence[EngineConfig],
    listening: socket.socket,
    log_level: str,
    log_format: str,
) -> int:
    """Until all workers have ended; an exit status."""
    try:
        made = _shared_folder(config.workers)
    except OSError as error:
        return refuse(f"workers: there is no folder that they could share: {error}")
    console, port = server_console(), int(listening.getsockname()[1])
    signer = secrets.token_bytes(32)
    greet(console, config, engines)
    tell_workers(console, config.workers)
    with made as name:
        folder = Path(name)
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


def _shared_folder(workers: int) -> tempfile.TemporaryDirectory[str]:
    """In memory where there is room for that, as others may fill a disk; on the disk where only
    that has some. Raises OSError."""
    try:
        made = _folder_in(MEMORY, workers)
    except OSError:
        return _folder_in(None, workers)
    if not _has_room(MEMORY, workers) and _has_room(tempfile.gettempdir(), workers):
        with contextlib.suppress(OSError):
            other = _folder_in(None, workers)
            made.cleanup()
            return other
    return made


def _has_room(folder: str, workers: int) -> bool:
    return shutil.disk_usage(folder).free >= workers * ROOM


def _folder_in(parent: str | None, workers: int) -> tempfile.TemporaryDirectory[str]:
    """parent: None for where temporary files are. Raises OSError."""
    # Nobody else can enter it: who listens there asks for no name.
    made = tempfile.TemporaryDirectory(prefix="lookhear-", dir=parent)
    with contextlib.ExitStack() as unused:
        unused.callback(made.cleanup)
        folder = Path(made.name)
        (folder / "metrics").mkdir()
        with socket.socket(socket.AF_UNIX) as trial:  # its name may be too long
            last = door(folder, workers)
            trial.bind(str(last))
            last.unlink()
        unused.pop_all()
    return made
