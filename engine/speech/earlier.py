"""What a session said last: audio and text, heard again in front of what it says next. Pure.

A model that hears a sentence alone takes "conferences" for "conference is", and begins it with
another capital than it would in its place. So the window of a segment begins with the segments
before it, and their text is forced, each between the times at which it was said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Beginning
from lookhear.engine.messages import SAMPLE_RATE, SaidSegment
from lookhear.engine.speech.live_config import LiveConfig


@dataclass(frozen=True, slots=True)
class EarlierSegment:
    """samples: [n] mono at 16 kHz. start, end: of the speech among them, in samples. tokens: of its
    text. language: ISO code, None where there is just one. task: as in `TranscriptionSettings`."""

    samples: NDArray[np.float32]
    start: int
    end: int
    tokens: tuple[int, ...]
    language: str | None
    task: str

    @classmethod
    def of(cls, said: SaidSegment, samples: NDArray[np.float32]) -> EarlierSegment:
        """samples: of the turn, from its begin to its end."""
        led = np.concatenate([np.zeros(said.lead, np.float32), samples])
        return cls(led, said.lead, said.voiced, tuple(said.tokens), said.language, said.task)


def said_place(
    start: int, heard: int, voiced_until: int, config: LiveConfig
) -> tuple[int, int, int, int]:
    """`SaidSegment`'s start, end, lead and voiced, of one that was heard up to there: with a little
    of the silence behind it."""
    voiced, lead = min(voiced_until, heard), config.lead_in
    end = max(start, min(heard, voiced + config.lead))
    return start, end, lead, max(lead, voiced - start + lead)


@dataclass(frozen=True, slots=True)
class Earlier:
    """In front of a segment. beginning: of these very segments; what comes later with the same one
    begins with them. None: there are none."""

    beginning: Beginning | None = None
    segments: tuple[EarlierSegment, ...] = ()

    @property
    def num_samples(self) -> int:
        """Of all segments."""
        return sum(len(segment.samples) for segment in self.segments)

    @property
    def num_tokens(self) -> int:
        """Of their texts."""
        return sum(len(segment.tokens) for segment in self.segments)


NOTHING = Earlier()
LATEST = SAMPLE_RATE * 10  # samples that are kept whatever was said; a longer segment is not


class EarlierSpeech:
    """The last segments of a session, one language and task only. longest: samples that are kept at
    most, 0 for a model that hears every segment alone. Beyond it the oldest go until `kept` are
    left, or the last one: not one by one, since whatever goes, the rest must be encoded anew. step:
    samples that the length of each segment is a multiple of."""

    def __init__(self, longest: int = 0, kept: int = 0, step: int = 1) -> None:
        assert kept <= longest, (kept, longest)
        self._longest, self._kept, self._step = longest, kept, step
        self._segments: list[EarlierSegment] = []
        self._latest: list[EarlierSegment] = []
        self._beginning = Beginning()  # another one when segments go
        self._own = self._own_latest = 0  # of both, how many the present turn has added

    @property
    def is_kept(self) -> bool:
        """Whether the model hears anything again."""
        return bool(self._longest)

    @property
    def num_segments(self) -> int:
        """That are kept."""
        return len(self._segments)

    def add(self, segment: EarlierSegment) -> bool:
        """What was just said. Returns whether it is of use to segments that are heard behind it."""
        if not self._longest:
            return False
        missing = -len(segment.samples) % self._step
        samples = np.concatenate([segment.samples, np.zeros(missing, np.float32)])
        segment = replace(segment, samples=samples)
        self._latest.append(segment)
        self._own_latest += 1
        while sum(len(held.samples) for held in self._latest) > min(LATEST, self._longest):
            del self._latest[0]
        if not segment.tokens:
            return False
        if self._segments and not self._suits(segment.language, segment.task):
            self._drop(len(self._segments))
        self._segments.append(segment)
        self._own += 1
        sizes = [len(held.samples) for held in self._segments]
        if sum(sizes) > self._longest:
            count = 0
            while sum(sizes[count:]) > self._kept and count < len(sizes) - 1:
                count += 1
            self._drop(count if sizes[-1] <= self._longest else len(sizes))
        return True

    def begin_turn(self, num_own: int = 0) -> None:
        """What is added from now on is another turn's, and so are the last ones that were."""
        self._own = self._own_latest = num_own

    def take_back(self) -> None:
        """What the present turn has added, which was never said now."""
        if self._own:
            del self._segments[max(0, len(self._segments) - self._own) :]
            self._beginning = Beginning()
        del self._latest[max(0, len(self._latest) - self._own_latest) :]
        self.begin_turn()

    def before(self, language: str | None, task: str) -> Earlier:
        """What a segment in this language is heard behind."""
        if not self._segments or not self._suits(language, task):
            return NOTHING
        return Earlier(self._beginning, tuple(self._segments))

    def latest(self) -> Earlier:
        """The last seconds that were said, `longest` at most, as whatever text and in whatever
        language, if that was in short segments: for the language of what follows."""
        return Earlier(None, tuple(self._latest))

    def _suits(self, language: str | None, task: str) -> bool:
        last = self._segments[-1]
        return (last.language, last.task) == (language, task)

    def _drop(self, count: int) -> None:
        del self._segments[:count]
        self._beginning = Beginning()


class SharedBeginning:
    """What the ticks of a turn's open segment begin with, as long as that stays the same."""

    def __init__(self) -> None:
        self._of: tuple[int, Earlier] = (0, Earlier())
        self._beginning = Beginning()
        self._heard = 0

    def of(self, start: int, before: Earlier, num_samples: int) -> Beginning:
        """For a tick that hears so much of a segment that begins there, behind what was said
        before."""
        if not self._is_same(start, before):
            self._of, self._beginning = (start, before), Beginning()
        self._heard = num_samples
        return self._beginning

    def known(self, start: int, before: Earlier) -> tuple[int, int]:
        """Samples in front of a segment that no tick had that began alike, and those of it that the
        last one had."""
        return (0, self._heard) if self._is_same(start, before) else (before.num_samples, 0)

    def _is_same(self, start: int, before: Earlier) -> bool:
        at, others = self._of
        return (at, others.beginning, len(others.segments)) == (
            start,
            before.beginning,
            len(before.segments),
        )


@dataclass(frozen=True, slots=True)
class EarlierRule:
    """How much of it a checkpoint hears: see `EarlierSpeech`, in samples."""

    longest: int = 0
    kept: int = 0
    step: int = 1

    def begin(self) -> EarlierSpeech:
        """Of a session that begins."""
        return EarlierSpeech(self.longest, self.kept, self.step)
