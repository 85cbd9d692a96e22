"""Client events of the Realtime wire format (OpenAI Realtime GA), parsed and checked.

A client event that cannot be used raises `ProtocolError`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import pybase64
from pydantic import Field, InstanceOf, ValidationError

from lookhear.gateway.checks.checks import (
    MAX_APPEND_BYTES,
    ProtocolError,
    Text,
    WireModel,
    decode_audio,
    described,
    invalid,
    shown,
)
from lookhear.gateway.realtime.openai.items import ItemReference, NewItem, parse_input, parse_item

__all__ = ["MAX_APPEND_BYTES", "ClientEvent", "ProtocolError", "parse_client_event", "shown"]


class ClientEventBase(WireModel):
    event_id: Annotated[Text, Field(max_length=512)] | None = None


class SessionUpdate(ClientEventBase):
    type: Literal["session.update"]
    session: dict[str, Any]  # checked by settings.SessionPatch


@dataclass(frozen=True, slots=True)
class Append:
    """audio: the decoded bytes, still in the session's audio format."""

    audio: bytes
    event_id: str | None = None
    type: ClassVar[str] = "input_audio_buffer.append"


class _Append(ClientEventBase):
    type: Literal["input_audio_buffer.append"]
    audio: bytes


class Commit(ClientEventBase):
    type: Literal["input_audio_buffer.commit"]


class Clear(ClientEventBase):
    type: Literal["input_audio_buffer.clear"]


class ItemCreate(ClientEventBase):
    """previous_item_id: None for the end, "root" for the beginning."""

    type: Literal["conversation.item.create"]
    item: InstanceOf[NewItem]
    previous_item_id: Text | None = None


class ItemRetrieve(ClientEventBase):
    type: Literal["conversation.item.retrieve"]
    item_id: Text


class ItemDelete(ClientEventBase):
    type: Literal["conversation.item.delete"]
    item_id: Text


class ItemTruncate(ClientEventBase):
    type: Literal["conversation.item.truncate"]
    item_id: Text
    content_index: int
    audio_end_ms: int


class ResponseCreate(ClientEventBase):
    """response: what is said about this response alone, checked by generation.ResponsePatch.
    input: its own context instead of the conversation's."""

    type: Literal["response.create"]
    response: dict[str, Any] | None = None
    input: list[InstanceOf[NewItem] | InstanceOf[ItemReference]] | None = None


class ResponseCancel(ClientEventBase):
    type: Literal["response.cancel"]
    response_id: Text | None = None


class OutputClear(ClientEventBase):
    """Nothing is ever played here."""

    type: Literal["output_audio_buffer.clear"]


class FrameAppend(ClientEventBase):
    """Extension: a picture of a live camera. image: a data URL, or just its base64."""

    type: Literal["lookhear.input_video_frame.append"]
    image: Text
    timestamp_ms: Annotated[int, Field(ge=0, le=2**53)]


class FramesClear(ClientEventBase):
    """Extension: forget what the camera showed."""

    type: Literal["lookhear.input_video_frame.clear"]


_Rare = (
    SessionUpdate
    | Commit
    | Clear
    | ItemCreate
    | ItemRetrieve
    | ItemDelete
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
    | OutputClear
    | FrameAppend
    | FramesClear
)
ClientEvent = Append | _Rare

# An `_Append` comes out as an `Append`: appends are most of what comes, and it is cheaper to make.
_EVENTS: dict[str, type[_Rare | _Append]] = {
    "session.update": SessionUpdate,
    "input_audio_buffer.append": _Append,
    "input_audio_buffer.commit": Commit,
    "input_audio_buffer.clear": Clear,
    "conversation.item.create": ItemCreate,
    "conversation.item.retrieve": ItemRetrieve,
    "conversation.item.delete": ItemDelete,
    "conversation.item.truncate": ItemTruncate,
    "response.create": ResponseCreate,
    "response.cancel": ResponseCancel,
    "output_audio_buffer.clear": OutputClear,
    "lookhear.input_video_frame.append": FrameAppend,
    "lookhear.input_video_frame.clear": FramesClear,
}


# How the usual clients spell an append up to its audio, which is all of the rest.
_APPEND_HEADS = (
    '{"type":"input_audio_buffer.append","audio":"',
    '{"type": "input_audio_buffer.append", "audio": "',
)
_APPEND_TAIL = '"}'


def parse_client_event(text: str) -> ClientEvent:
    """One text frame as an event. Raises ProtocolError."""
    if text.startswith(_APPEND_HEADS) and text.endswith(_APPEND_TAIL):
        event = _plain_append(text)
        if event is not None:
            return event
    data = _json_object(text)
    event_id = data.get("event_id")
    echo = event_id if isinstance(event_id, str) and len(event_id) <= 512 else None
    name = data.get("type")
    if not isinstance(name, str):
        got = "nothing (the field is missing)" if "type" not in data else shown(name)
        raise ProtocolError(
            f"type: expected the name of a client event, got {got}",
            code="missing_required_parameter" if "type" not in data else "invalid_type",
            param="type",
            event_id=echo,
        )
    model = _EVENTS.get(name)
    if model is None:
        raise ProtocolError(
            f"type: expected one of {', '.join(_EVENTS)}; got {shown(name)}",
            code="unknown_event",
            param="type",
            event_id=echo,
        )
    data = _prepared(model, data, echo)
    try:
        checked = model.model_validate(data)
        if isinstance(checked, _Append):
            return Append(checked.audio, checked.event_id)
        return checked
    except ValidationError as error:
        raise invalid(error, event_id=echo) from None


def _plain_append(text: str) -> Append | None:
    """The append that the text spells in one of the usual ways, None if it may be something else.

    Between head and tail is either pure base64, and then it is a JSON string without escapes, or
    the strict decoder refuses it.
    """
    head = len(_APPEND_HEADS[text[8] == " "])
    if len(text) - head > MAX_APPEND_BYTES:
        return None
    try:
        audio = pybase64.b64decode(text[head : -len(_APPEND_TAIL)], validate=True)
    except ValueError:
        return None
    return Append(audio)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


_JSON = json.JSONDecoder(parse_constant=_no_number)


def _json_object(text: str) -> dict[str, Any]:
    try:
        data = _JSON.decode(text)
    except RecursionError:
        raise ProtocolError("expected JSON, got too deep a nesting", code="invalid_json") from None
    except ValueError as error:
        raise ProtocolError(
            f"expected a JSON object, got text that is not JSON ({error}): {shown(text[:80])}",
            code="invalid_json",
        ) from None
    if not isinstance(data, dict):
        raise ProtocolError(f"expected a JSON object, got {described(data)}", code="invalid_json")
    return data


def _prepared(
    model: type[_Rare | _Append], data: dict[str, Any], event_id: str | None
) -> dict[str, Any]:
    """The event's data with audio decoded and items parsed. Raises ProtocolError."""
    if model is _Append and "audio" in data:
        if not isinstance(data["audio"], str):
            raise ProtocolError(
                f"audio: expected a string of base64, got {described(data['audio'])}",
                code="invalid_type",
                param="audio",
                event_id=event_id,
            )
        return {**data, "audio": decode_audio(data["audio"], event_id=event_id)}
    if model is ItemCreate and "item" in data:
        return {**data, "item": parse_item(data["item"], "item", event_id)}
    if model is ResponseCreate:
        response = data.get("response")
        given = response.get("input") if isinstance(response, dict) else None
        parsed = None if given is None else parse_input(given, "response.input", event_id)
        return {**data, "input": parsed}
    return data
