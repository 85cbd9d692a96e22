"""The engine process: loads one model and steps it for ever. Started by `engine.client.client`.

Three threads: the two of its `Channel`, and the main one, which alone touches the model: it takes
what is in the inbox, steps, and sends the events. The process ends when its socket closes, so it
never outlives the gateway.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import logging
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from lookhear.engine.client.channel import Channel
from lookhear.engine.config import EngineConfig
from lookhear.engine.config.log import logging_to_stderr
from lookhear.engine.device.allocator import keep_fewer_products, keep_freed_memory
from lookhear.engine.device.garbage import tended, unlooked_at
from lookhear.engine.messages import EngineFailed, Message, Pong, Ready, Shutdown, Starting

if TYPE_CHECKING:  # see `serve`
    from lookhear.engine.admission.admission import Admission
    from lookhear.engine.core.core import EngineCore

log = logging.getLogger("lookhear.engine.process")  # its __name__ is __main__

# In front of a step, for taking messages. Most take nothing, but prompts and grammars are made
# there: what is left waits for the next step, so that answers go on while many are asked for.
TAKING_SECONDS = 0.25

# Statuses. 0 means that the gateway ended it.
EXIT_STOPPED, EXIT_CANNOT_START = 1, 3


def serve(config: EngineConfig, channel: Channel) -> int:
    """Load, say `Ready`, and step until the gateway hangs up. Returns the exit status; raises
    what nothing can be done about."""
    # Imported here: torch takes seconds, and the gateway wants to show that something happens.
    channel.send(Starting("loading torch", 0.0))
    keep_fewer_products()
    with unlooked_at():
        from lookhear.engine.admission.rehearsal import rehearse
        from lookhear.engine.checkpoints.loader import CheckpointError
        from lookhear.engine.core.request_times import RequestTimes
        from lookhear.engine.families.build import build_core

    try:
        built = build_core(config, lambda stage, share: channel.send(Starting(stage, share)))
    except (CheckpointError, OSError, ValueError, RuntimeError) as error:
        channel.send(EngineFailed("model_not_loaded", str(error)))
        return EXIT_CANNOT_START
    core, admission = built.core, built.admission
    if admission is not None:
        channel.send(Starting("measuring updates", 1.0))
        if (rehearsal := rehearse(core, built.config.name, time.perf_counter)) is not None:
            admission.rehearsed(rehearsal)
    core.times = RequestTimes(time.perf_counter)
    log.info("ready on %s in %s", built.device, built.dtype)
    channel.send(Ready([built.card], built.config.max_live_turns, built.device, built.dtype))
    keep_freed_memory()
    with tended(time.perf_counter()) as tend:
        return step_until_told(core, admission, config, channel, tend)


def step_until_told(
    core: EngineCore,
    admission: Admission | None,
    config: EngineConfig,
    channel: Channel,
    tend: Callable[[float, bool], None],
) -> int:
    """Until the gateway hangs up; the exit status. tend: see `garbage.tended`."""
    busy_seconds = longest_step = 0.0
    messages: deque[Message | None] = deque()
    while True:
        has_work = core.has_work
        tend(time.perf_counter(), not has_work)
        if not messages:
            messages.extend(channel.inbox.take(wait=not has_work))
        began = submitted = time.perf_counter()
        if admission is not None:
            admission.now = began
        while messages and submitted - began < TAKING_SECONDS:
            message = messages.popleft()
            if message is None and channel.failure is not None:
                raise channel.failure
            if message is None or isinstance(message, Shutdown):
                return 0
            core.submit(message)
            submitted = time.perf_counter()
        events = core.step()
        now = time.perf_counter()
        busy_seconds += now - submitted
        longest_step = max(longest_step, now - began)
        if admission is not None:
            admission.stepped(core.last_step, now - began)
        for event in events:
            if isinstance(event, Pong):  # the core has no clock
                is_bounded = admission is not None and config.max_lag_seconds > 0
                load = admission.load() if admission is not None and is_bounded else None
                event = dataclasses.replace(
                    event, busy_seconds=busy_seconds, load=load, longest_step=longest_step
                )
            channel.send(event)


def main(argv: list[str]) -> int:
    """`… --fd N --config JSON`: N is an inherited, connected socket."""
    parser = argparse.ArgumentParser(prog="lookhear.engine.process")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--config", required=True)
    arguments = parser.parse_args(argv)
    config = EngineConfig(**json.loads(arguments.config))
    channel = Channel(socket.socket(fileno=arguments.fd))
    whose = {"worker": str(config.worker)} if config.workers > 1 else {}
    with logging_to_stderr(config.log_level, config.log_format, engine=config.name, **whose):
        try:
            return serve(config, channel)
        except Exception as error:
            log.exception("the engine stopped")
            # Python's own MemoryError says nothing.
            is_full = isinstance(error, MemoryError)
            reason = str(error) or ("out of memory" if is_full else repr(error))
            channel.send(EngineFailed("engine_died", f"the engine stopped: {reason}"))
            return EXIT_STOPPED
        finally:
            channel.close()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    finally:
        # It goes with the process: to look for cycles in torch takes half a second. Triton, which
        # is there on a GPU, complains of what is left.
        if "triton" not in sys.modules:
            gc.freeze()
