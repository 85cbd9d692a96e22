"""Samples of a recording, handed out as the log-mel frames of whole chunks. Pure.

A chunk is so many places, of eight frames each; the first one has the last frame of its first place
alone, as there is nothing in front of it. Positions are samples since the recording began.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Priority
from lookhear.engine.messages import SAMPLE_RATE, Delay
from lookhear.engine.models import frames
from lookhear.engine.speech.audio_buffer import AudioBuffer
from lookhear.engine.transducer.request import TransducerRequest

ORDER: tuple[Delay, ...] = ("minimal", "low", "medium", "high", "xhigh")
MOST_SECONDS = 4.0  # of one request, where somebody speaks: others wait for it


@dataclass(frozen=True, slots=True)
class Sound:
    """How a checkpoint hears. emphasis: see `frames.stretch`. stack: frames of a place. lookaheads:
    places ahead that it may be made to hear, ascending; usual: one of them."""

    emphasis: float
    stack: int
    lookaheads: tuple[int, ...]
    usual: int

    def chunk(self, delay: Delay | None = None) -> int:
        """Places that are heard at once, for a session that asks for this delay."""
        if delay is None:
            return self.usual + 1
        return self.lookaheads[min(ORDER.index(delay), len(self.lookaheads) - 1)] + 1

    @property
    def chunks(self) -> list[int]:
        """All of them."""
        return [ahead + 1 for ahead in self.lookaheads]

    @property
    def place(self) -> float:
        """Seconds."""
        return self.stack * frames.HOP / SAMPLE_RATE

    def whole(
        self,
        key: str,
        priority: Priority,
        samples: NDArray[np.float32],
        prompt: int | None,
    ) -> TransducerRequest:
        """About a recording that is all there, heard as far ahead as can be."""
        feed = Feed(self, self.lookaheads[-1] + 1, prompt)
        feed.append(samples)
        return feed.take(key, priority, feed.remaining, is_last=True)


class Feed:
    """Of one recording, see `engine.speech.streaming.Feed`. fed: frames that were handed out.
    prompt: see `TransducerRequest`."""

    def __init__(self, sound: Sound, chunk: int, prompt: int | None = None) -> None:
        self._sound, self._chunk, self._prompt = sound, chunk, prompt
        self._audio = AudioBuffer()
        self._begin = 0  # position of what is kept
        self.fed = 0

    @property
    def num_samples(self) -> int:
        """That came."""
        return self._begin + len(self._audio)

    @property
    def heard(self) -> int:
        """Position up to which all is heard: another recording would begin there."""
        return self.fed * frames.HOP

    @property
    def written(self) -> int:
        """The same: nothing is written later than it is heard."""
        return self.heard

    @property
    def remaining(self) -> int:
        """Frames left, if no more samples come."""
        return max(0, frames.num_frames(self.num_samples) - self.fed)

    @property
    def ready(self) -> int:
        """Frames of whole chunks that no later sample changes; of no more than `MOST_SECONDS`."""
        stack, chunk = self._sound.stack, self._chunk
        lacking = stack - 1  # of the first place
        final = frames.num_final(self.num_samples)
        known = (self.fed + lacking) // (stack * chunk)
        chunks = min((final + lacking) // (stack * chunk) - known, self._most_chunks())
        if chunks <= 0:
            return 0
        return stack * chunk * (known + chunks) - lacking - self.fed

    def _most_chunks(self) -> int:
        return max(1, int(MOST_SECONDS / (self._sound.place * self._chunk)))

    @property
    def is_short(self) -> bool:
        """Whether what remains is no more than one request takes."""
        return self.remaining <= self._most_chunks() * self._chunk * self._sound.stack

    def append(self, samples: NDArray[np.float32]) -> None:
        """More of it."""
        self._audio.append(samples)

    def rest(self) -> NDArray[np.float32]:
        """What follows `heard`."""
        return self._audio.samples[max(0, self.heard - self._begin) :].copy()

    def skip(self, count: int) -> None:
        """Have it begin so many samples later; nothing was handed out."""
        assert self.fed == 0 and self._begin == 0
        self._audio.drop(count)

    def cost(self, count: int) -> Cost:
        """Of a request about so many frames."""
        return Cost(count * frames.HOP)

    def take(self, key: str, priority: Priority, count: int, *, is_last: bool) -> TransducerRequest:
        """The next frames, so many."""
        first, end = self.fed, self.fed + count
        stretch = np.zeros(0, np.float32)
        if count:
            stretch = frames.stretch(
                self._audio.samples, first, end, begin=self._begin, emphasis=self._sound.emphasis
            )
        self.fed = end
        # What the next frame depends on, and the sample in front of it, stay.
        keep = max(0, end * frames.HOP - frames.BEFORE)
        self._audio.drop(min(len(self._audio), max(0, keep - self._begin)))
        self._begin = max(self._begin, keep)
        lacking = self._sound.stack - 1
        return TransducerRequest(
            key=key,
            priority=priority,
            stretch=stretch,
            frames=count,
            chunk=self._chunk,
            is_first=first == 0,
            is_last=is_last,
            begin=(first + lacking) // self._sound.stack,
            place=self._sound.place,
            prompt=self._prompt,
        )
