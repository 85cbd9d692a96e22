"""What is tried of the text of one running request, once that is complete.

    decoded token by token  -> what is told of each is kept
    complete                -> on trial: from some place on it is decoded again, with a word that is
                               expected, or with the other choice where the model was in doubt
    over                    -> the text with all in it that was heard

Pure. A runner says how likely tokens are: see `tell`. What is guessed is verified like a draft.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from lookhear.engine.sampling.alternatives import Alternatives, Doubts
from lookhear.engine.sampling.expected import ExpectedWords, Told, WrittenText
from lookhear.engine.sampling.trials import Trials


class OnTrial(Protocol):
    """A complete text: see `Trials` and `Alternatives`."""

    is_over: bool
    guess: tuple[int, ...]

    @property
    def num_forced(self) -> int:
        """How much of the guess stands, though the model would say something else."""

    @property
    def context(self) -> tuple[int, ...]:
        """Tokens of the text in front of what is guessed."""

    def take(self, tokens: Sequence[int], told: Sequence[Told]) -> None:
        """What was chosen at each guess and behind the last one. What is forced is the guess."""

    def result(self) -> tuple[list[int], list[float]]:
        """The text, and how likely its tokens are; without the token that ended it. When over."""


class Expecting:
    """Of one request. words: that are expected; else doubts, which are thought over. trials: of its
    text, once that is complete."""

    def __init__(self, words: ExpectedWords | None, doubts: Doubts | None = None) -> None:
        assert (words is None) != (doubts is None)
        self._words, self._doubts = words, doubts
        self.trials: OnTrial | None = None
        self._told: list[Told] = []
        self._cached: list[int] = []  # tokens whose keys and values are there

    @property
    def guess(self) -> tuple[int, ...]:
        """Of a text on trial: what follows in the next step."""
        return () if self.trials is None else self.trials.guess

    @property
    def forced(self) -> tuple[int, ...]:
        """Of the guess, what stands whatever the model says."""
        return () if self.trials is None else self.guess[: self.trials.num_forced]

    @property
    def firsts(self) -> tuple[int, ...]:
        """Tokens of which it matters how likely they are where the next ones are chosen."""
        return () if self._words is None or self.trials is not None else self._words.firsts

    @property
    def is_doubted(self) -> bool:
        """Whether it matters which other token is likely where the next ones are chosen."""
        return self._doubts is not None and self.trials is None

    def read(self, tokens: Sequence[int]) -> None:
        """A step is done: so much of the context is cached."""
        self._cached[:] = tokens

    def tell(self, told: Sequence[Told]) -> None:
        """Of the next tokens of a text that is not on trial."""
        self._told += told

    def begin(
        self,
        text: Sequence[int],
        before: Sequence[int],
        ends: Collection[int],
        room: int,
        *,
        is_open: bool,
    ) -> OnTrial:
        """The text is complete, with the token that ended it. See `Trials`, `Alternatives`."""
        told = tuple(self._told[len(self._told) - len(text) :])
        written = WrittenText(tuple(text), told)
        if self._words is not None:
            self.trials = Trials(self._words, written, before, ends, room, is_open=is_open)
        else:
            assert self._doubts is not None
            self.trials = Alternatives(self._doubts, written, ends, room, is_open=is_open)
        return self.trials

    def num_cached(self, context: Sequence[int]) -> int:
        """How many of these tokens need not be fed again; the last one is, for what follows it."""
        same = 0
        for token, cached in zip(context[:-1], self._cached, strict=False):
            if token != cached:
                break
            same += 1
        return same


def rejoined(draft: Sequence[int], said: Sequence[int]) -> tuple[int, ...]:
    """What is left of a draft that was wrong in between. Behind a word that was heard last time,
    and is written again only when all is decoded, it is most probably right again."""
    rest: tuple[int, ...] = ()
    for place in range(1, len(draft) - 1):
        if list(draft[place - 1 : place + 1]) == list(said[-2:]):
            rest = tuple(draft[place + 1 :])
    return rest
