"""Who speaks when, in whole recordings and live, by a model of its own (a diariser)."""

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


@dataclass(frozen=True, slots=True)
class DiariseLive:
    """More of what a session hears, mono at 16 kHz, from its first sample on: answered by
    `SpeakersHeard`, as soon as it is known, or once by `DiarisingFailed`; what comes behind that is
    not heard. begin: samples before these; where some are missing, those from there on would be of
    other speakers, so that is a failure. is_last: no more will come."""

    session: str
    model: str
    samples: NDArray[np.float32]
    begin: int
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class SpeakersHeard:
    """Who speaks is known up to `seconds` of the session. over: turns that ended since the last
    time, in that order. open: those under way, as far as they are known. is_last: that was all."""

    session: str
    over: list[SpeakerTurn]
    open: list[SpeakerTurn]
    seconds: float
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class DiarisingFailed:
    """code: machine word, as in `FileFailed`."""

    session: str
    code: str
    message: str
