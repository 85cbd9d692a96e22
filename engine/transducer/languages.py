"""In which languages a transducer can be told to hear, and how it says which one it heard. Pure.

One of many languages is told by a number, as its processor has them by locale ("de-DE": 9), and
writes a tag behind a sentence ("<de-DE>"), which is no text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.messages import TranscriptionSettings
from lookhear.engine.speech.text.hypothesis import Hypothesis

_LOCALE = re.compile(r"([a-z]{2,3})(?:-[A-Z]{2})?")
_TAG = re.compile(r"<([a-z]{2,3})-[A-Z]{2}>")


@dataclass(frozen=True, slots=True)
class Languages:
    """prompts: what to tell for each ISO code. tags: ISO codes by the tokens that stand for them.
    Both are empty where there is one language only."""

    prompts: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, num_prompts: int, spelt: Sequence[str | None]) -> Languages:
        """spelt: each token as tokenizer.json has it. Raises `CheckpointError`."""
        if not num_prompts:
            return cls()
        path = folder / "processor_config.json"
        key = "prompt_dictionary"
        told = read_json(path, required=False).get(key) or {}
        if not isinstance(told, dict) or not all(
            type(number) is int and 0 <= number < num_prompts for number in told.values()
        ):
            raise CheckpointError.of(path, key, f"numbers below {num_prompts}", told)
        prompts: dict[str, int] = {}
        # The code by itself counts more than its first locale.
        for locale in sorted(told, key=lambda name: (len(name) > 3, list(told).index(name))):
            if found := _LOCALE.fullmatch(locale):
                prompts.setdefault(found[1], told[locale])
        tags = {
            token: found[1]
            for token, piece in enumerate(spelt)
            if piece is not None and (found := _TAG.fullmatch(piece))
        }
        return cls(dict(sorted(prompts.items())), tags)

    @staticmethod
    def told(settings: TranscriptionSettings) -> str | None:
        """ISO code that is given, or the only one that may be found."""
        only = settings.languages[0] if len(settings.languages) == 1 else None
        return settings.language or only

    def prompt(self, language: str | None) -> int | None:
        """None: as the model has it, which is to find out."""
        return None if language is None else self.prompts.get(language)

    def heard(self, said: Hypothesis) -> Hypothesis:
        """Without tags; language: the last of them."""
        tags = [token for token in said.tokens if token in self.tags]
        if not tags:
            return said
        text = said.without(self.tags.__contains__)
        return text._replace(language=self.tags[tags[-1]], marks=())
