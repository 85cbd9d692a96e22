"""The beginning of a long recording is heard before the rest is decoded, and the two are one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import (
    SAMPLE_RATE,
    FileProgress,
    FileTranscribed,
    Segment,
    TokenLogprob,
    Word,
)
from lookhear.gateway.decoding.results import Recording
from lookhear.gateway.files.opening import (
    OPENING_SECONDS,
    PAUSE,
    OnProgress,
    heard_from_the_first,
    part_of,
    pause_of,
)

OPENING = round(OPENING_SECONDS * SAMPLE_RATE)


class Scribe:
    """Decodes a recording and hears it: a segment and a word for each stretch of speech."""

    def __init__(self, recording: Recording, language: str | None = "de") -> None:
        self.recording = recording
        self.language = language
        self.gate = asyncio.Event()  # until then only the beginning is decoded
        self.error: Exception | None = None
        self.decoded: list[float | None] = []
        self.asked: list[tuple[int, FileTranscribed | None]] = []  # samples, what was before
        self.told: list[FileProgress] = []
        self.cancelled = False

    async def decode(self, first_seconds: float | None = None) -> Recording:
        self.decoded.append(first_seconds)
        if first_seconds is not None:
            most = round(first_seconds * SAMPLE_RATE)
            is_whole = len(self.recording.samples) <= most
            return replace(part_of(self.recording, 0, most), is_whole=is_whole)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.error is not None:
            raise self.error
        return self.recording

    async def hear(
        self,
        recording: Recording,
        on_progress: OnProgress,
        before: FileTranscribed | None = None,
    ) -> FileTranscribed:
        self.asked.append((len(recording.samples), before))
        duration = len(recording.samples) / SAMPLE_RATE
        segments, words = [], []
        for begin, end in recording.speech or ():
            start, over = begin / SAMPLE_RATE, end / SAMPLE_RATE
            segments.append(Segment(" a", start, over, [1], -0.5, 0.0))
            words.append(Word(" a", start, over, 0.9))
            on_progress(FileProgress("f", segments[-1:], over, duration))
        on_progress(FileProgress("f", [], duration, duration))
        text = " a" * len(segments)
        text = text if before and before.text else text.strip()
        logprobs = [TokenLogprob(text, -0.5, list(text.encode()))] if text else []
        found = self.language if segments else None
        count = len(segments)
        return FileTranscribed("f", text, found, duration, segments, words, count, logprobs, 10, 2)

    async def run(self) -> FileTranscribed:
        return await heard_from_the_first(self.decode, self.hear, self.told.append)


def spoken(seconds: int, step: float = 4.0, until: float = 1e9) -> Recording:
    """Somebody speaks for three of every `step` seconds."""
    speech = []
    at = 0.0
    while at + 3 <= min(seconds, until):
        speech.append((round(at * SAMPLE_RATE), round((at + 3) * SAMPLE_RATE)))
        at += step
    return Recording(np.zeros(seconds * SAMPLE_RATE, np.float32), speech)


async def until_told(scribe: Scribe, task: asyncio.Task[FileTranscribed]) -> None:
    """All that can be told of it, until the rest is decoded."""
    while len(scribe.decoded) < 2 or scribe.told[-1].segments:
        assert not task.done()
        await asyncio.sleep(0)


async def test_the_beginning_is_told_while_the_rest_is_decoded() -> None:
    scribe = Scribe(spoken(600))
    task = asyncio.ensure_future(scribe.run())
    await until_told(scribe, task)
    early = len(scribe.told)
    assert early > 10 and all(told.duration == 0 for told in scribe.told)
    scribe.gate.set()
    done = await task
    whole = await Scribe(scribe.recording).hear(scribe.recording, lambda told: None)
    assert done == replace(whole, num_audio_tokens=20, num_text_tokens=4, logprobs=done.logprobs)
    assert done.logprobs is not None
    assert b"".join(bytes(t.bytes) for t in done.logprobs).decode() == done.text
    assert [s for told in scribe.told for s in told.segments] == done.segments
    seconds = [told.seconds for told in scribe.told]
    assert seconds == sorted(seconds) and seconds[-1] == 600
    assert {told.duration for told in scribe.told[early:]} == {600}
    (first, nothing), (rest, before) = scribe.asked
    assert first + rest == 600 * SAMPLE_RATE and OPENING // 2 <= first < OPENING
    assert nothing is None and before is not None
    assert before.language == "de" and before.segments == done.segments[: len(before.segments)]


async def test_a_short_one_is_decoded_once() -> None:
    scribe = Scribe(spoken(round(OPENING_SECONDS)))
    done = await scribe.run()
    assert scribe.decoded == [OPENING_SECONDS] and len(scribe.asked) == 1
    assert done.duration == OPENING_SECONDS and {t.duration for t in scribe.told} == {120.0}


@pytest.mark.parametrize("speech", [[(0, 200 * SAMPLE_RATE)], None], ids=["no pause", "unknown"])
async def test_what_has_no_pause_is_heard_whole(speech: list[tuple[int, int]] | None) -> None:
    scribe = Scribe(Recording(np.zeros(200 * SAMPLE_RATE, np.float32), speech))
    scribe.gate.set()
    done = await scribe.run()
    assert scribe.asked == [(200 * SAMPLE_RATE, None)] and done.duration == 200


async def test_silence_in_front_says_nothing_of_the_language() -> None:
    later = Recording(spoken(400).samples, [(300 * SAMPLE_RATE, 310 * SAMPLE_RATE)])
    scribe = Scribe(later)
    scribe.gate.set()
    done = await scribe.run()
    (_, nothing), (_, before) = scribe.asked
    assert nothing is None and before is not None and (before.language, before.text) == (None, "")
    assert (done.language, done.text, done.segments[0].start) == ("de", "a", 300)


async def test_what_is_wrong_with_the_rest_is_told_behind_the_beginning() -> None:
    scribe = Scribe(spoken(600))
    scribe.error = ValueError("truncated")
    scribe.gate.set()
    with pytest.raises(ValueError, match="truncated"):
        await scribe.run()
    assert scribe.told and len(scribe.asked) == 1


async def test_who_goes_takes_the_decoding_along() -> None:
    scribe = Scribe(spoken(600))
    task = asyncio.ensure_future(scribe.run())
    await until_told(scribe, task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scribe.cancelled


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=10))
def test_a_cut_is_never_in_a_word(steps: list[tuple[int, int]]) -> None:
    """steps: tenths of seconds, silence and speech by turns."""
    speech, at = [], 0
    for silence, voice in steps:
        begin = at + silence * SAMPLE_RATE // 10
        at = begin + voice * SAMPLE_RATE // 10
        speech.append((begin, at))
    recording = Recording(np.zeros(60 * SAMPLE_RATE, np.float32), speech)
    end = pause_of(recording)
    assert end is not None and 30 * SAMPLE_RATE <= end <= 60 * SAMPLE_RATE
    near = PAUSE // 2
    assert all(b <= end - near or a >= end + near for a, b in speech)
