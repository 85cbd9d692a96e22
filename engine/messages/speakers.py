"""Who speaks when, of whole recordings, by a model of its own (a diariser)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SpeakerTurn:
    """Somebody speaks from start to end, in seconds; others may at the same time. speaker: numbered
    by their first words, from 0."""

    speaker: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class DiariseFile:
    """A whole recording at once, mono at 16 kHz: answered by `FileDiarised` or `FileFailed`. The
    work is of class `batch`."""

    request: str
    model: str
    samples: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FileDiarised:
    """The whole recording. turns: by their beginning."""

    request: str
    turns: list[SpeakerTurn]
