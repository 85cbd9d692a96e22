"""How the engine of a model is, for people who wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Availability(StrEnum):
    """Whether an engine can be asked."""

    LOADING = "loading"  # for the first time
    READY = "ready"
    RESTARTING = "restarting"  # it has died
    NOT_ANSWERING = "not_answering"  # its process is there and has said nothing for some time


@dataclass(frozen=True, slots=True)
class EngineState:
    """How the engine of one model is. stage: what a start is doing, in words, "" if ready.
    progress: the share of the stage that is done, 0 to 1."""

    model: str
    state: Availability
    stage: str
    progress: float
