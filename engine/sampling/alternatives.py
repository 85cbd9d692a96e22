"""Second thoughts about a complete text: where the model was in doubt, its other choice. Pure.

Greedy decoding takes the likeliest token at each place, whatever comes of it: "Hacido" may begin
better than "Ha", and "Ha sido" be the likelier text all the same. So the places at which a model
was least sure are looked at again, from left to right: the runner-up stands there instead, the
model writes on behind it, and if both texts are the same again some tokens later, the likelier way
there stays. Beam search with two beams finds about the same texts, and reads two of them all along;
here who is sure pays nothing.

All depends on the text and on what the model says of it, not on how either came about: drafts
change nothing, and a batch is as good as none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lookhear.engine.sampling.expected import Told, WrittenText


@dataclass(frozen=True, slots=True)
class Doubts:
    """Which choices are thought over. token_bytes: UTF-8 of a token. num_text: token ids from there
    on are no text. most: in one text, the closest ones; 0: none. sure:
    probability of a token from which on no other is tried. behind: nats by which the other one may
    be less likely. edge: last words of a text that may go on, which wait for what comes. stray:
    tokens within which both texts must be the same again, alike: so many of them. longer: letters
    by which they may differ in between, since a text that is over at once is always likelier."""

    token_bytes: Callable[[int], bytes]
    num_text: int
    most: int = 4
    sure: float = 0.7
    behind: float = 2.5
    edge: int = 2
    stray: int = 8
    alike: int = 8
    longer: int = 12


class Alternatives:
    """Of one text, one place after the other. ends: tokens that end one. room: most tokens of it.
    is_open: speech may go on behind it.

    Who decodes feeds `context` and `guess`, tells of each guessed token and of the one behind them,
    and goes on until it `is_over`.
    """

    def __init__(
        self,
        doubts: Doubts,
        text: WrittenText,
        ends: Collection[int],
        room: int,
        *,
        is_open: bool = False,
    ) -> None:
        self._doubts, self._ends = doubts, ends
        self._tokens, self._told = list(text.tokens), list(text.told)
        longest = len(self._tokens) + doubts.stray + 2 * doubts.alike
        self._places = self._doubtful(is_open=is_open) if longest <= room else []
        self._next(0)

    def _doubtful(self, *, is_open: bool) -> list[int]:
        """Places to look at again, in their order."""
        doubts, found = self._doubts, list[tuple[float, int]]()
        last = self._edge() if is_open else len(self._tokens)
        for at, (token, here) in enumerate(zip(self._tokens[:last], self._told, strict=False)):
            behind = here.own - here.other_logprob
            if max(token, here.other) >= self._doubts.num_text or here.other < 0:
                continue  # times, and where a text ends
            if here.own < math.log(doubts.sure) and behind <= doubts.behind:
                found.append((behind, at))
        return sorted(at for _, at in sorted(found)[: doubts.most])

    def _edge(self) -> int:
        """Where the last words begin; tokens are words where there are no blanks."""
        text = [at for at, token in enumerate(self._tokens) if token < self._doubts.num_text]
        words = [
            at for at in text if self._doubts.token_bytes(self._tokens[at])[:1].isspace()
        ] or text
        return words[-self._doubts.edge] if len(words) >= self._doubts.edge else 0

    def _next(self, start: int) -> None:
        """The next place from there on."""
        self._written: list[int] = []
        self._new: list[Told] = []
        self._places = [at for at in self._places if at >= start]
        self.is_over = not self._places
        self.guess: tuple[int, ...] = ()
        if not self.is_over:
            self._at = self._places.pop(0)
            other, behind = self._told[self._at].other, self._at + 1
            self.guess = (other, *self._tokens[behind : behind + self._doubts.alike])
            self.guess = self.guess[: len(self._tokens) - self._at - 1]  # not the end

    @property
    def num_forced(self) -> int:
        """How much of the guess stands, though the model would say something else."""
        return int(not self._written)

    @property
    def context(self) -> tuple[int, ...]:
        """Tokens of the text in front of what is guessed."""
        return (*self._tokens[: self._at], *self._written)

    def take(self, tokens: Sequence[int], told: Sequence[Told]) -> None:
        """What was chosen at each guess and behind the last one. What is forced is the guess."""
        assert not self.is_over and len(tokens) == len(told) == len(self.guess) + 1
        forced = self.num_forced
        for place, (token, here) in enumerate(zip(tokens, told, strict=True)):
            self._written.append(token)
            self._new.append(here)
            if token in self._ends:
                self._weigh(len(self._tokens))
                return
            if place >= forced and (place >= len(self.guess) or token != self.guess[place]):
                break
            if (end := self._rejoined()) is not None:
                self._weigh(end)
                return
        if (end := self._rejoined()) is not None:
            self._weigh(end)
        elif self._is_lost():
            self._next(self._at + 1)
        else:
            self.guess = self._continuation()

    def _rejoined(self) -> int | None:
        """Behind which token of the text both are the same again; None: they are not yet."""
        alike, written = self._doubts.alike, self._written
        if len(written) <= alike:
            return None
        tail = written[-alike:]
        first, last = self._at + 1, min(len(self._tokens) - 1, self._furthest + alike)
        ends = [n for n in range(first + alike, last + 1) if self._tokens[n - alike : n] == tail]
        return min(ends, key=lambda n: abs(n - self._at - len(written)), default=None)

    @property
    def _furthest(self) -> int:
        return self._at + len(self._written) + self._doubts.stray

    def _is_lost(self) -> bool:
        """Whether it will not become better."""
        doubts, count = self._doubts, len(self._written)
        if count > doubts.stray + doubts.alike:
            return True
        return self._gain(self._furthest) < 0

    def _gain(self, end: int) -> float:
        """In nats, over the text from this place up to there."""
        own = sum(here.own for here in self._told[self._at : end])
        return sum(here.own for here in self._new) - own

    def _continuation(self) -> tuple[int, ...]:
        """What follows in the text behind the token that was written last, if it is there."""
        near = range(self._at, min(len(self._tokens) - 1, self._furthest))
        places = [n for n in near if self._tokens[n] == self._written[-1]]
        if not places:
            return ()
        expected = self._at + len(self._written) - 1
        place = min(places, key=lambda n: abs(n - expected)) + 1
        return tuple(self._tokens[place : min(place + self._doubts.alike, len(self._tokens) - 1)])

    def _weigh(self, end: int) -> None:
        """Both texts are the same from there on, or over."""
        short, long = sorted(map(self._length, (self._written, self._tokens[self._at : end])))
        is_like = long - short <= self._doubts.longer + short // 8
        if self._gain(end) <= 0 or not is_like:
            self._next(self._at + 1)
            return
        count, moved = len(self._written), len(self._written) - (end - self._at)
        self._tokens[self._at : end] = self._written
        self._told[self._at : end] = self._new
        self._places = [at + moved for at in self._places if at >= end]
        self._next(self._at + count)

    def _length(self, tokens: Sequence[int]) -> int:
        text = (token for token in tokens if token < self._doubts.num_text)
        return sum(len(self._doubts.token_bytes(token)) for token in text)

    def result(self) -> tuple[list[int], list[float]]:
        """The likeliest text that was found, and how likely its tokens are; without the token that
        ended it. Only when over."""
        assert self.is_over
        return self._tokens[:-1], [here.own for here in self._told[:-1]]
