"""A recording without its long pauses: what a model hears of it, and when that was. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.text.word_times import WORDLESS

Samples = NDArray[np.float32]
Span = tuple[int, int]  # first sample, end

PADDING = SAMPLE_RATE * 2 // 5  # kept on both sides of speech
# Pauses up to this length are kept as they are: they tell where a sentence ends.
PAUSE = 2 * SAMPLE_RATE
# How far a guess of where a sentence ended may be off: a pause so near is where it did.
NEAR = SAMPLE_RATE


class CondensedAudio:
    """samples: of the recording, those around its stretches of speech, one after another. speech:
    these stretches, counted in `samples`; if nobody knows where somebody speaks, all of them."""

    def __init__(self, recording: Samples, speech: Sequence[Span] | None) -> None:
        """recording: mono float32 at 16 kHz. speech: (first sample, end), in order, apart."""
        length = len(recording)
        if speech is None:
            kept = [(0, length)]
            speech = kept
        else:
            kept = _padded(speech, length)
        self._kept = kept
        sizes = [end - start for start, end in kept]
        # Where each kept piece begins among the samples, and where all end.
        self._offsets: list[int] = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
        whole = len(kept) == 1 and sizes[0] == length
        pieces = [recording[start:end] for start, end in kept]
        self.samples: Samples = (
            recording if whole else np.concatenate([*pieces, np.zeros(0, np.float32)])
        )
        firsts = [start for start, _ in kept]
        self.speech: list[Span] = []
        for start, end in speech:
            piece = bisect_right(firsts, start) - 1
            moved = self._offsets[piece] - firsts[piece]
            self.speech.append((start + moved, end + moved))
        self._ends = [end for _, end in self.speech]

    def start_time(self, seconds: float) -> float:
        """Of what begins there in `samples`: seconds of the recording."""
        return self._time(seconds, bisect_right(self._offsets, round(seconds * SAMPLE_RATE)) - 1)

    def end_time(self, seconds: float) -> float:
        """Of what ends there: the same, but for the seams."""
        return self._time(seconds, bisect_left(self._offsets, round(seconds * SAMPLE_RATE)) - 1)

    def _time(self, seconds: float, piece: int) -> float:
        if not self._kept:
            return seconds
        piece = min(max(piece, 0), len(self._kept) - 1)
        return seconds + (self._kept[piece][0] - self._offsets[piece]) / SAMPLE_RATE

    def seams(self, start: int, end: int) -> list[int]:
        """Where in (start, end) a pause was left out."""
        offsets = self._offsets[1:-1]
        return offsets[bisect_right(offsets, start) : bisect_left(offsets, end)]

    def unbroken(self, words: Sequence[tuple[float, float]]) -> list[tuple[int, float, float]]:
        """words: the start and end of each of a segment, in order, in seconds of `samples` -> those
        together between which no pause was left out: (the first word, where the pause in front of
        them is and the one behind them). A word is where most of the speech in its time is; the
        last one of several in front of the pause, if enough of it is."""
        length = len(self.samples)
        seams, found, ends = self.seams(0, length), [(0, 0.0)], list[float]()
        for number, (start, end) in enumerate(words):
            first, last = round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)
            is_last = 0 < number == len(words) - 1
            enough = WORDLESS * SAMPLE_RATE if is_last else length
            over = 0
            while over < len(seams) and (
                seams[over] <= first
                or min(self.spoken(seams[over], last), enough) > self.spoken(first, seams[over])
            ):
                over += 1
            if over and number:
                ends.append(seams[0] / SAMPLE_RATE)
                found.append((number, seams[over - 1] / SAMPLE_RATE))
            elif over:
                found = [(0, seams[over - 1] / SAMPLE_RATE)]
            seams = seams[over:]
        ends.append((seams[0] if seams else length) / SAMPLE_RATE)
        return [(word, start, end) for (word, start), end in zip(found, ends, strict=True)]

    def spoken(self, start: int, end: int) -> int:
        """How many of the samples in [start, end) belong to stretches of speech."""
        total = 0
        for first, last in self.speech[bisect_right(self._ends, start) :]:
            if first >= end:
                break
            total += min(last, end) - max(first, start)
        return total

    def stretches(self, start: int, end: int, least: int) -> int:
        """How many stretches of speech have a sample in [start, end). least: samples of the pauses
        between them; around a shorter one there is one stretch."""
        behind = self.speech[bisect_right(self._ends, start) :]
        there = [span for span in behind if start < end and span[0] < end]
        pauses = sum(b - a >= least for (_, a), (b, _) in pairwise(there))
        return pauses + bool(there)

    def spoken_until(self, start: int, end: int, share: float) -> tuple[int, int]:
        """Where a share of the speech in [start, end) has been said: (end of what was before, start
        of what follows). They differ if there is a pause within NEAR."""
        left = round(share * self.spoken(start, end))
        at = start
        for first, last in self.speech[bisect_right(self._ends, start) :]:
            first, last = max(first, start), min(last, end)
            if left <= last - first:
                at = first + left
                break
            left -= last - first
            at = last
        pauses = [
            (last, self.speech[i + 1][0])
            for i, last in enumerate(self._ends[:-1])
            if start < last and self.speech[i + 1][0] < end
        ]
        near = [(min(abs(at - a), abs(at - b)), a, b) for a, b in pauses]
        distance, before, after = min(near, default=(NEAR + 1, at, at))
        return (before, after) if distance <= NEAR else (at, at)

    def next_pause(self, low: int, least: int) -> int | None:
        """The middle of the first pause that begins at or after low and is that long; None if there
        is none."""
        pause = self._next_pause(low, least)
        return pause and sum(pause) // 2

    def next_begin(self, low: int, least: int) -> int | None:
        """Where to hear on behind the same pause, None if there is none: so much in front of what
        is said next as is kept of any pause, half of it at most."""
        pause = self._next_pause(low, least)
        return pause and max(sum(pause) // 2, pause[1] - PADDING)

    def _next_pause(self, low: int, least: int) -> Span | None:
        for index in range(bisect_left(self._ends, low), len(self._ends) - 1):
            begins, ends = self._ends[index], self.speech[index + 1][0]
            if ends - begins >= least:
                return begins, ends
        return None

    def pause_near(self, at: int, low: int, high: int) -> int | None:
        """The middle of the pause that is nearest to a place, of those whose middle is in [low,
        high); None if somebody speaks on and on."""
        starts = (start for start, _ in self.speech[1:])
        middles = [(a + b) // 2 for a, b in zip(self._ends, starts, strict=False)]
        near = [middle for middle in middles if low <= middle < high]
        return min(near, key=lambda middle: abs(middle - at), default=None)

    def last_pause(self, low: int, high: int) -> int | None:
        """The middle of the last pause that begins in [low, high), or of what of it lies there;
        None if somebody speaks on and on."""
        index = bisect_left(self._ends, high) - 1
        if index < 0 or self._ends[index] < low:
            return None
        begins = self._ends[index]
        ends = self.speech[index + 1][0] if index + 1 < len(self.speech) else len(self.samples)
        return (begins + min(ends, high)) // 2


def _padded(speech: Sequence[Span], length: int) -> list[Span]:
    """With padding, and joined where a pause is short."""
    kept: list[Span] = []
    for start, end in speech:
        start, padded = max(0, start - PADDING), min(length, end + PADDING)
        if kept and start - kept[-1][1] <= PAUSE - 2 * PADDING:
            kept[-1] = (kept[-1][0], padded)
        else:
            kept.append((start, padded))
    return kept
