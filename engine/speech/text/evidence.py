"""What the ticks of an open segment heard, and how much of it is sure: what looks agree on, over
enough audio. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.text.agreement import (
    Letters,
    TokenBytes,
    agreed_letters,
    agreed_words,
    num_unheld,
)
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.text.pace import LETTERS_PER_SECOND, is_ahead
from lookhear.engine.speech.text.words import UNSPACED_LANGUAGES

ROUNDED_OFF = 12  # letters: two words more than before are no whole sentence


class Look(NamedTuple):
    """What was heard: tokens, and their language. end: of the audio, in samples."""

    end: int
    tokens: tuple[int, ...]
    language: str | None


class Looks:
    """What ticks heard behind the committed text."""

    def __init__(self) -> None:
        self._looks: list[Look] = []
        self._is_begun = False  # whether there is committed text

    def add(self, end: int, hypothesis: Hypothesis, keep: int) -> None:
        """The newest. Older ones are kept as far as `since(keep)` wants them. Who takes committed
        text for all that there is, while somebody goes on, has not heard other words."""
        if self._is_begun and not hypothesis.tokens:
            return
        self._looks = [*self._from(keep), Look(end, hypothesis.tokens, hypothesis.language)]

    def commit(self, tokens: Sequence[int], token_bytes: TokenBytes) -> None:
        """These are committed text now. A look that wrote them in another way loses what has the
        same letters; one that heard something else has nothing more to say."""
        self._is_begun = True
        said = tuple(tokens)
        letters: Letters | None = None  # for those that did not write the same tokens
        for i, look in enumerate(self._looks):
            heard = look.tokens
            if heard[: len(said)] == said:
                rest = heard[len(said) :]
            elif said[: len(heard)] == heard:
                rest = ()  # it heard less
            else:
                letters = letters or Letters.of(said, token_bytes)
                rest = _behind(look, letters.text, token_bytes)
            self._looks[i] = Look(look.end, rest, look.language)

    def clear(self) -> None:
        """A new segment begins."""
        self._looks, self._is_begun = [], False

    def last(self) -> list[Look]:
        """The newest, if there is one."""
        return self._looks[-1:]

    def since(self, position: int) -> list[Look]:
        """All whose audio ended later than a position, and the last one before them; nothing, if no
        look is that old."""
        looks = self._from(position)
        return looks if looks and looks[0].end <= position else []

    def is_stuck(self, position: int, token_bytes: TokenBytes) -> bool:
        """Whether looks at ever more audio, from a position on, heard not one letter more."""
        looks = self.since(position)
        if not looks or bool(looks[0].tokens) != bool(looks[-1].tokens):
            return False  # mostly
        text = Letters.of(looks[-1].tokens, token_bytes).text
        return all(Letters.of(look.tokens, token_bytes).text == text for look in looks[:-1])

    def _from(self, position: int) -> list[Look]:
        first = 0
        for i, look in enumerate(self._looks):
            if look.end > position:
                break
            first = i
        return self._looks[first:]


def num_sure(
    new: Hypothesis,
    looks: Looks,
    config: LiveConfig,
    token_bytes: TokenBytes,
    *,
    end: int,
    is_quiet: bool,
    most: int,
) -> int:
    """Leading tokens of the new hypothesis that will not change any more. looks: those before it.
    end: of its audio, as theirs. is_quiet: that audio ends in silence. most: no more than these."""
    if is_quiet:
        # There is silence behind the last word, so it will not grow: one more look is enough.
        return _num_agreed(new, looks.last(), token_bytes, most)
    unspaced, held = new.language in UNSPACED_LANGUAGES, config.held_words
    unheld = num_unheld(new.tokens, token_bytes, held_words=held, unspaced=unspaced)
    told, most, sure = most, min(most, unheld), 0
    for evidence in config.evidence:
        limit = min(most, new.num_confident(evidence.least_logprob))
        if limit > sure:
            older = looks.since(end - evidence.samples)
            sure = max(sure, _num_agreed(new, older, token_bytes, limit))
    if told > sure:
        older = looks.since(end - config.settled)
        sure = max(sure, _num_agreed(new, older, token_bytes, told))
    if config.letters and most > sure:
        older = looks.since(end - config.letters)
        sure = max(sure, _num_alike(new, older, token_bytes, most, config.letters_share))
    return sure


def num_least(
    looks: Looks,
    draft: Hypothesis,
    token_bytes: TokenBytes,
    said: bytes,
    start: int,
    *,
    told: int,
    voiced: int,
    long: int,
    is_cut: bool,
) -> int:
    """Tokens that the next look must find behind the committed text, where looks have heard words.
    More than a draft, if they heard no more while somebody spoke on for long: then the model takes
    a sentence for all that there is; unless the oldest of them knew it before it can have been
    said. One, if nothing was told for long, or is_cut: what is heard last before a cut is heard by
    nobody else. said: the committed text, in UTF-8. Positions, in samples: start of the audio;
    told, voiced: up to where it was, and there is speech."""
    if not any(look.tokens for look in looks.last()):
        return 0
    if looks.is_stuck(voiced - long, token_bytes):
        heard = looks.since(voiced - long)[0].end - start
        if not is_ahead(said, draft.tokens, heard, token_bytes):
            return len(draft.tokens) + 1
    return int(voiced - max(told, start) > (0 if is_cut else long))


def _num_alike(
    new: Hypothesis, older: Sequence[Look], token_bytes: TokenBytes, limit: int, share: float
) -> int:
    # Of the oldest look there is mostly nothing left that was not committed.
    if not older or not older[0].tokens or any(look.language != new.language for look in older):
        return 0
    return agreed_letters(
        [look.tokens for look in older],
        new.tokens,
        token_bytes,
        unspaced=new.language in UNSPACED_LANGUAGES,
        limit=limit,
        share=share,
    )


def num_heard(
    new: Hypothesis, looks: Looks, token_bytes: TokenBytes, end: int, *, least: float
) -> int:
    """Leading tokens of a hypothesis about audio that was cut while somebody spoke, without what
    the model made up to round it off: more words than the look before had there, or than can have
    been said since, or words at the very end that it did not expect. end: of the audio that was
    cut. least: log-probability below which a token is improbable."""
    unspaced = new.language in UNSPACED_LANGUAGES
    for before in looks.last():
        if before.language != new.language:
            continue
        heard = len(Letters.of(new.tokens, token_bytes, unspaced).text)
        known = len(Letters.of(before.tokens, token_bytes, unspaced).text)
        since = max(0, end - before.end) / SAMPLE_RATE
        if heard > known + ROUNDED_OFF + LETTERS_PER_SECOND * since:
            return agreed_letters(
                [before.tokens], new.tokens, token_bytes, unspaced=unspaced, limit=len(new.tokens)
            )
    return _num_expected(new, least, token_bytes, unspaced)


def _num_expected(new: Hypothesis, least: float, token_bytes: TokenBytes, unspaced: bool) -> int:
    """Leading tokens without words at the end that begin with an improbable one: who has heard the
    beginning of a word is sure of that, and guesses how it ends."""
    count = len(new.tokens)
    while count:
        first = num_unheld(new.tokens[:count], token_bytes, held_words=1, unspaced=unspaced)
        if new.logprobs[first] >= least:
            break
        count = first
    return count


def _behind(look: Look, letters: str, token_bytes: TokenBytes) -> tuple[int, ...]:
    """What a look heard behind committed letters; nothing, if it heard something else there."""
    own = Letters.of(look.tokens, token_bytes, look.language in UNSPACED_LANGUAGES)
    count = own.num_tokens(len(letters)) if own.text.startswith(letters) else None
    return () if count is None else look.tokens[count:]


def _num_agreed(new: Hypothesis, older: Sequence[Look], token_bytes: TokenBytes, limit: int) -> int:
    if not older or any(look.language != new.language for look in older):
        return 0
    return agreed_words(
        [look.tokens for look in older],
        new.tokens,
        token_bytes,
        held_words=0,
        unspaced=new.language in UNSPACED_LANGUAGES,
        limit=limit,
    )
