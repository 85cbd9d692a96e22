"""How a transducer is asked about a recording that is all there, and what it means. Pure."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import TranscriptionSettings
from lookhear.engine.speech.recognizer import Stretch
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.tokenizers.pieces import PieceTokenizer
from lookhear.engine.transducer.languages import Languages
from lookhear.engine.transducer.request import TransducerRequest


class Hearing(Protocol):
    """How a checkpoint hears, see `Sound`."""

    def whole(
        self, key: str, priority: Priority, samples: NDArray[np.float32], prompt: int | None
    ) -> TransducerRequest:
        """About a recording that is all there."""


class TransducerRecognizer:
    """See `Recognizer`. languages: that it can be told."""

    joins_with_space = True
    heeds_bars = False
    max_carried = 0

    def __init__(
        self, tokenizer: PieceTokenizer, sound: Hearing, languages: Languages | None = None
    ) -> None:
        self.languages = languages or Languages()
        self.token_bytes = tokenizer.token_bytes
        self.decode_bytes = tokenizer.decode_bytes
        self._sound = sound

    def cost(
        self,
        start: int,
        num_samples: int,
        num_committed: int,
        num_before: int = 0,
        num_heard: int = 0,
    ) -> Cost:
        """All of it."""
        return Cost(num_samples)

    def prompt(self, settings: TranscriptionSettings) -> int | None:
        """See `TransducerRequest`."""
        return self.languages.prompt(self.languages.told(settings))

    def request(self, stretch: Stretch) -> TransducerRequest:
        """All of it."""
        prompt = self.languages.prompt(stretch.language)
        return self._sound.whole(stretch.key, stretch.priority, stretch.samples[:], prompt)

    def hypothesis(self, result: Result, stretch: Stretch) -> Hypothesis:
        """See `Recognizer`."""
        return self.heard(result, stretch.start)

    def heard(self, result: Result, start: int) -> Hypothesis:
        """start: where the recording begins that it is about, in samples."""
        return self.languages.heard(Hypothesis.of(result, 0, start))
