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

from lookhear.engine.client.channel import Channel
from lookhear.engine.config import EngineConfig
from lookhear.engine.device.allocator import keep_freed_memory
from lookhear.engine.messages import EngineFailed, Pong, Ready, Shutdown, Starting

log = logging.getLogger(__name__)

EXIT_CANNOT_START = 3


def serve(config: EngineConfig, channel: Channel) -> int:
    """Load, say `Ready`, and step until the gateway hangs up. Returns the exit status."""
    # Imported here: torch takes seconds, and the gateway wants to show that something happens.
    channel.send(Starting("loading torch", 0.0))
    from lookhear.engine.checkpoints.loader import CheckpointError
    from lookhear.engine.families.build import build_core

    try:
        built = build_core(config, lambda stage, share: channel.send(Starting(stage, share)))
    except (CheckpointError, OSError, ValueError, RuntimeError) as error:
        channel.send(EngineFailed("model_not_loaded", str(error)))
        return EXIT_CANNOT_START
    core = built.core
    channel.send(Ready([built.card], built.config.max_live_turns, built.device, built.dtype))
    gc.collect()
    gc.freeze()  # what is loaded now stays for good; the collector need not walk it again
    keep_freed_memory()
    busy_seconds = 0.0
    while True:
        for message in channel.inbox.take(wait=not core.has_work):
            if message is None or isinstance(message, Shutdown):
                return 0
            core.submit(message)
        began = time.perf_counter()
        events = core.step()
        busy_seconds += time.perf_counter() - began
        for event in events:
            if isinstance(event, Pong):  # the core has no clock
                event = dataclasses.replace(event, busy_seconds=busy_seconds)
            channel.send(event)


def main(argv: list[str]) -> int:
    """`… --fd N --config JSON`: N is an inherited, connected socket."""
    parser = argparse.ArgumentParser(prog="lookhear.engine.process")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--config", required=True)
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    config = EngineConfig(**json.loads(arguments.config))
    channel = Channel(socket.socket(fileno=arguments.fd))
    try:
        return serve(config, channel)
    except Exception as error:
        log.exception("the engine stopped")
        channel.send(EngineFailed("engine_died", f"the engine stopped: {error}"))
        return 1
    finally:
        channel.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
