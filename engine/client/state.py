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
    """How one engine of a model is. stage: what a start is doing, in words, "" if ready. progress:
    the share of the stage that is done, 0 to 1. replica: which of the model's engines, from 1, over
    all workers; is_encoder: of those that are its encoder alone."""

    model: str
    state: Availability
    stage: str
    progress: float
    replica: int = 1
    is_encoder: bool = False

    @property
    def label(self) -> str:
        """A name of this engine alone."""
        return labelled(self.model, self.replica, self.is_encoder)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What came of engines that died. moved: sessions that went on with another engine, or with the
    same one started again; lost: those that were told and closed. held_bytes: audio and pictures
    kept now, should an engine die. forgotten_seconds: audio that was not kept, being too much."""

    moved: int = 0
    lost: int = 0
    held_bytes: int = 0
    forgotten_seconds: float = 0.0


def labelled(model: str, replica: int, is_encoder: bool = False) -> str:
    """The first is called as its model."""
    if is_encoder:
        return f"{model}#encoder-{replica}"
    return model if replica == 1 else f"{model}#{replica}"
