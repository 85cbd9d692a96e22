"""What the ticks of an open segment heard, and how much of it is sure: what looks agree on, over
enough audio. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.text.agreement import TokenBytes, agreed_words
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.text.words import UNSPACED_LANGUAGES


class Look(NamedTuple):
    """What was heard: tokens, and their language. end: of the audio, in samples."""

    end: int
    tokens: tuple[int, ...]
    language: str | None


class Looks:
    """What ticks heard behind the committed text."""

    def __init__(self) -> None:
        self._looks: list[Look] = []

    def add(self, end: int, hypothesis: Hypothesis, keep: int) -> None:
        """The newest. Older ones are kept as far as `since(keep)` wants them."""
        self._looks = [*self._from(keep), Look(end, hypothesis.tokens, hypothesis.language)]

    def commit(self, count: int) -> None:
        """The first count tokens are committed text now."""
        if count:
            self._looks = [Look(end, said[count:], code) for end, said, code in self._looks]

    def clear(self) -> None:
        """A new segment begins."""
        self._looks = []

    def last(self) -> list[Look]:
        """The newest, if there is one."""
        return self._looks[-1:]

    def since(self, position: int) -> list[Look]:
        """All whose audio ended later than a position, and the last one before them; nothing, if no
        look is that old."""
        looks = self._from(position)
        return looks if looks and looks[0].end <= position else []

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
        return _num_agreed(new, looks.last(), token_bytes, held_words=0, limit=most)
    return max(
        _num_agreed(
            new,
            looks.since(end - evidence.samples),
            token_bytes,
            held_words=config.held_words,
            limit=min(most, new.num_confident(evidence.least_logprob)),
        )
        for evidence in config.evidence
    )


def _num_agreed(
    new: Hypothesis,
    older: Sequence[Look],
    token_bytes: TokenBytes,
    *,
    held_words: int,
    limit: int,
) -> int:
    if not older or any(look.language != new.language for look in older):
        return 0
    return agreed_words(
        [look.tokens for look in older],
        new.tokens,
        token_bytes,
        held_words=held_words,
        unspaced=new.language in UNSPACED_LANGUAGES,
        limit=limit,
    )
