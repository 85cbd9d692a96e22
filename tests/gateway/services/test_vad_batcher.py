"""Windows of many sessions are judged together, and each session gets its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from lookhear.gateway.services.vad_batcher import MOST_WINDOWS, VadBatcher
from lookhear.media.voice.silero import CONTEXT, WINDOW, SileroModel, SileroStream

Windows = NDArray[np.float32]


class Recorder(SileroModel):
    """Says what stands in the first sample of each window."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.error: Exception | None = None

    def judge(
        self, streams: Sequence[SileroStream], windows: Sequence[Windows]
    ) -> list[NDArray[np.float32]]:
        self.batches.append([len(own) for own in windows])
        if self.error is not None:
            raise self.error
        return [own[:, 0] for own in windows]


def windows(*values: float) -> Windows:
    found = np.zeros((len(values), CONTEXT + WINDOW), np.float32)
    found[:, 0] = values
    return found


@pytest.fixture
def model() -> Recorder:
    return Recorder()


@pytest_asyncio.fixture
async def voices(model: Recorder) -> AsyncIterator[VadBatcher]:
    with ThreadPoolExecutor(1) as threads:
        yield VadBatcher(model, threads)


async def test_what_waits_goes_together(voices: VadBatcher, model: Recorder) -> None:
    asked = [voices.judge(SileroStream(), windows(*[i] * (i + 1))) for i in range(5)]
    assert await asyncio.gather(*asked) == [[float(i)] * (i + 1) for i in range(5)]
    assert model.batches == [[1], [2, 3, 4, 5]], "the first does not wait"


async def test_nothing_to_judge_costs_nothing(voices: VadBatcher, model: Recorder) -> None:
    assert await voices.judge(SileroStream(), windows()) == []
    assert model.batches == []


async def test_much_of_one_session_does_not_hold_up_the_others(
    voices: VadBatcher, model: Recorder
) -> None:
    much = asyncio.create_task(voices.judge(SileroStream(), windows(*[0.5] * 200)))
    await asyncio.sleep(0)
    assert await voices.judge(SileroStream(), windows(0.25)) == [0.25]
    assert 1 in model.batches[1] and not much.done()
    assert await much == [0.5] * 200
    assert max(max(batch) for batch in model.batches) == MOST_WINDOWS


async def test_a_session_that_ended_is_not_missed(voices: VadBatcher) -> None:
    first = asyncio.create_task(voices.judge(SileroStream(), windows(0.5)))
    gone = asyncio.create_task(voices.judge(SileroStream(), windows(0.5)))
    other = asyncio.create_task(voices.judge(SileroStream(), windows(0.25)))
    await asyncio.sleep(0)
    gone.cancel()
    assert await first == [0.5] and await other == [0.25]
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_a_failure_is_told_and_the_next_batch_goes_on(
    voices: VadBatcher, model: Recorder
) -> None:
    model.error = MemoryError("no")
    with pytest.raises(MemoryError):
        await voices.judge(SileroStream(), windows(0.5))
    model.error = None
    assert await voices.judge(SileroStream(), windows(0.5)) == [0.5]
