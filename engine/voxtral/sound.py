"""Samples of a recording, handed out as the log-mel frames of whole steps. Pure.

The model hears silence in front of a recording and behind it; *padded* positions count that in
front. A step is 80 ms, eight frames. Positions are samples since the recording began, if they are
not called padded.

    |-- left: silence --|-- samples --|-- right: silence, in which the last words are written --|
    step 0              step left     steps of the samples + left
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Priority
from lookhear.engine.messages import Delay
from lookhear.engine.speech.audio_buffer import AudioBuffer
from lookhear.engine.voxtral.request import WRITING, VoxtralRequest

HOP, WINDOW = 160, 400  # samples of a frame: from one to the next, and what it is made of
STEP = 1280  # samples
MOST_STEPS = 50  # of one request, where somebody speaks: others wait for it
# Steps of delay: of those that it was trained on the ones that its makers measured.
DELAYS: dict[Delay, int] = {"minimal": 2, "low": 3, "medium": 6, "high": 12, "xhigh": 30}


@dataclass(frozen=True, slots=True)
class Sound:
    """How a checkpoint hears. left: steps of silence in front. delay: steps, where nobody says."""

    left: int
    delay: int

    def steps(self, delay: Delay | None) -> int:
        """Of delay, for a session that asks for this."""
        return self.delay if delay is None else DELAYS[delay]

    def whole(
        self, key: str, priority: Priority, samples: NDArray[np.float32], delay: int
    ) -> VoxtralRequest:
        """About a recording that is all there."""
        feed = Feed(self, delay)
        feed.append(samples)
        return feed.take(key, priority, feed.remaining, is_last=True)


class Feed:
    """Of one recording, see `engine.speech.streaming.Feed`. fed: steps that were handed out."""

    def __init__(self, sound: Sound, delay: int) -> None:
        self._sound, self._delay = sound, delay
        self._audio = AudioBuffer()
        self._begin = 0  # position of what is kept
        self._end: int | None = None  # of what came, when the last of it was handed out
        self.fed = 0

    @property
    def num_samples(self) -> int:
        """That came."""
        return self._begin + len(self._audio)

    @property
    def heard(self) -> int:
        """Position up to which all is heard."""
        if self._end is not None:
            return self._end
        return min(max(0, self.fed - self._sound.left) * STEP, self.num_samples)

    @property
    def written(self) -> int:
        """Position up to which all is written: another recording would begin there."""
        return max(0, self.heard - self._delay * STEP) if self._end is None else self._end

    @property
    def remaining(self) -> int:
        """Steps left, if no more samples come; silence behind them among them, but for the last
        step, behind which nothing would be read."""
        if self._end is not None or not self.num_samples:
            return 0
        own = -(-self.num_samples // STEP)
        return self._sound.left + own + self._delay + WRITING - self.fed

    @property
    def ready(self) -> int:
        """Steps that no later sample changes; no more than `MOST_STEPS`."""
        if self._end is not None or not self.num_samples:
            return 0
        # The last frame of a step reaches into the next, so that of silence into the first.
        own = (self.num_samples - (WINDOW // 2 - HOP)) // STEP
        return max(0, min(self._sound.left + own - self.fed, MOST_STEPS))

    @property
    def is_short(self) -> bool:
        """Whether what remains is no more than one request takes."""
        return self.remaining <= MOST_STEPS

    def append(self, samples: NDArray[np.float32]) -> None:
        """More of it; once the last was handed out, of another recording, which is the `rest`."""
        self._audio.append(samples)

    def rest(self) -> NDArray[np.float32]:
        """What follows `heard`."""
        return self._audio.samples[max(0, self.heard - self._begin) :].copy()

    def skip(self, count: int) -> None:
        """Have it begin so many samples later; nothing was handed out."""
        assert self.fed == 0 and self._begin == 0
        self._audio.drop(count)

    def cost(self, count: int) -> Cost:
        """Of a request about so many steps."""
        return Cost(count * STEP)

    def take(self, key: str, priority: Priority, count: int, *, is_last: bool) -> VoxtralRequest:
        """The next steps, so many."""
        first, end = self.fed, self.fed + count
        stretch = np.zeros(0, np.float32)
        if count:
            stretch = self._stretch(first, end)
        self.fed = end
        if is_last:
            self._end = self.num_samples
        # What the next frame is made of stays.
        keep = min(self.num_samples, max(0, (end - self._sound.left) * STEP - WINDOW // 2))
        self._audio.drop(max(0, keep - self._begin))
        self._begin = max(self._begin, keep)
        return VoxtralRequest(
            key=key,
            priority=priority,
            stretch=stretch,
            steps=count,
            begin=first,
            is_last=is_last,
            delay=self._delay,
            left=self._sound.left,
        )

    def _stretch(self, first: int, end: int) -> NDArray[np.float32]:
        """What the frames of the steps [first, end) are made of; outside of what came is silence.
        (end - first) * STEP - HOP + WINDOW samples."""
        low = (first - self._sound.left) * STEP - WINDOW // 2
        high = (end - self._sound.left) * STEP - HOP + WINDOW // 2
        found = np.zeros(high - low, np.float32)
        start, stop = max(low, 0), min(high, self.num_samples)
        if start < stop:
            assert start >= self._begin, (start, self._begin)
            here = self._audio.samples[start - self._begin : stop - self._begin]
            found[start - low : stop - low] = here
        return found
