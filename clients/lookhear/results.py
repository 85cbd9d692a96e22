"""What whole-file transcription and the list of models answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TimedText:
    """A segment or a word with its place in the file, in seconds. language: of a segment, as the
    server says it; None: it does not."""

    text: str
    start: float
    end: float
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole file. duration in seconds; language: name or code as the server says it."""

    text: str
    language: str | None
    duration: float
    segments: tuple[TimedText, ...]
    words: tuple[TimedText, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Transcript:
        """From a `verbose_json` answer."""
        return cls(
            text=str(data["text"]),
            language=data.get("language"),
            duration=float(data["duration"]),
            segments=tuple(_timed(s, "text") for s in data.get("segments") or ()),
            words=tuple(_timed(w, "word") for w in data.get("words") or ()),
        )


def _timed(entry: Mapping[str, Any], key: str) -> TimedText:
    start, end = float(entry["start"]), float(entry["end"])
    return TimedText(str(entry[key]), start, end, entry.get("language"))


@dataclass(frozen=True, slots=True)
class Model:
    """A served model: id is what `model=` takes; created in seconds since 1970. toy: it knows a
    small closed world. abilities: among "transcribe", "translate", "chat", "image", "video".
    reason: why it is served, if the server chose it. languages: that it hears, by code; empty: one
    alone, or not said. The last four are told by lookhear alone."""

    id: str
    owned_by: str
    created: int
    toy: bool = False
    abilities: tuple[str, ...] = ()
    reason: str = ""
    languages: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Model:
        """From an entry of `/v1/models`."""
        return cls(
            str(data["id"]),
            str(data.get("owned_by", "")),
            int(data.get("created", 0)),
            data.get("toy") is True,
            tuple(map(str, data.get("abilities") or ())),
            str(data.get("reason", "")),
            tuple(map(str, data.get("languages") or ())),
        )


def first_able(models: Sequence[Model], ability: str) -> Model:
    """The first that can do it; of a server that does not tell who can what, the first of all."""
    return next((model for model in models if ability in model.abilities), models[0])
