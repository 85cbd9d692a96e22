"""How long requests waited and took, by a clock that the test moves."""

from __future__ import annotations

import pytest

from lookhear.engine.core.request_times import RequestTimes


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_it_waits_from_when_it_was_wanted_first(clock: Clock) -> None:
    times = RequestTimes(clock)
    times.wanted("a")
    clock.now = 2.0
    times.wanted("a")  # newer audio
    clock.now = 3.0
    times.begun("a")
    clock.now = 3.5
    assert times.ended("a") == (3.0, 0.5) and not len(times)


def test_who_is_forgotten_waits_anew(clock: Clock) -> None:
    times = RequestTimes(clock)
    times.wanted("a")
    times.wanted("b")
    times.begun("b")
    times.forget("a")
    times.forget("b")
    times.forget("b")
    assert not len(times)
    clock.now = 5.0
    times.wanted("a")
    clock.now = 6.0
    times.begun("a")
    assert times.ended("a") == (1.0, 0.0)
