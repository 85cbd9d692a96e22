from __future__ import annotations

import asyncio

import numpy as np
import pytest

from lookhear.bench.capacity import Bounds
from lookhear.bench.measures.trace import RATE
from lookhear.bench.recordings.session import Session
from lookhear.bench.sweep import arrivals
from lookhear.errors import ServerError


def file(name: str) -> Session:
    return Session(name, np.zeros(RATE, "<i2"), "one two", (), "en")


def test_so_many_a_second_by_chance() -> None:
    due = arrivals.moments(4.0, 4000, seed=1)
    gaps = np.diff(due)
    assert due[0] == 0.0 and (gaps >= 0).all() and due == arrivals.moments(4.0, 4000, seed=1)
    # Poisson: the mean is the rate's, and the spread as large as the mean.
    assert gaps.mean() == pytest.approx(0.25, rel=0.05)
    assert gaps.std() == pytest.approx(0.25, rel=0.1)


async def test_who_waits_keeps_nobody_from_asking() -> None:
    """The first answer comes only when all have asked."""
    files = [file(str(number)) for number in range(3)]
    asked: list[str] = []
    everybody = asyncio.Event()

    async def ask(one: Session) -> str:
        asked.append(one.name)
        if len(asked) == len(files):
            everybody.set()
        await everybody.wait()
        return "one two"

    found, seconds = await arrivals.arrivals(ask, files, [0.0, 0.01, 0.02])
    assert asked == ["0", "1", "2"]
    assert [one.seconds > 0 for one in found] == [True] * 3
    # Each counts from its own moment.
    assert max(one.seconds for one in found) <= seconds


async def test_refusals_are_counted_and_no_texts() -> None:
    async def ask(one: Session) -> str:
        if one.name == "0":
            raise ServerError("too many")
        return "one three"

    files = [file("0"), file("1")]
    numbers = arrivals.numbers(files, *await arrivals.arrivals(ask, files, [0.0, 0.0]))
    assert numbers["refused"] == 1 and numbers["problems"] == ["too many"]
    assert numbers["answer_s"]["n"] == 1 and numbers["wer_all"] == 0.5
    bounds = Bounds(final=60.0, late=60.0)
    assert arrivals.verdict(3, numbers, bounds).reasons == ("1 files refused",)
    assert arrivals.verdict(3, {**numbers, "refused": 0}, bounds).holds
    slow = {**numbers, "refused": 0, "answer_s": {"n": 1, "p95": 61.0}}
    assert not arrivals.verdict(3, slow, bounds).holds
    late = {**numbers, "generator_late_s": 61.0}
    assert arrivals.verdict(3, late, bounds).holds is None
