"""What one session says, and the truth about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.bench.measures.spelling import spelled
from lookhear.bench.measures.trace import RATE, SpokenWord
from lookhear.wer import WordErrors, errors_by_part, total


@dataclass(frozen=True, slots=True)
class Session:
    """What one session says: [n] samples at 24 kHz, and the truth about them.

    split: what the tables name beside the language. spelling: how texts are compared, a name of
    `measures.spelling`. parts: the text cut at its utterances, where they are known. changes: of
    one in several languages, from which second on which is spoken; `language` is empty then.
    """

    name: str
    pcm: NDArray[np.int16]
    text: str
    words: tuple[SpokenWord, ...]
    language: str
    split: str = ""
    spelling: str = ""
    parts: tuple[str, ...] = ()
    changes: tuple[tuple[float, str], ...] = ()

    def language_at(self, second: float) -> str:
        """ISO code of what is spoken there."""
        codes = [code for start, code in self.changes if start <= second]
        return codes[-1] if codes else self.language

    def part_errors(self, heard: str) -> list[WordErrors]:
        """Of a transcript of all of it: the errors of each part, or of the whole."""
        said = [spelled(part, self.language, self.spelling) for part in self.parts or (self.text,)]
        return errors_by_part(said, spelled(heard, self.language, self.spelling))

    def errors(self, heard: str) -> WordErrors:
        """Of a transcript of all of it."""
        return total(self.part_errors(heard))


def audio_seconds(sessions: Sequence[Session]) -> float:
    """Of all of them."""
    return sum(len(session.pcm) for session in sessions) / RATE
