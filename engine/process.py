"""The engine process: loads one model and steps it for ever. Started by `engine.client.client`.

Three threads: a reader (socket -> inbox), a writer (outbox -> socket), and the main one, which
alone touches the model: it drains the inbox, steps, and puts the events in the outbox. The process
ends when its socket closes, so it never outlives the gateway.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import logging
import queue
import socket
import sys
import threading
import time

from lookhear.engine.client.wire import PREFIX, Codec
from lookhear.engine.config import EngineConfig
from lookhear.engine.device.allocator import keep_freed_memory
from lookhear.engine.messages import (
    EngineFailed,
    Event,
    Message,
    Pong,
    Ready,
    Shutdown,
    Starting,
)

log = logging.getLogger(__name__)

EXIT_CANNOT_START = 3


class Channel:
    """Frames over a connected socket, with a thread for each direction."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._codec = Codec()
        self.inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()  # None: closed
        self._outbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="engine-writer", daemon=True)
        self._reader = threading.Thread(target=self._read, name="engine-reader", daemon=True)
        self._writer.start()
        self._reader.start()

    def send(self, event: Event) -> None:
        self._outbox.put(event)

    def close(self) -> None:
        """Send what is waiting, then hang up."""
        self._outbox.put(None)
        self._writer.join(timeout=5.0)
        self._socket.close()

    def _write(self) -> None:
        while (event := self._outbox.get()) is not None:
            try:
                self._socket.sendall(b"".join(self._codec.encode(event)))
            except OSError:
                return  # the gateway is gone; the reader notices too

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as stream:
                while len(prefix := stream.read(PREFIX.size)) == PREFIX.size:
                    header_bytes, payload_bytes = PREFIX.unpack(prefix)
                    header, payload = stream.read(header_bytes), stream.read(payload_bytes)
                    self.inbox.put(self._codec.decode(header, payload))
        except OSError:
            pass  # the gateway is gone
        finally:
            self.inbox.put(None)


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
    channel.send(
        Ready(
            [built.card],
            built.config.max_live_turns,
            built.device,
            built.dtype,
        )
    )
    gc.collect()
    gc.freeze()  # what is loaded now stays for good; the collector need not walk it again
    keep_freed_memory()
    busy_seconds = 0.0
    while True:
        message = None
        if not core.has_work:
            message = channel.inbox.get()
            if message is None or isinstance(message, Shutdown):
                return 0
            core.submit(message)
        while not channel.inbox.empty():
            message = channel.inbox.get()
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
