"""The parts of the benchmark of the gateway alone: its engine, its frames, its verdict."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from benchmarks.gateway import best, verdict
from benchmarks.socket_load.flood import PACKET, frame, packets
from benchmarks.socket_load.null_engine import NullEngine
from benchmarks.socket_load.null_gateway import quantiles
from lookhear.engine.messages import (
    AppendAudio,
    CancelTurn,
    CloseSession,
    EndTurn,
    Event,
    Ping,
    Pong,
    StartTurn,
    TextCommitted,
    TranscriptionSettings,
    TurnCompleted,
)

SETTINGS = TranscriptionSettings("null")


def append(turn: str, seconds: float) -> AppendAudio:
    return AppendAudio("s", turn, np.zeros(int(seconds * 16_000), np.float32), 0)


def test_a_turn_of_the_null_engine() -> None:
    engine = NullEngine()
    events: list[Event] = engine.take(StartTurn("s", "t", SETTINGS))
    for _ in range(5):
        events += engine.take(append("t", 0.5))
    events += engine.take(EndTurn("s", "t"))
    texts = [event.text for event in events if isinstance(event, TextCommitted)]
    assert texts == ["word", " word"]
    assert events[-1] == TurnCompleted("s", "t", "word word", "en", 2.5, 2)


def test_what_the_null_engine_forgets() -> None:
    engine = NullEngine()
    for turn in ("one", "two", "three"):
        engine.take(StartTurn("s", turn, SETTINGS))
    engine.take(CancelTurn("s", "one"))
    assert engine.take(Ping(7)) == [Pong(7, {"requests": 5, "live_turns": 2})]
    engine.take(CloseSession("s"))
    assert engine.take(Ping(8)) == [Pong(8, {"requests": 7, "live_turns": 0})]


@pytest.mark.parametrize("size", [0, 5, 125, 126, 65_535, 65_536])
def test_frames_are_those_of_the_standard(size: int) -> None:
    text = bytes(range(65, 91)) * (size // 26 + 1)
    server = ServerProtocol(state=State.OPEN)
    server.receive_data(frame(text[:size], b"\x01\x80\xff\x07"))
    [found] = server.events_received()
    assert isinstance(found, Frame)
    assert (found.opcode, bytes(found.data)) == (Opcode.TEXT, text[:size])


def test_packets_carry_the_recording() -> None:
    samples = np.arange(PACKET * 3 + 7, dtype=np.int16)
    server, heard = ServerProtocol(state=State.OPEN), b""
    for packet in packets(samples):
        server.receive_data(packet)
    for found in server.events_received():
        assert isinstance(found, Frame)
        event = json.loads(bytes(found.data))
        assert event["type"] == "input_audio_buffer.append"
        heard += base64.b64decode(event["audio"])
    assert heard == samples[: PACKET * 3].tobytes()


def run(**changes: Any) -> dict[str, Any]:
    good = {
        "mode": "manual",
        "sessions": 100,
        "sessions_lost": 0,
        "backlog_seconds_per_session": 0.01,
        "lag_ms": {"p99": 10.0},
        "generator": {"errors": 0, "late_ms": {"p99": 1.0}},
    }
    return good | changes


def test_what_counts_as_carried() -> None:
    assert verdict(run()) == "carried"
    assert verdict(run(lag_ms={"p99": 50.0})) == "loop late"
    assert verdict(run(sessions_lost=1)) == "sessions lost"
    assert verdict(run(backlog_seconds_per_session=0.6)) == "falls behind"
    late = {"errors": 0, "late_ms": {"p99": 30.0}}
    assert verdict(run(generator=late)) == "generator late"


def test_the_best_run() -> None:
    runs = [run(sessions=n, verdict=v) for n, v in ((10, "carried"), (30, "loop late"))]
    found = best(runs, "manual")
    assert found is not None and found["sessions"] == 10
    assert best(runs, "server_vad") is None


def test_quantiles() -> None:
    assert quantiles([]) == {}
    assert quantiles([1.0, 3.0]) == {"mean": 2.0, "p50": 2.0, "p95": 2.9, "p99": 2.98, "max": 3.0}
