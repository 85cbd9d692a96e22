"""Keeps one engine process alive: starts it again when it dies, kills it when it hangs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from lookhear.engine.client.errors import EngineUnavailable
from lookhear.engine.client.replica import Replica

log = logging.getLogger(__name__)

RESTART_PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds after each next death in a row
STEADY_SECONDS = 60.0  # whoever lived so long begins a new row
SILENCE_LIMIT = 60.0  # seconds without an answer after which an engine is ended


async def keep_alive(
    replica: Replica,
    closing: asyncio.Event,
    first_start: asyncio.Event,
    was_ready: Callable[[Replica], bool],
    on_death: Callable[[Replica, int], None],
) -> None:
    """Until closing is set, when the gateway ends. The first start is not retried: its failure is a
    wrong setting. was_ready: whether the engine has been ready once. on_death: told of each death,
    with the exit status, before the next start."""
    clock = asyncio.get_running_loop().time
    deaths = 0
    while not closing.is_set():
        started = asyncio.Event() if first_start.is_set() else first_start
        began = clock()
        heartbeat = asyncio.create_task(_heartbeat(replica, started))
        try:
            status = await replica.run(started)
        except OSError as error:  # no process, no socket pair: the machine is out of something
            log.error("engine of %s cannot be started: %s", replica.config.name, error)
            status = -1
        finally:
            heartbeat.cancel()
            first_start.set()
        if closing.is_set() or not was_ready(replica):
            return
        on_death(replica, status)
        deaths = 1 if clock() - began >= STEADY_SECONDS else deaths + 1
        pause = RESTART_PAUSES[min(deaths, len(RESTART_PAUSES)) - 1]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await closing.wait()


async def _heartbeat(replica: Replica, started: asyncio.Event) -> None:
    """Ping the engine and count how long it is silent; kill it when that is long. `Replica.run`
    sees it end.

    Silence is counted in heartbeats, not by the clock: this process may have been stopped for
    minutes, or both, and then it is the one that asked nothing.
    """
    await started.wait()
    replica.silence, was_answering = 0.0, True
    while replica.ready is not None:
        if replica.is_answering != was_answering:
            was_answering = not was_answering
            now = "answers again" if was_answering else "does not answer; nobody new is let in"
            log.warning("engine of %s %s", replica.config.name, now)
        if replica.silence > SILENCE_LIMIT:
            log.error("engine of %s does not answer; killing it", replica.config.name)
            replica.kill()
            return
        last = replica.last_pong
        with contextlib.suppress(EngineUnavailable):  # its silence is what counts
            replica.ping()
        await asyncio.sleep(replica.config.heartbeat_seconds)
        if replica.last_pong == last:
            replica.silence += replica.config.heartbeat_seconds
        else:
            replica.silence = 0.0
