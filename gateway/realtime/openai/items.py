"""Conversation items as clients send them, parsed and checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from lookhear.gateway.checks.checks import (
    ProtocolError,
    Text,
    WireModel,
    decode_audio,
    described,
    invalid,
    shown,
)
from lookhear.gateway.realtime.protocol import commands

MAX_PARTS = 256  # of one item
MAX_ITEM_ID = 512  # characters
# What each role may say; function calls and audio of assistants are not there.
PARTS = {
    "user": ("input_text", "input_image", "input_audio"),
    "system": ("input_text",),
    "assistant": ("output_text",),
}


class TextWire(WireModel):
    """Something written."""

    text: Text


class ImageWire(WireModel):
    """A picture by its URL."""

    image_url: Text
    detail: commands.Detail | None = None


class AudioWire(WireModel):
    """Speech, or what was said."""

    audio: Text | None = None
    transcript: Text | None = None


class MessageWire(WireModel):
    """An item, its parts not yet checked."""

    id: Annotated[Text, Field(min_length=1, max_length=MAX_ITEM_ID)] | None = None
    role: Literal["user", "system", "assistant"]
    content: Annotated[list[Any], Field(max_length=MAX_PARTS)]


class ReferenceWire(WireModel):
    """An item by its id."""

    id: Text


def parse_item(value: object, path: str, event_id: str | None) -> commands.NewItem:
    """A message item of a client. Raises ProtocolError, naming the field below `path`."""
    data = _an_object(value, path, event_id)
    _expect_type(data, ("message",), path, event_id)
    try:
        message = MessageWire.model_validate(data)
    except ValidationError as error:
        raise invalid(error, prefix=path, event_id=event_id) from None
    parts = [
        _part(part, message.role, f"{path}.content[{index}]", event_id)
        for index, part in enumerate(message.content)
    ]
    return commands.NewItem(message.id, message.role, tuple(parts), path)


def parse_input(
    value: object, path: str, event_id: str | None
) -> list[commands.NewItem | commands.ItemReference]:
    """The `input` of a response: messages and references to items. Raises ProtocolError."""
    if not isinstance(value, list):
        raise _wrong_type(value, "an array", path, event_id)
    return [
        _item_or_reference(entry, f"{path}[{index}]", event_id) for index, entry in enumerate(value)
    ]


def _item_or_reference(
    value: object, path: str, event_id: str | None
) -> commands.NewItem | commands.ItemReference:
    data = _an_object(value, path, event_id)
    _expect_type(data, ("message", "item_reference"), path, event_id)
    if data["type"] == "message":
        return parse_item(data, path, event_id)
    try:
        return commands.ItemReference(ReferenceWire.model_validate(data).id, path)
    except ValidationError as error:
        raise invalid(error, prefix=path, event_id=event_id) from None


def _part(value: object, role: str, path: str, event_id: str | None) -> commands.NewPart:
    data = _an_object(value, path, event_id)
    _expect_type(data, PARTS[role], path, event_id)
    try:
        match data["type"]:
            case "input_image":
                image = ImageWire.model_validate(data)
                return commands.NewImage(
                    image.image_url, image.detail or "auto", f"{path}.image_url"
                )
            case "input_audio":
                audio = AudioWire.model_validate(data)
                return _audio(audio, f"{path}.audio", event_id)
            case _:
                return commands.NewText(TextWire.model_validate(data).text, f"{path}.text")
    except ValidationError as error:
        raise invalid(error, prefix=path, event_id=event_id) from None


def _audio(audio: AudioWire, path: str, event_id: str | None) -> commands.NewAudio:
    if audio.audio is None and audio.transcript is None:
        raise ProtocolError(
            f"{path}: expected audio as base64, got nothing (the field is missing)",
            code="missing_required_parameter",
            param=path,
            event_id=event_id,
        )
    data = None
    if audio.audio is not None:
        data = decode_audio(audio.audio, param=path, event_id=event_id)
    return commands.NewAudio(data, audio.transcript, path)


def _an_object(value: object, path: str, event_id: str | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong_type(value, "an object", path, event_id)
    return value


def _expect_type(
    data: dict[str, Any], types: tuple[str, ...], path: str, event_id: str | None
) -> None:
    if data.get("type") not in types:
        is_missing = "type" not in data
        got = "nothing (the field is missing)" if is_missing else shown(data["type"])
        raise ProtocolError(
            f"{path}.type: expected {' or '.join(shown(type) for type in types)}, got {got}",
            code="missing_required_parameter" if is_missing else "invalid_value",
            param=f"{path}.type",
            event_id=event_id,
        )


def _wrong_type(value: object, expected: str, path: str, event_id: str | None) -> ProtocolError:
    return ProtocolError(
        f"{path}: expected {expected}, got {described(value)}",
        code="invalid_type",
        param=path,
        event_id=event_id,
    )
