"""What was committed of the open segment, and what of it may stand in front of what follows. Pure.

A model writes what it has written: a word that it did not understand, and guessed, it then hears
wherever something sounds like it, and is sure of it. So later segments are heard behind the words
alone that it was sure of when they were said; and behind none of a segment where most were guessed,
since who reads half of what he hears leaves out as much of what follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lookhear.engine.core.request import Result
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.earlier import Earlier
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Recognizer, Stretch
from lookhear.engine.speech.text.agreement import Letters, is_boundary, is_punctuation
from lookhear.engine.speech.text.echo import is_echo, is_known, is_multiple, is_quote
from lookhear.engine.speech.text.hypothesis import Hypothesis, better, parting, way_out
from lookhear.engine.speech.text.pace import num_sayable, usual_pace
from lookhear.engine.speech.text.words import UNSPACED_LANGUAGES

MOSTLY = 0.6  # share of a segment's letters that the model must have been sure of
SLOW = 5  # letters a second: who speaks says more
# Mean log-probability of the tokens of a short turn behind a prompt, or of a brief one behind
# earlier speech. Who says what the prompt says, in its language, has -0.3 to 0, and what is copied
# -0.5 and less; a cry or a blow, which is no speech by itself, -0.7 to -3.2 (Whisper base).
DOUBTED = -0.5
BRIEF = SAMPLE_RATE  # samples of speech: a word or two, or a sound that was taken for some


class SegmentText:
    """tokens: ids. spelt: their UTF-8. improbable: places of those that were. num_lost: looks that
    what came before it did harm to. is_alone: it is heard without that. barred: of the next look,
    as in `Stretch`. It begins with what was committed before, by an engine that is gone."""

    def __init__(
        self,
        recognizer: Recognizer,
        tokens: Iterable[int] = (),
        improbable: Iterable[int] = (),
        num_lost: int = 0,
    ) -> None:
        self._recognizer = recognizer
        self.num_lost, self.is_alone = num_lost, num_lost > 0
        self.barred: tuple[int, int] | None = None
        self._first: Result | None = None  # of what is heard again
        self._is_nothing = False  # a brief sound, where it is heard behind earlier speech
        self.tokens, self.improbable = list(tokens), list(improbable)
        self.spelt = recognizer.decode_bytes(self.tokens)

    def add(self, said: Hypothesis, least: float) -> None:
        """least: log-probability below which a token is improbable."""
        first = len(self.tokens)
        self.improbable += [first + i for i, p in enumerate(said.logprobs) if p < least]
        self.tokens.extend(said.tokens)
        self.spelt += self._recognizer.decode_bytes(said.tokens)

    def lose(self, new: Hypothesis, stretch: Stretch) -> None:
        """What came before it did harm to a look at a stretch, which is repeated without. new: what
        was heard."""
        self.num_lost += 1
        self.is_alone, self.barred = True, None
        self._is_nothing = _is_brief(stretch) and not (new.tokens or self.tokens)

    def hears_again(
        self, result: Result, new: Hypothesis, before: Hypothesis, stretch: Stretch
    ) -> bool:
        """Whether a stretch is heard again, in another way, once, where somebody pauses; while he
        speaks, it is anyway, with more behind it. What it gave is a loop, behind what was told (of
        what is no speech, whatever comes instead is made up, too), or less probable than what was
        heard before. new: what it gave, less what a model says about silence."""
        self.barred = self._first = None
        if self._recognizer.heeds_bars and not stretch.is_open and stretch.barred is None:
            if stretch.committed:
                self.barred = way_out(result)
            if self.barred is None and new.language == before.language:
                self.barred = parting(result, before, {token for _, token in new.marks})
            self._first = result
        return self.barred is not None

    def better(self, result: Result, stretch: Stretch) -> Result:
        """What a stretch gave; if that was heard again, the better one. In a brief sound that was
        nothing behind earlier speech, and is hardly believed by itself, nobody spoke."""
        if stretch.barred is not None and self._first is not None:
            result = better(self._first, result)
        is_checked = self._is_nothing and not (stretch.is_open or stretch.said)
        return replace(result, no_speech_prob=1.0) if is_checked else result

    def num_sayable(self, new: Sequence[int], num_samples: int) -> int:
        """Leading tokens of a text behind it that can be said in so much audio of the segment."""
        return num_sayable(self.spelt, new, num_samples, self._recognizer.token_bytes)

    def num_told(
        self, new: Sequence[int], stretch: Stretch, earlier: Earlier, *, is_over: bool
    ) -> int:
        """Leading tokens of a text behind it, heard in a stretch, that can have been said by now:
        as fast as the voice was before, where they are known from there; none, while all of it is
        known from the prompt. earlier: the last that was said. is_over: nobody speaks on."""
        num_samples, recognizer = len(stretch.samples), self._recognizer
        most = self.num_sayable(new, num_samples)
        if not is_over and self._is_quote(new, stretch):
            return 0
        said = [token for segment in earlier.segments for token in segment.tokens]
        if is_over or not is_known([*said, *self.tokens], new[:most], recognizer.token_bytes):
            return most
        pace = usual_pace(recognizer.decode_bytes(said), earlier.num_samples)
        return num_sayable(self.spelt, new, num_samples, recognizer.token_bytes, pace)

    def is_lost(
        self,
        new: Hypothesis,
        stretch: Stretch,
        num_unheard: int,
        config: LiveConfig,
        *,
        repeats: bool,
    ) -> bool:
        """Whether what stood in front of a look did harm. num_unheard: samples of speech behind
        what was committed. repeats: it is a loop."""
        if not (stretch.said or stretch.prompt):
            return False
        least = config.stray if self.tokens else config.warm_up
        if not (stretch.is_open or self.tokens):
            least = 0  # a word behind itself, or a prompt in another language, is none at times
        is_over = not new.tokens and num_unheard > least
        if is_over or repeats or self._is_copied(new, stretch):
            return True
        return self.is_led_astray(new.tokens, stretch)

    def is_led_astray(self, new: Sequence[int], stretch: Stretch) -> bool:
        """Whether a text behind it, which was heard in a stretch, says again what was said before,
        or more than can be said."""
        if self.num_sayable(new, len(stretch.samples)) < len(new):
            return True
        spell = self._recognizer.token_bytes
        return bool(new) and is_echo(stretch.said, [*self.tokens, *new], spell)

    def _is_copied(self, new: Hypothesis, stretch: Stretch) -> bool:
        """Whether it is copied from what stood in front, or made up in its manner, for what was not
        understood: from the prompt for much speech, or, when all was said and it is in doubt, from
        the prompt, or for a brief sound from earlier speech, of which a word may say it twice."""
        if not (stretch.is_open or self.tokens) and (stretch.prompt or _is_brief(stretch)):
            is_doubted = sum(new.logprobs) < DOUBTED * len(new.logprobs)
            spell = self._recognizer.token_bytes
            is_doubled = _is_brief(stretch) and is_multiple(stretch.said, new.tokens, spell)
            return is_doubted or is_doubled
        if not self._is_quote(new.tokens, stretch):
            return False
        letters = Letters.of([*self.tokens, *new.tokens], self._recognizer.token_bytes).text
        return len(letters) * SAMPLE_RATE < SLOW * stretch.num_voiced

    def _is_quote(self, new: Sequence[int], stretch: Stretch) -> bool:
        spell = self._recognizer.token_bytes
        return bool(stretch.prompt) and is_quote(stretch.prompt, [*self.tokens, *new], spell)

    def probable(self, language: str | None) -> list[int]:
        """The tokens of words that have no improbable one, and the signs, unless those words are
        too few of all. language: ISO code (some have no spaces)."""
        if not self.improbable:
            return list(self.tokens)
        tokens, spell = self.tokens, self._recognizer.token_bytes
        unspaced, improbable = language in UNSPACED_LANGUAGES, set(self.improbable)
        kept: list[int] = []
        has_words = False
        first = 0
        for end in range(1, len(tokens) + 1):
            if not is_boundary(tokens, end, spell, unspaced):
                continue
            is_sign = all(is_punctuation(spell(token)) for token in tokens[first:end])
            if is_sign:  # behind words that are left out at the beginning it would stand in front
                kept += tokens[first:end] if has_words or first == 0 else []
            elif improbable.isdisjoint(range(first, end)):
                kept += tokens[first:end]
                has_words = True
            first = end
        num_sure, num_all = (len(Letters.of(some, spell).text) for some in (kept, tokens))
        return kept if has_words and num_sure >= MOSTLY * num_all else []


def _is_brief(stretch: Stretch) -> bool:
    """Whether it is a word or two, or a sound that was taken for some, behind earlier speech."""
    return bool(stretch.said) and stretch.num_voiced < BRIEF
