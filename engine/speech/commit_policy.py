"""How much of what a tick heard may be said for good. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lookhear.engine.speech.agreement import agreed_words
from lookhear.engine.speech.hypothesis import Hypothesis
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.words import UNSPACED_LANGUAGES


class CommitPolicy:
    """token_bytes: UTF-8 bytes that a text token stands for."""

    def __init__(self, config: LiveConfig, token_bytes: Callable[[int], bytes]) -> None:
        self._config = config
        self._token_bytes = token_bytes

    def num_final(
        self,
        new: Hypothesis,
        older: Sequence[Hypothesis],
        *,
        language: str | None,
        num_samples: int,
        is_quiet: bool,
    ) -> int:
        """Leading tokens of the new hypothesis that will not change any more.

        older: those of the ticks before, as many as have to agree, beyond the same committed text.
        language: ISO code, if it is settled. num_samples: of the segment that were heard. is_quiet:
        there is silence behind the last word, so it will not grow.
        """
        config = self._config
        # From a few syllables a model makes up whole sentences, and may do so twice alike.
        is_ripe = num_samples >= config.warm_up
        same_language = language is not None or all(
            hypothesis.language == new.language for hypothesis in older
        )
        if not (is_ripe and same_language):
            return 0
        return agreed_words(
            [hypothesis.tokens for hypothesis in older],
            new.tokens,
            self._token_bytes,
            held_words=0 if is_quiet else config.held_words,
            unspaced=new.language in UNSPACED_LANGUAGES,
            limit=None if is_quiet else new.num_confident(config.least_logprob),
        )
