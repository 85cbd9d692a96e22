"""Samples of a recording, handed out where somebody pauses. Pure.

A Parakeet hears all of a recording or nothing: so what was said is heard when the turn ends, or a
pause is long enough; and who goes on and on is cut at a quiet place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Priority
from lookhear.engine.models import frames
from lookhear.engine.speech.audio_buffer import AudioBuffer, quietest
from lookhear.engine.transducer.request import PLACE, TransducerRequest

LEAST = 4 * frames.HOP  # samples that are worth hearing
PLACE_SAMPLES = 8 * frames.HOP


@dataclass(frozen=True, slots=True)
class WholeSound:
    """emphasis: see `frames.stretch`. cap: samples that are heard at once, at most."""

    emphasis: float
    cap: int

    def whole(
        self, key: str, priority: Priority, samples: NDArray[np.float32], prompt: int | None
    ) -> TransducerRequest:
        """About a recording that is all there."""
        return self.request(key, priority, samples, 0)

    def request(
        self, key: str, priority: Priority, samples: NDArray[np.float32], begin: int
    ) -> TransducerRequest:
        """begin: places in front of it."""
        count = frames.num_frames(len(samples))
        stretch = np.zeros(0, np.float32)
        if count:
            stretch = frames.stretch(samples, 0, count, emphasis=self.emphasis)
        return TransducerRequest(
            key=key,
            priority=priority,
            stretch=stretch,
            frames=count,
            chunk=1,
            is_first=True,
            is_last=True,
            begin=begin,
            place=PLACE,
        )


class WholeFeed:
    """Of one recording, see `engine.speech.streaming.Feed`. fed: places that were handed out."""

    def __init__(self, sound: WholeSound) -> None:
        self._sound = sound
        self._audio = AudioBuffer()
        self._heard = 0
        self.fed = 0

    @property
    def heard(self) -> int:
        """Position up to which all is heard; within a place, where the recording ended there."""
        return self._heard

    @property
    def written(self) -> int:
        """The same."""
        return self.heard

    @property
    def remaining(self) -> int:
        """Places left, if no more samples come."""
        return 0 if len(self._audio) < LEAST else -(-len(self._audio) // PLACE_SAMPLES)

    @property
    def ready(self) -> int:
        """Places up to a quiet one, where nobody pauses for too long."""
        cap = self._sound.cap
        if len(self._audio) <= cap:
            return 0
        return (cap // 2 + quietest(self._audio.samples[cap // 2 : cap])) // PLACE_SAMPLES

    @property
    def is_short(self) -> bool:
        """Whether what remains is no more than one request takes."""
        return len(self._audio) <= self._sound.cap

    def append(self, samples: NDArray[np.float32]) -> None:
        """More of it."""
        self._audio.append(samples)

    def rest(self) -> NDArray[np.float32]:
        """What follows `heard`."""
        return self._audio.samples.copy()

    def skip(self, count: int) -> None:
        """Have it begin so many samples later; nothing was handed out."""
        assert self.fed == 0
        self._audio.drop(count)

    def cost(self, count: int) -> Cost:
        """Of a request about so many places."""
        return Cost(count * PLACE_SAMPLES)

    def take(self, key: str, priority: Priority, count: int, *, is_last: bool) -> TransducerRequest:
        """About the next places, by themselves."""
        end = len(self._audio) if is_last else count * PLACE_SAMPLES
        samples = self._audio.samples[:end].copy()
        request = self._sound.request(key, priority, samples, self.fed)
        self._audio.drop(end)
        self._heard += end
        self.fed += count
        return request
