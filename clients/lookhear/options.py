"""The options of the client's methods as types: `Client` takes what `AsyncClient` takes, and a type
checker sees both. What each of them means stands at `AsyncClient`'s methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from lookhear.live.turns import ServerVad
from lookhear.sources.files import Medium


class TranscribeOptions(TypedDict, total=False):
    """Of `AsyncClient.transcribe`."""

    rate: int | None
    model: str | None
    language: str | None
    prompt: str | None
    turn_detection: ServerVad | None
    provisional: bool
    words: bool
    pace: float | None
    replay_seconds: float


class FileOptions(TypedDict, total=False):
    """Of `AsyncClient.transcribe_file`."""

    model: str | None
    language: str | None
    prompt: str | None


class RawFileOptions(FileOptions, total=False):
    """Of `AsyncClient.transcribe_raw`."""

    fields: list[tuple[str, str]] | None


class ChatOptions(TypedDict, total=False):
    """Of `AsyncClient.chat`."""

    images: Sequence[Medium]
    videos: Sequence[Medium]
    audio: Sequence[Medium]
    detail: str | None
    system: str | None
    model: str | None
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    extra: Mapping[str, Any] | None
    timeout: float | None


class TalkOptions(TypedDict, total=False):
    """Of `AsyncClient.conversation`."""

    model: str | None
    instructions: str | None
    max_tokens: int | None
    transcription_model: str | None
    language: str | None
    extension: Mapping[str, Any] | None
