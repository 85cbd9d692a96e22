"""Items and frames as the messages that an engine answers.

The order is that of the conversation, instructions first, so that a prompt begins as the one
before it ended wherever nothing was inserted or deleted: what is cached is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from lookhear.engine.messages import (
    AudioPart,
    ChatMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCall,
    VideoPart,
)
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.realtime.pictures.camera import CameraFrame
from lookhear.gateway.realtime.protocol.conversation import (
    AudioContent,
    CallContent,
    Content,
    ImageContent,
    Item,
    OutputContent,
    Spoken,
    TextContent,
)

CAMERA = "lookhear.input_video_frame"
FIELDS: dict[type, str] = {ImagePart: "image_url", AudioPart: "audio"}


@dataclass(slots=True)
class Prompt:
    """media: what the messages show. places: of each part of each message, in words of the
    client."""

    messages: list[ChatMessage] = field(default_factory=list)
    media: list[Picture | Spoken] = field(default_factory=list)
    places: list[list[str]] = field(default_factory=list)

    def place(self, message: int | None, part: int | None) -> str | None:
        """What the client calls a part that an engine cannot use."""
        if message is None or not 0 <= message < len(self.places):
            return None
        places = self.places[message]
        if not places:
            return None
        return places[part] if part is not None and 0 <= part < len(places) else places[0]


def build_prompt(
    instructions: str, items: Sequence[Item], frames: Sequence[CameraFrame], *, hears: bool
) -> Prompt:
    """Items without text or media are left out; what a user said in a row is one message. Frames
    stand where `camera` says. hears: what was said is heard, where it was kept, and not read."""
    prompt = Prompt()
    if instructions:
        _add(prompt, "system", [(TextPart(instructions), "instructions")])
    groups = _by_answer(items, frames)
    waiting = groups.get(None, [])  # frames that no message holds yet
    calls: set[str] = set()
    for item in items:
        if item.call is not None or item.role == "tool":
            _add_call(prompt, item, calls)
            waiting = waiting + groups.get(item.id, [])
            continue
        parts = _parts(item, hears)
        if item.role == "user" and parts:
            parts, waiting = _videos(waiting, prompt) + parts, []
        elif item.role == "assistant" and waiting:
            _add(prompt, "user", _videos(waiting, prompt))
            waiting = []
        _add(prompt, item.role, parts)
        prompt.media += item.media(hears=hears)
        waiting = waiting + groups.get(item.id, [])
    _add(prompt, "user", _videos(waiting, prompt))
    return prompt


def _add(prompt: Prompt, role: str, parts: list[tuple[Part, str]]) -> None:
    if not parts:
        return
    if role != "user" or not prompt.messages or prompt.messages[-1].role != role:
        prompt.messages.append(ChatMessage(role, []))
        prompt.places.append([])
    # A picture, and then a question about it, are one turn, as in every model's training.
    held, places = prompt.messages[-1].parts, prompt.places[-1]
    if held and isinstance(held[-1], TextPart) and isinstance(parts[0][0], TextPart):
        held.append(TextPart("\n"))
        places.append(parts[0][1])
    held += [part for part, _ in parts]
    places += [place for _, place in parts]


def _add_call(prompt: Prompt, item: Item, calls: set[str]) -> None:
    """A call, or what came of one. calls: ids of those before. Calls in a row are one message, with
    what was said in front of them. What is cut off, or of a call that is gone, is left out."""
    match item.content:
        case [CallContent(id, name, arguments)] if item.status == "completed":
            calls.add(id)
            if not prompt.messages or prompt.messages[-1].role != "assistant":
                prompt.messages.append(ChatMessage("assistant", []))
                prompt.places.append([])
            prompt.messages[-1].calls.append(ToolCall(id, name, arguments))
        case [OutputContent(id, output)] if id in calls:
            prompt.messages.append(ChatMessage("tool", [TextPart(output)], call=id))
            prompt.places.append([f"{item.id}.output"])


def _by_answer(
    items: Iterable[Item], frames: Iterable[CameraFrame]
) -> dict[str | None, list[CameraFrame]]:
    """Frames behind an answer that is gone join those before it."""
    answers = {item.id for item in items if item.role == "assistant"}
    groups: dict[str | None, list[CameraFrame]] = {}
    answer: str | None = None
    for frame in frames:
        if frame.after in answers:
            answer = frame.after
        groups.setdefault(answer, []).append(frame)
    return groups


def _videos(frames: Sequence[CameraFrame], prompt: Prompt) -> list[tuple[Part, str]]:
    """One part for each stretch of frames of one size, seconds counted from its first."""
    videos: list[tuple[Part, str]] = []
    for _, stretch in groupby(frames, key=lambda frame: frame.picture.pixels.shape):
        run = list(stretch)
        names = [frame.picture.name for frame in run]
        seconds = [round(frame.seconds - run[0].seconds, 3) for frame in run]
        videos.append((VideoPart(names, seconds, live=True), CAMERA))
        prompt.media += [frame.picture for frame in run]
    return videos


def _parts(item: Item, hears: bool) -> list[tuple[Part, str]]:
    parts: list[tuple[Part, str]] = []
    for index, content in enumerate(item.content):
        part = _part(content, hears)
        if part is not None:
            field = FIELDS.get(type(part), "text")
            parts.append((part, f"{item.id}.content[{index}].{field}"))
    return parts


def _part(content: Content, hears: bool) -> Part | None:
    match content:
        case ImageContent(picture=Picture(name=name)):
            return ImagePart(name, content.detail)
        case ImageContent():
            return None
        case TextContent():
            return TextPart(content.text) if content.text else None
        case AudioContent(spoken=Spoken(name)) if hears:
            return AudioPart(name)
        case AudioContent():
            return TextPart(content.transcript) if content.transcript else None
        case CallContent() | OutputContent():
            return None
