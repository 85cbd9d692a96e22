"""Words that are expected in one running request: what is told of its text, and the trial of it.

    decoded token by token  -> what is told of each is kept
    complete                -> on trial: from some place on it is decoded again, with such a word
    over                    -> the text with all words in it that were heard

Pure. A runner says how likely tokens are: see `tell`. What is guessed is verified like a draft.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lookhear.engine.sampling.expected import ExpectedWords, Told
from lookhear.engine.sampling.trials import Trials, WrittenText


class Expecting:
    """Of one request. trials: of its text, once that is complete."""

    def __init__(self, words: ExpectedWords) -> None:
        self.words = words
        self.trials: Trials | None = None
        self._told: list[Told] = []
        self._cached: list[int] = []  # tokens whose keys and values are there

    @property
    def guess(self) -> tuple[int, ...]:
        """Of a text on trial: what follows in the next step."""
        return () if self.trials is None else self.trials.guess

    @property
    def forced(self) -> tuple[int, ...]:
        """Of the guess, what stands whatever the model says."""
        return self.guess if self.trials is not None and self.trials.is_forced else ()

    @property
    def firsts(self) -> tuple[int, ...]:
        """Tokens of which it matters how likely they are where the next ones are chosen."""
        return self.words.firsts if self.trials is None else ()

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
    ) -> Trials:
        """The text is complete, with the token that ended it. See `Trials`."""
        told = tuple(self._told[len(self._told) - len(text) :])
        written = WrittenText(tuple(text), told)
        self.trials = Trials(self.words, written, before, ends, room, is_open=is_open)
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
