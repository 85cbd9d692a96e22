"""The host's part of a tick, on a device that is none: everybody is served, and by graphs."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.host import measured

pytestmark = pytest.mark.usefixtures("left_alone_again")


def options(**changes: object) -> argparse.Namespace:
    values: dict[str, object] = {
        "step": 0.02,
        "clock": 1.0,
        "every": 1.0,
        "rows": 8,
        "window": 8,
        "overlap": 1,
        "profile": True,
        "sockets": False,
        "functions": 0,
    }
    return argparse.Namespace(**{**values, **changes})


@pytest.mark.parametrize("family", ["qwen3-asr", "whisper"])
@pytest.mark.parametrize("load", ["ticks", "live"])
def test_everybody_ticks_once_a_second(family: str, load: str) -> None:
    found = measured(family, load, 5, options())
    assert 4.0 <= found["ticks_per_second"] <= 6.0
    assert found["us_per_tick"] > 0.0 and found["launches_per_step"] > 0.0
    assert set(found["profiled_us_per_tick"]) >= {"schedule", "launch", "wait", "commit"}
    named = {"launch: encode (whisper)"} if family == "whisper" else {"launch: integers"}
    assert set(found["profiled_us_per_tick"]) >= named
    if load == "live":
        assert 0.0 < found["us_per_tick_acting"] < found["us_per_tick"]
    if load == "ticks":
        assert 20.0 <= found["p95_ms"] < 1000.0


def test_ticks_come_as_often_as_they_are_served() -> None:
    found = measured("qwen3-asr", "ticks", 3, options(every=0.25, profile=False, step=0.01))
    assert 9.0 <= found["ticks_per_second"] <= 15.0


def test_what_the_socket_costs_is_told_apart() -> None:
    plain = measured("qwen3-asr", "live", 3, options(profile=False))
    through = measured("qwen3-asr", "live", 3, options(profile=False, sockets=True))
    assert through["us_per_tick_threads"] > 0 and "us_per_tick_threads" not in plain
    assert through["ticks_per_second"] == plain["ticks_per_second"]
