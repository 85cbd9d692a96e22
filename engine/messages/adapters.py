"""Adapters: small changes of a model's weights, asked for by name with the model's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadAdapter:
    """folder: on the engine's machine. One of that name is replaced: requests under way keep the
    one that they have. Answered by `AdapterLoaded` or `AdapterFailed`."""

    request: str
    model: str
    name: str
    folder: str


@dataclass(frozen=True, slots=True)
class UnloadAdapter:
    """Nobody can ask for it any more; requests under way keep it. Answered like `LoadAdapter`."""

    request: str
    model: str
    name: str


@dataclass(frozen=True, slots=True)
class AdapterLoaded:
    """Or unloaded, if that was asked. rank: the largest of its changes. version: of its content."""

    request: str
    name: str
    rank: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class AdapterFailed:
    """code: machine word. message: what is wrong with it, or that there is none."""

    request: str
    code: str
    message: str
