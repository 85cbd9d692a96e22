"""The process of one of several workers: `python -m lookhear.gateway.commands.worker --fd N`.

N is an inherited socket, the other end of which the parent holds; the `Setup` is on the standard
input. A worker ends with its parent.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import logging
import pickle
import socket
import sys

from lookhear.engine.config.log import logging_to_stderr
from lookhear.gateway.app.server import compute_alone, run
from lookhear.gateway.commands.serving import Gateway
from lookhear.gateway.commands.startup import server_console, tell_served
from lookhear.gateway.sockets.files import allow_more_files
from lookhear.gateway.workers.control import Control, Message
from lookhear.gateway.workers.supervisor import CONNECTION, STATES, Setup

log = logging.getLogger(__name__)

# Between two looks at what there is to report, and between two reports at most: the parent counts
# what it has given since, but not what has ended.
LOOK_SECONDS, REPORT_LOOKS = 0.1, 5


class Worker:
    """One of them, on its event loop."""

    def __init__(self, setup: Setup, control: socket.socket) -> None:
        self._setup = setup
        self._console = server_console()
        self._came: asyncio.Queue[tuple[socket.socket, object]] = asyncio.Queue()
        self._received = 0
        self._is_told = not setup.greets
        self._gateway = Gateway(
            setup.config,
            setup.engines,
            lambda models: None,  # it is reported
            self._console if setup.greets else None,
            siblings=setup.siblings,
            accept=self._came.get,
        )
        self._control = Control(control, self._heard, self._gateway.end)

    async def serve(self) -> int:
        """Until a signal or the parent's end; an exit status."""
        reporting = asyncio.create_task(self._report_on())
        try:
            return await self._gateway.serve()
        finally:
            reporting.cancel()
            self._control.close()

    async def _report_on(self) -> None:
        services, said = self._gateway.services, None
        for look in itertools.count():
            is_due = look % REPORT_LOOKS == 0
            status = services.status
            # For whichever worker is asked for its numbers. Who is told that it is ready finds its
            # engines so there, too.
            if is_due or said is None or status != said["status"]:
                services.see_engines()
            report = {
                "status": status,
                "working": services.connections.working,
                "received": self._received,
                "is_full": services.is_full,
            }
            if is_due or report != said:
                self._control.send(report)
                said = report
            await asyncio.sleep(LOOK_SECONDS)

    def _heard(self, told: Message, connection: socket.socket | None) -> None:
        if told["kind"] == CONNECTION and connection is not None:
            self._received += 1
            connection.setblocking(False)
            self._came.put_nowait((connection, _peer(connection)))
        elif told["kind"] == STATES:
            siblings = self._setup.siblings
            siblings.states = {int(number): s for number, s in told["states"].items()}
            if not self._is_told and siblings.status("ready") == "ready":
                self._is_told = True
                setup, models = self._setup, self._gateway.services.engine.models
                tell_served(self._console, setup.config, setup.port, models)


def _peer(connection: socket.socket) -> object:
    try:
        return connection.getpeername()
    except OSError:  # it went before we came
        return ""


async def _serve(setup: Setup, control: socket.socket) -> int:
    return await Worker(setup, control).serve()


def main(argv: list[str]) -> int:
    """`--fd N`; its exit status is that of a gateway that is alone."""
    parser = argparse.ArgumentParser(prog="lookhear.gateway.commands.worker")
    parser.add_argument("--fd", type=int, required=True)
    control = socket.socket(fileno=parser.parse_args(argv).fd)
    # It comes from the process that started this one, and from nobody else.
    setup: Setup = pickle.load(sys.stdin.buffer)
    compute_alone()
    allow_more_files()
    began_with = setup.siblings.credentials
    assert began_with is not None
    logs = logging_to_stderr(
        setup.log_level,
        setup.log_format,
        secrets=began_with.keys,
        worker=str(setup.siblings.number),
    )
    with logs:
        try:
            return run(_serve(setup, control))
        except KeyboardInterrupt:
            return 0
        except Exception:
            log.exception("the gateway stopped")
            return 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    finally:
        gc.freeze()  # as `lookhear` ends, too
