"""How one checkpoint is asked about a stretch of audio, and what its answer means. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from lookhear.engine.core.audio import Audio
from lookhear.engine.core.request import Beginning, Cost, Priority, Result
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.earlier import Earlier
from lookhear.engine.speech.session_language import SessionLanguage
from lookhear.engine.speech.text.hypothesis import Hypothesis

ANY_LANGUAGE = SessionLanguage()
LOOP_TOKENS = 5  # a second


class Stretch(NamedTuple):
    """The open segment of a turn, as one tick hears it.

    start: where in the turn its samples begin (negative if silence was put in front); as long as it
    stays the same, samples only grow at their end. language: ISO code that is settled, or None.
    committed: tokens of its text that are settled. draft: what the last tick heard beyond them;
    None: nothing is to be verified. carried: tokens said before the segment. languages: what the
    session is in; of no use where the language is settled. before: segments that are heard again in
    front of it. beginning: of all that audio; stretches that have the same one begin alike. None:
    nothing is to be left out because others heard it. voiced_from, voiced_until: where among its
    samples speech begins and ends. asks_language: nothing but the language is wanted.
    is_open: somebody may be in the midst of a word at its end. is_late: others were heard instead,
    for long. at_least: tokens that there are, as is known, behind the committed ones. prompt: what
    the client says was said before, if the model may write it as if it were said now. barred: so
    many new tokens are followed by another one than this.
    """

    key: str
    priority: Priority
    start: int
    samples: Audio
    language: str | None
    committed: tuple[int, ...] = ()
    draft: Hypothesis | None = None
    carried: tuple[int, ...] = ()
    languages: SessionLanguage = ANY_LANGUAGE
    before: Earlier = Earlier()
    beginning: Beginning | None = None
    voiced_from: int = 0
    voiced_until: int = 0
    asks_language: bool = False
    is_open: bool = False
    is_late: bool = False
    at_least: int = 0
    prompt: str = ""
    barred: tuple[int, int] | None = None

    @property
    def num_voiced(self) -> int:
        """Samples from the begin of its speech to the end."""
        return max(0, self.voiced_until - self.voiced_from)

    @property
    def said(self) -> tuple[int, ...]:
        """What the model is told last of what was said before it, as audio or as its prompt."""
        return self.before.segments[-1].tokens if self.before.segments else self.carried


class Tick(NamedTuple):
    """A look that is under way. end: absolute position of the end of its audio. is_cut: the segment
    ends there, because it grew too long."""

    stretch: Stretch
    end: int
    is_cut: bool


class Recognizer(Protocol):
    """Of one turn. max_carried: how many tokens of earlier text its requests may want.
    joins_with_space: whether its text begins without the space that parts it from what was said
    before. heeds_bars: whether its requests heed `Stretch.barred`."""

    max_carried: int
    joins_with_space: bool
    heeds_bars: bool

    def token_bytes(self, token: int) -> bytes:
        """UTF-8 bytes that a text token stands for (possibly an incomplete character)."""

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """UTF-8 bytes of several text tokens."""

    def cost(
        self,
        start: int,
        num_samples: int,
        num_committed: int,
        num_before: int = 0,
        num_heard: int = 0,
    ) -> Cost:
        """Of a request about so many samples from start on (as in `Stretch`), with so many forced
        tokens of text, and so many samples in front of it that were not heard before. num_heard:
        samples that the last one with the same beginning was about."""

    def request(self, stretch: Stretch) -> Any:
        """A request of the kind that the model's runner takes."""

    def hypothesis(self, result: Result, stretch: Stretch) -> Hypothesis:
        """What the result of its request says beyond the committed tokens."""


def loop_room(num_samples: int) -> int:
    """Tokens that one phrase may have which somebody says over and over in so much speech ("no, no,
    no" is four a second). A model that is stuck writes more of them."""
    return LOOP_TOKENS * num_samples // SAMPLE_RATE


def max_answer(num_samples: int) -> int:
    """Tokens that so much speech can be at most: nobody says more than some ten a second, and a
    loop must not run for long."""
    return min(224, 16 + 10 * num_samples // SAMPLE_RATE)
