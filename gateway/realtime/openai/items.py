"""Conversation items as clients send them, parsed and checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from lookhear.gateway.checks.checks import (
    MISSING,
    Text,
    WireModel,
    decode_audio,
    described,
    invalid,
    shown,
    wrong,
)
from lookhear.gateway.checks.tools import readable_arguments
from lookhear.gateway.realtime.protocol import commands

MAX_PARTS = 256  # of one item
MAX_ITEM_ID = 512  # characters
ITEMS = ("message", "function_call", "function_call_output")
ItemId = Annotated[Text, Field(min_length=1, max_length=MAX_ITEM_ID)]
# What each role may say.
PARTS = {
    "user": ("input_text", "input_image", "input_audio"),
    "system": ("input_text",),
    "assistant": ("output_text", "output_audio"),
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


class SpokenWire(WireModel):
    """What an assistant said somewhere else; here answers are text."""

    transcript: Text


class MessageWire(WireModel):
    """An item, its parts not yet checked."""

    id: ItemId | None = None
    role: Literal["user", "system", "assistant"]
    content: Annotated[list[Any], Field(max_length=MAX_PARTS)]


class CallWire(WireModel):
    """A call of a tool that a client remembers."""

    id: ItemId | None = None
    call_id: ItemId | None = None
    name: Text
    arguments: Text


class OutputWire(WireModel):
    """What came of a call."""

    id: ItemId | None = None
    call_id: Text
    output: Text


class ReferenceWire(WireModel):
    """An item by its id."""

    id: Text


def parse_item(value: object, path: str) -> commands.NewItem:
    """An item of a client. Raises ProtocolError, naming the field below `path`."""
    data = _typed(value, ITEMS, path)
    try:
        if data["type"] == "function_call":
            return _call(CallWire.model_validate(data), path)
        if data["type"] == "function_call_output":
            output = OutputWire.model_validate(data)
            part = commands.NewOutput(output.call_id, output.output, f"{path}.output")
            return commands.NewItem(output.id, "tool", (part,), path)
        message = MessageWire.model_validate(data)
    except ValidationError as error:
        raise invalid(error, path) from None
    parts = [
        _part(part, message.role, f"{path}.content[{index}]")
        for index, part in enumerate(message.content)
    ]
    return commands.NewItem(message.id, message.role, tuple(parts), path)


def parse_input(value: object, path: str) -> list[commands.NewItem | commands.ItemReference]:
    """The `input` of a response: messages and references to items. Raises ProtocolError."""
    if not isinstance(value, list):
        raise wrong(path, "an array", described(value), "invalid_type")
    return [_item_or_reference(entry, f"{path}[{index}]") for index, entry in enumerate(value)]


def _call(call: CallWire, path: str) -> commands.NewItem:
    try:
        arguments = readable_arguments(call.arguments or "")
    except ValueError as error:
        raise wrong(f"{path}.arguments", "a JSON object as text", str(error)) from None
    part = commands.NewCall(call.call_id, call.name, arguments)
    return commands.NewItem(call.id, "assistant", (part,), path)


def _item_or_reference(value: object, path: str) -> commands.NewItem | commands.ItemReference:
    data = _typed(value, (*ITEMS, "item_reference"), path)
    if data["type"] != "item_reference":
        return parse_item(data, path)
    try:
        return commands.ItemReference(ReferenceWire.model_validate(data).id, path)
    except ValidationError as error:
        raise invalid(error, path) from None


def _part(value: object, role: str, path: str) -> commands.NewPart:
    data = _typed(value, PARTS[role], path)
    try:
        match data["type"]:
            case "input_image":
                image = ImageWire.model_validate(data)
                detail = image.detail or "auto"
                return commands.NewImage(image.image_url, detail, f"{path}.image_url")
            case "input_audio":
                return _audio(AudioWire.model_validate(data), path)
            case "output_audio":
                said = SpokenWire.model_validate(data).transcript
                return commands.NewText(said, f"{path}.transcript")
            case _:
                return commands.NewText(TextWire.model_validate(data).text, f"{path}.text")
    except ValidationError as error:
        raise invalid(error, path) from None


def _audio(audio: AudioWire, path: str) -> commands.NewAudio:
    heard, read = f"{path}.audio", f"{path}.transcript"
    if audio.audio is not None:
        return commands.NewAudio(decode_audio(audio.audio, heard), audio.transcript, heard)
    if audio.transcript is None:
        raise wrong(heard, "audio as base64", MISSING, "missing_required_parameter")
    return commands.NewAudio(None, audio.transcript, read)


def _typed(value: object, types: tuple[str, ...], path: str) -> dict[str, Any]:
    """An object of one of these types."""
    if not isinstance(value, dict):
        raise wrong(path, "an object", described(value), "invalid_type")
    if value.get("type") not in types:
        expected = " or ".join(shown(type) for type in types)
        if "type" not in value:
            raise wrong(f"{path}.type", expected, MISSING, "missing_required_parameter")
        raise wrong(f"{path}.type", expected, shown(value["type"]))
    return value
