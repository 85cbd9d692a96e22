"""Expected words on trial: a text with one of them in it against the text without. Pure.

Each candidate takes the place of what the model wrote. The model says how likely it finds the word
there, token by token, and writes on behind it. What it finds less likely, over all of the text from
there on, is what the word costs; with a few nats for each of its tokens, in whose favour no reading
has spoken (unless it was said before), that has to come out at a gain. So not only does a word have
to sound right: speech that it does not cover, or that it covers twice, costs what stands behind it.

What keeps it honest besides: a word is followed by no letter, it stands for about as many letters
as it has, and a few tokens behind it the text is again the one without it. Of words that want the
same place, the one that gains most gets it. Nothing of a text changes but where a word was heard.

All depends on the text and on what the model says of it, not on how either came about: drafts
change nothing, and a batch is as good as none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from lookhear.engine.sampling.expected import Candidate, ExpectedWords, Told, WrittenText


class _Heard(NamedTuple):
    """The tokens from `start` to `end` of the text are to be these instead. sure: nats of each, as
    a text is judged by them."""

    gain: float
    start: int
    end: int
    tokens: tuple[int, ...]
    sure: tuple[float, ...]


class Trials:
    """Of one text, one candidate after the other. before: tokens in front of it, which stay. ends:
    tokens that end a text. room: most tokens of the text.
    is_open: speech may go on behind it, in the midst of a word.

    Who decodes feeds `context` and `guess`, tells of each guessed token and of the one behind them,
    and goes on until it `is_over`.
    """

    def __init__(
        self,
        words: ExpectedWords,
        text: WrittenText,
        before: Sequence[int],
        ends: Collection[int],
        room: int,
        *,
        is_open: bool = False,
    ) -> None:
        self._words, self._text, self._ends, self._is_open = words, text, ends, is_open
        self._before = tuple(before)
        said = (*before, *text.tokens)
        self._candidates = [
            Candidate(at - len(before), word)
            for at, word in words.candidates(said, text.told, len(before))
            if len(text.tokens) + len(word) + words.strength.stray <= room
        ]
        self._heard: list[_Heard] = []
        self._next()

    def _next(self) -> None:
        """The next candidate; its word is what is guessed first, whatever the model says."""
        self.is_over = not self._candidates
        self._written: list[int] = []
        self._told: list[Told] = []
        self._strayed = 0
        self.guess: tuple[int, ...] = ()
        if not self.is_over:
            self._at, self._word = self._candidates.pop(0)
            self.guess = self._word
            # What stands there already the model expects by itself, and would write it once more
            # wherever a name is said: nothing more speaks for it.
            said = (*self._before, *self._text.tokens[: self._at])
            is_known = _contains(said, self._word)
            self._favour = 0.0 if is_known else self._words.strength.gain * len(self._word)

    @property
    def num_forced(self) -> int:
        """How much of the guess stands, though the model would say something else."""
        return 0 if self._written else len(self.guess)

    @property
    def context(self) -> tuple[int, ...]:
        """Tokens of the text that is on trial, in front of what is guessed."""
        return (*self._text.tokens[: self._at], *self._written)

    def take(self, tokens: Sequence[int], told: Sequence[Told]) -> None:
        """What was chosen at each guess and behind the last one. While a guess is forced, that is
        the guess."""
        assert not self.is_over and len(tokens) == len(told) == len(self.guess) + 1
        guess, is_forced = self.guess, self.num_forced > 0
        for place, (token, here) in enumerate(zip(tokens, told, strict=True)):
            self._written.append(token)
            self._told.append(here)
            is_guessed = place < len(guess)
            if is_forced and is_guessed:
                assert token == guess[place]
                continue
            if is_forced and token not in self._ends and not self._words.may_follow(token):
                self._next()
                return
            if token in self._ends:
                self._weigh()
                self._next()
                return
            if not is_guessed or guess[place] != token:
                self._strayed += 1
                break
        if self._gain() < 0 or self._strayed > self._words.strength.stray:
            self._next()  # it will not become better
            return
        self.guess = self._rest()

    def _gain(self) -> float:
        """Of what was written so far, over all that the text without it says from there on."""
        own = sum(here.own for here in self._text.told[self._at :])
        return (
            sum(here.own for here in self._told) - own + self._favour - self._words.strength.doubt
        )

    def _rest(self) -> tuple[int, ...]:
        """What follows in the text behind the token that was written last, if it is there."""
        rest = self._text.tokens[self._at + 1 : -1]
        last = self._written[-1]
        return rest[rest.index(last) + 1 :] if last in rest else ()

    def _weigh(self) -> None:
        """A text with the word in it is complete."""
        old, new = self._text.tokens[self._at : -1], self._written[:-1]
        count, gain, same = len(self._word), self._gain(), 0
        while same < min(len(old) - 1, len(new) - count) and old[-1 - same] == new[-1 - same]:
            same += 1
        changed, replaced = tuple(new[: len(new) - same]), old[: len(old) - same]
        if gain <= 0 or not self._words.is_like(changed, replaced):
            return
        if self._is_open and not self._words.has_word(old[len(old) - same :]):
            return  # half of a word is like many others
        # A word counts as sure as what the model would have said instead: else a text with a name
        # in it would be taken for a bad one.
        sure = [here.best if n < count else here.own for n, here in enumerate(self._told)]
        end = self._at + len(replaced)
        self._heard.append(_Heard(gain, self._at, end, changed, tuple(sure[: len(changed)])))

    def result(self) -> tuple[list[int], list[float]]:
        """The text with all words that were heard in it, and how likely its tokens are; without the
        token that ended it. Only when over."""
        assert self.is_over
        chosen: list[_Heard] = []
        for heard in sorted(self._heard, reverse=True):
            if all(heard.end <= one.start or one.end <= heard.start for one in chosen):
                chosen.append(heard)
        tokens = list(self._text.tokens[:-1])
        sure = [here.own for here in self._text.told[:-1]]
        for heard in sorted(chosen, key=lambda one: one.start, reverse=True):
            tokens[heard.start : heard.end] = heard.tokens
            sure[heard.start : heard.end] = heard.sure
        return tokens, sure


def _contains(tokens: Sequence[int], word: Sequence[int]) -> bool:
    """Whether the tokens of a word stand there, one behind the other."""
    count = len(word)
    return any(
        tuple(tokens[at : at + count]) == tuple(word) for at in range(len(tokens) - count + 1)
    )
