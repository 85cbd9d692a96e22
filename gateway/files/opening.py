"""The beginning of a long recording, heard while the rest of it is still being decoded.

To decode an hour and to search it for voices takes seconds, of an MP3 ten. Who wants the text as it
is written need not wait for them: the first minutes are decoded by themselves, and heard up to a
pause while another decoder has the whole recording; then what is behind the pause is heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from lookhear.engine.messages import SAMPLE_RATE, FileProgress, FileTranscribed
from lookhear.gateway.decoding.results import Recording
from lookhear.gateway.files.languages import spoken

OPENING_SECONDS = 120.0  # decoded first: to hear them takes as long as to decode an hour
PAUSE = SAMPLE_RATE // 2  # samples; a shorter one does not part a recording

OnProgress = Callable[[FileProgress], None]


class DecodeRecording(Protocol):
    """The recording, or its first seconds."""

    async def __call__(self, first_seconds: float | None = None) -> Recording: ...


class Hear(Protocol):
    """Its transcript. before: what was heard in front of it."""

    async def __call__(
        self,
        recording: Recording,
        on_progress: OnProgress,
        before: FileTranscribed | None = None,
    ) -> FileTranscribed: ...


async def heard_from_the_first(
    decode: DecodeRecording, hear: Hear, on_progress: OnProgress
) -> FileTranscribed:
    """The transcript of a recording, of which the beginning is told before the rest is decoded.
    Raises what its arguments raise."""
    opening = await decode(OPENING_SECONDS)
    if opening.is_whole:
        return await hear(opening, on_progress)
    decoding = asyncio.ensure_future(decode())
    try:
        end = pause_of(opening)
        if end is None:
            return await hear(await decoding, on_progress)
        first = await hear(
            part_of(opening, 0, end),
            lambda told: on_progress(replace(told, duration=0.0)),  # of the whole: not known yet
        )
        whole = await decoding
        seconds, duration = end / SAMPLE_RATE, len(whole.samples) / SAMPLE_RATE

        def tell(told: FileProgress) -> None:
            segments = [
                replace(s, start=s.start + seconds, end=s.end + seconds) for s in told.segments
            ]
            at = told.seconds + seconds
            on_progress(FileProgress(told.request, segments, at, duration))

        rest = part_of(whole, end, len(whole.samples))
        return joined(first, await hear(rest, tell, first), seconds)
    finally:
        decoding.cancel()
        await asyncio.gather(decoding, return_exceptions=True)


def pause_of(opening: Recording) -> int | None:
    """The middle of the longest pause in the second half of the beginning of a recording, in
    samples; None if somebody speaks on and on, or nobody knows."""
    length = len(opening.samples)
    if opening.speech is None:
        return None
    begins = [0, *(end for _, end in opening.speech)]
    ends = [*(begin for begin, _ in opening.speech), length]
    pauses = [
        (end - max(begin, length // 2), max(begin, length // 2), end)
        for begin, end in zip(begins, ends, strict=True)
    ]
    longest, begin, end = max(pauses)
    return (begin + end) // 2 if longest >= PAUSE else None


def part_of(recording: Recording, begin: int, end: int) -> Recording:
    """Its samples [begin, end), and the speech among them."""
    speech = recording.speech
    if speech is not None:
        clipped = [(max(a, begin) - begin, min(b, end) - begin) for a, b in speech]
        speech = [(a, b) for a, b in clipped if a < b]
    return Recording(recording.samples[begin:end], speech)


def joined(first: FileTranscribed, rest: FileTranscribed, seconds: float) -> FileTranscribed:
    """Of a recording that was heard in two. seconds: the duration of the first part."""
    segments = [
        *first.segments,
        *(replace(s, start=s.start + seconds, end=s.end + seconds) for s in rest.segments),
    ]
    logprobs = None
    if first.logprobs is not None and rest.logprobs is not None:
        logprobs = [*first.logprobs, *rest.logprobs]
    return replace(
        rest,
        text="".join(segment.text for segment in segments).strip(),
        language=next(iter(spoken(segments)), first.language or rest.language),
        duration=first.duration + rest.duration,
        segments=segments,
        words=[
            *first.words,
            *(replace(w, start=w.start + seconds, end=w.end + seconds) for w in rest.words),
        ],
        num_tokens=first.num_tokens + rest.num_tokens,
        logprobs=logprobs,
        num_audio_tokens=first.num_audio_tokens + rest.num_audio_tokens,
        num_text_tokens=first.num_text_tokens + rest.num_text_tokens,
    )
