"""Words end where the voice does, and begin where it begins again. Pure.

The path through a model's attention has no place for pauses: a word before or behind one covers it
too. Who knows where somebody speaks can put that right.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import SAMPLE_RATE, Word

Span = tuple[int, int]  # first sample, end

FRAME = SAMPLE_RATE // 50
LOUD = 0.1  # of the level of speech, which is exceeded in a tenth of the frames
LATE = 0.25  # seconds that a first word may seem to begin behind the voice
# Seconds: so much speech in front of a pause is hardly without a word, and so long is a pause that
# may end a segment. The time of its last word may run into what is said next, begun where it was.
WORDLESS, PAUSE = 0.3, 0.5
JOINED = 5  # frames: what is quiet for no longer (a stop of the mouth) is part of the speech


def loud_stretches(samples: NDArray[np.float32]) -> list[Span]:
    """Where a recording is not quiet, in samples: a guess at where somebody speaks, where no voice
    detector was asked. samples: [n] mono float32 at 16 kHz."""
    count = len(samples) // FRAME
    if count == 0:
        return []
    frames = samples[: count * FRAME].reshape(count, FRAME)
    level = np.sqrt(np.einsum("ij,ij->i", frames, frames))
    loud = np.flatnonzero(level > LOUD * np.quantile(level, 0.9))
    if not len(loud):
        return []
    breaks = np.flatnonzero(np.diff(loud) > JOINED)
    firsts = loud[np.concatenate([[0], breaks + 1])]
    lasts = loud[np.concatenate([breaks, [len(loud) - 1]])]
    return [(int(a) * FRAME, (int(b) + 1) * FRAME) for a, b in zip(firsts, lasts, strict=True)]


def voiced_words(
    words: Sequence[Word], speech: Sequence[Span], until: float = 0.0, *, ends: bool = False
) -> list[Word]:
    """The words in order, each within the stretch of speech that it has most of; one that touches
    none stays where it is. speech: in order and apart, counted from where the words' seconds are.
    until: seconds of them, up to which others were said before. ends: the last of several ends a
    segment, so what it has behind a pause may be the next one's: it stays in front where it has
    enough.
    """
    found: list[Word] = []
    at = 0
    for number, word in enumerate(words):
        is_last = ends and 0 < number == len(words) - 1
        while at < len(speech) and speech[at][1] <= word.start * SAMPLE_RATE:
            at += 1
        best, most = word, 0.0
        for first, end in speech[at:]:
            if first >= word.end * SAMPLE_RATE:
                break
            begins, over = first / SAMPLE_RATE, end / SAMPLE_RATE
            if is_last and most >= WORDLESS and begins - best.end >= PAUSE:
                break
            start_s, end_s = max(word.start, begins), min(word.end, over)
            if end_s - start_s > most:
                most = end_s - start_s
                is_first = (found[-1].end if found else until) <= begins
                if is_first and start_s - begins < LATE:
                    start_s = begins
                best = replace(word, start=start_s, end=end_s)
        found.append(best)
    return found


def boundary(before: tuple[float, float], after: tuple[float, float]) -> float:
    """Where the first of two (start, end) that overlap is to end, and the second to begin: where it
    does, since the end of what is said is less sure than its beginning; behind the first one if
    there would be nothing of it."""
    (start, end), (at, over) = before, after
    return at if at > start else min(end, max(start, over))


def voiced_span(start: float, end: float, speech: Sequence[Span]) -> tuple[float, float]:
    """start and end, in seconds, less what is no speech at both ends; as they are if all of it is
    none."""
    ends = [over for _, over in speech]
    inner = speech[bisect_right(ends, start * SAMPLE_RATE) :]
    touched = inner[: bisect_left(inner, (end * SAMPLE_RATE, 0.0))]
    if not touched:
        return start, end
    return max(start, touched[0][0] / SAMPLE_RATE), min(end, touched[-1][1] / SAMPLE_RATE)
