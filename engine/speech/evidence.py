"""How much of what a tick heard is sure: agreement between looks, over enough audio. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lookhear.engine.speech.agreement import TokenBytes, agreed_words
from lookhear.engine.speech.hypothesis import Hypothesis
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.looks import Looks
from lookhear.engine.speech.words import UNSPACED_LANGUAGES


def num_sure(
    new: Hypothesis,
    looks: Looks,
    config: LiveConfig,
    token_bytes: TokenBytes,
    *,
    end: int,
    is_quiet: bool,
) -> int:
    """Leading tokens of the new hypothesis that will not change any more. looks: those before it.
    end: of its audio, as theirs. is_quiet: that audio ends in silence."""
    if is_quiet:
        # There is silence behind the last word, so it will not grow: one more look is enough.
        return _num_agreed(new, looks.last(), token_bytes, held_words=0)
    return max(
        _num_agreed(
            new,
            looks.since(end - evidence.samples),
            token_bytes,
            held_words=config.held_words,
            limit=new.num_confident(evidence.least_logprob),
        )
        for evidence in config.evidence
    )


def _num_agreed(
    new: Hypothesis,
    older: Sequence[Hypothesis],
    token_bytes: TokenBytes,
    *,
    held_words: int,
    limit: int | None = None,
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
