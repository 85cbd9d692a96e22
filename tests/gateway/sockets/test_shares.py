"""Shares of the event loop: the modest never wait, floods do, and who is alone has all of it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.sockets.shares import CROWD, FREE, LONGEST, MEMORY, Shares

USES = st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 2.0), st.floats(0.0, 0.5)), max_size=40)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(USES)
def test_who_needs_little_never_waits_whatever_others_do(
    uses: list[tuple[int, float, float]],
) -> None:
    """A microphone: a hundredth of the loop, fifty times a second, among floods."""
    clock = Clock()
    shares = Shares(clock, clock)
    floods, microphone = [shares.one() for _ in range(4)], shares.one()
    for which, seconds, pause in uses:
        floods[which].charge(seconds)
        microphone.charge(0.01 * 0.02)
        assert microphone.rest() == 0.0
        clock.now += 0.02 + pause


@given(USES, st.integers(0, 3))
def test_a_rest_is_bounded_and_is_enough(uses: list[tuple[int, float, float]], which: int) -> None:
    """Once it has rested for as long as it was told to, unless that was the longest, and nobody did
    anything else, it may go on."""
    clock = Clock()
    shares = Shares(clock, clock)
    all_of_them = [shares.one() for _ in range(4)]
    for one, seconds, pause in uses:
        all_of_them[one].charge(seconds)
        clock.now += pause
    share = all_of_them[which]
    rest = share.rest()
    assert 0.0 <= rest <= LONGEST
    if rest < LONGEST:
        clock.now += rest
        assert share.rest() <= 1e-9 * MEMORY


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), max_size=30))
def test_who_is_alone_with_the_loop_never_waits(uses: list[tuple[float, float]]) -> None:
    clock = Clock()
    shares = Shares(clock, clock)
    share = shares.one()
    for seconds, pause in uses:
        share.charge(seconds)
        assert share.rest() == 0.0
        clock.now += pause


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_floods_share_alike_in_a_part_of_the_loop(count: int) -> None:
    """Each works whenever it may, a millisecond at a time; a microphone is there."""
    clock = Clock()
    shares = Shares(clock, clock)
    floods, microphone = [shares.one() for _ in range(count)], shares.one()
    until, spent = [clock.now] * count, [0.0] * count
    heard = clock.now
    end = clock.now + 30.0
    while clock.now < end:
        if clock.now >= heard:
            microphone.charge(0.0002)
            assert microphone.rest() == 0.0
            heard += 0.02
        due = [index for index in range(count) if until[index] <= clock.now]
        for index in due:
            clock.now += 0.001
            floods[index].charge(0.001)
            spent[index] += 0.001
            until[index] = clock.now + floods[index].rest()
        if not due:
            clock.now += 0.0005
    assert 0.8 * CROWD <= sum(spent) / 30.0 <= 1.2 * max(CROWD, count * FREE)
    assert max(spent) <= 1.2 * min(spent)


async def test_what_waits_is_not_charged_and_what_works_is() -> None:
    """The processor's clock of a piece of work goes on only while it runs."""
    clock, processor = Clock(), Clock()
    shares = Shares(clock, processor)
    share = shares.one()
    gate = asyncio.Event()
    ended: list[str] = []

    async def work() -> None:
        processor.now += 0.25
        try:
            await gate.wait()
        except asyncio.CancelledError:
            processor.now += 0.5
            ended.append("cancelled")
            raise

    task = asyncio.create_task(share.metered(work()))
    await asyncio.sleep(0)
    processor.now += 100.0  # somebody else's
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"]
    assert share.average.at(clock.now) == pytest.approx(0.75 / MEMORY)


async def test_metered_work_fails_as_it_would() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise LookupError("its own")

    with pytest.raises(LookupError, match="its own"):
        await Shares(Clock(), Clock()).one().metered(work())
