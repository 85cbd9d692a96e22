"""A conversation as the chat path takes it, before what it points at is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lookhear.engine.messages import TextPart, ToolCall
from lookhear.gateway.http.errors import wrong

DETAILS = {"auto": "auto", "low": "low", "high": "high", "original": "high"}

Kind = Literal["image", "video", "audio", "prompt_embeds"]


@dataclass(frozen=True, slots=True)
class Pointer:
    """Media that a message points at. url: or, if is_base64, the file itself. part: path of the
    part; path: of the URL or the data in it."""

    kind: Kind
    url: str
    part: str
    path: str
    detail: str = "auto"
    is_base64: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One message; the rest as in `ChatMessage`. path: of the message in the request; paths: of its
    parts, one each."""

    role: str
    parts: list[TextPart | Pointer]
    paths: list[str]
    path: str
    calls: list[ToolCall] = field(default_factory=list)
    call: str | None = None
    thinking: str = ""
    tokens: list[int] = field(default_factory=list)


def pointers(lines: Sequence[Line]) -> Iterator[Pointer]:
    """Find all media, in order."""
    for line in lines:
        for part in line.parts:
            if isinstance(part, Pointer):
                yield part


def check_continued(lines: Sequence[Line]) -> None:
    """Refuse what no answer can go on from. Raises ApiError."""
    last = lines[-1]
    expected = "a text of the assistant in the end, which is gone on with"
    if last.role != "assistant":
        raise wrong(last.path, expected, f"a message of the {last.role}")
    if last.calls:
        raise wrong(last.path, expected, "calls")
    if not last.parts or not isinstance(text := last.parts[-1], TextPart) or not text.text:
        raise wrong(last.path, expected, "no text")


def check_media(lines: Sequence[Line], most: int) -> None:
    """Refuse more media parts than that. Raises ApiError."""
    for number, pointer in enumerate(pointers(lines), 1):
        if number > most:
            expected = f"at most {most} images, videos, recordings and embeddings in a request"
            raise wrong(pointer.part, expected, "more", code="too_many_pictures")
