"""An engine without a model: takes all messages over the real channel, says what keeps sessions
alive. For measuring the gateway alone. Run like `engine.process`, by `EngineClient(module=...)`.

A turn says one word per second of its audio and is completed as soon as it has ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sys
from dataclasses import dataclass, field

from lookhear.engine.client.wire import PREFIX, Codec
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelTurn,
    CloseSession,
    EndTurn,
    Event,
    Message,
    ModelCard,
    Ping,
    Pong,
    Ready,
    Shutdown,
    StartTurn,
    TextCommitted,
    TurnCompleted,
)

CORES = "NULL_ENGINE_CORES"  # environment: which cores it may use, "1,2"


@dataclass(slots=True)
class _Turn:
    samples: int = 0
    text: list[str] = field(default_factory=list)


class NullEngine:
    """The messages of one channel, answered."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str], _Turn] = {}
        self.messages = 0
        self.samples = 0

    def take(self, message: Message) -> list[Event]:
        """One message -> what is said to it, at once."""
        self.messages += 1
        match message:
            case StartTurn(session, turn):
                self._turns[session, turn] = _Turn()
            case AppendAudio(session, turn, samples):
                return self._hear(session, turn, len(samples))
            case EndTurn(session, turn):
                known = self._turns.pop((session, turn))
                text, seconds = "".join(known.text), known.samples / SAMPLE_RATE
                return [TurnCompleted(session, turn, text, "en", seconds, len(known.text))]
            case CancelTurn(session, turn):
                self._turns.pop((session, turn), None)
            case CloseSession(session):
                self._turns = {key: t for key, t in self._turns.items() if key[0] != session}
            case Ping(number):
                return [Pong(number, {"requests": self.messages, "live_turns": len(self._turns)})]
            case _:
                pass
        return []

    def _hear(self, session: str, turn: str, samples: int) -> list[Event]:
        known = self._turns[session, turn]
        known.samples += samples
        self.samples += samples
        if known.samples // SAMPLE_RATE == len(known.text):
            return []
        word = " word" if known.text else "word"
        known.text.append(word)
        return [TextCommitted(session, turn, word)]


def main(argv: list[str]) -> int:
    """`python -m benchmarks.socket_load.null_engine --fd N --config JSON`, as `engine.process`."""
    if cores := os.environ.get(CORES):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    parser = argparse.ArgumentParser(prog="null_engine")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--config", required=True)
    arguments = parser.parse_args(argv)
    config = EngineConfig(**json.loads(arguments.config))
    card = ModelCard(config.name, "null", ["en"], 0, 0)
    engine, codec = NullEngine(), Codec()
    # One thread for all: it shares its core with the load generator.
    gone = contextlib.suppress(ConnectionError)  # the gateway
    with (
        gone,
        socket.socket(fileno=arguments.fd) as connection,
        connection.makefile("rb") as stream,
    ):

        def send(event: Event) -> None:
            connection.sendall(b"".join(codec.encode(event)))

        send(Ready([card], config.max_live_turns or 64, "none", "none"))
        while len(prefix := stream.read(PREFIX.size)) == PREFIX.size:
            header_bytes, payload_bytes = PREFIX.unpack(prefix)
            message = codec.decode(stream.read(header_bytes), stream.read(payload_bytes))
            if isinstance(message, Shutdown):
                break
            for event in engine.take(message):
                send(event)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
