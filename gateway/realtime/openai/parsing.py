"""Client events of the Realtime wire format (OpenAI Realtime GA) as commands of a session.

A client event that cannot be used raises `ProtocolError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import pybase64
from pydantic import Field, InstanceOf, ValidationError

from lookhear.gateway.checks.checks import (
    MAX_APPEND_BYTES,
    MISSING,
    ProtocolError,
    Text,
    WireModel,
    decode_audio,
    described,
    invalid,
    shown,
    wrong,
)
from lookhear.gateway.checks.outline import SMALL, parse_json
from lookhear.gateway.realtime.openai.beta import beta_refusal
from lookhear.gateway.realtime.openai.generation_updates import response_plan
from lookhear.gateway.realtime.openai.items import parse_input, parse_item
from lookhear.gateway.realtime.openai.session_updates import updated
from lookhear.gateway.realtime.protocol import commands


class ClientEvent(WireModel):
    """Base of the client events as they are on the wire."""

    event_id: Annotated[Text, Field(max_length=512)] | None = None


class SessionUpdate(ClientEvent):
    """session: checked when it is applied, for it depends on how the session is set."""

    session: dict[str, Any]


class AudioAppend(ClientEvent):
    """audio: decoded already."""

    audio: bytes


class ItemCreate(ClientEvent):
    """item: parsed already. previous_item_id: None for the end, "root" for the beginning."""

    item: InstanceOf[commands.NewItem]
    previous_item_id: Text | None = None


class ItemNamed(ClientEvent):
    """What is about one item."""

    item_id: Text


class TextEnd(WireModel):
    """Extension: characters of an answer that were read or spoken before it was interrupted."""

    characters: Annotated[int, Field(ge=0)]


class ItemTruncate(ItemNamed):
    """Where an answer is to be cut; there is no audio."""

    content_index: int
    audio_end_ms: int
    lookhear: TextEnd | None = None


class ResponseCreate(ClientEvent):
    """response: what is said about this response alone, checked when it is made.
    input: its own context instead of the conversation's, parsed already."""

    response: dict[str, Any] | None = None
    input: list[InstanceOf[commands.NewItem] | InstanceOf[commands.ItemReference]] | None = None


class ResponseCancel(ClientEvent):
    """response_id: None for the conversation's."""

    response_id: Text | None = None


class FrameAppend(ClientEvent):
    """Extension: a picture of a live camera. image: a data URL, or just its base64."""

    image: Text
    timestamp_ms: Annotated[int, Field(ge=0, le=2**53)]


_EVENTS: dict[str, type[ClientEvent]] = {
    "session.update": SessionUpdate,
    "input_audio_buffer.append": AudioAppend,
    "input_audio_buffer.commit": ClientEvent,
    "input_audio_buffer.clear": ClientEvent,
    "conversation.item.create": ItemCreate,
    "conversation.item.retrieve": ItemNamed,
    "conversation.item.delete": ItemNamed,
    "conversation.item.truncate": ItemTruncate,
    "response.create": ResponseCreate,
    "response.cancel": ResponseCancel,
    "output_audio_buffer.clear": ClientEvent,
    "lookhear.input_video_frame.append": FrameAppend,
    "lookhear.input_video_frame.clear": ClientEvent,
}
# Those that need no more than their names, and those that are about one item.
_PLAIN: dict[str, Callable[..., commands.RareCommand]] = {
    "input_audio_buffer.commit": commands.Commit,
    "input_audio_buffer.clear": commands.Clear,
    "output_audio_buffer.clear": commands.ClearOutput,
    "lookhear.input_video_frame.clear": commands.ClearFrames,
}
_ITEM: dict[str, Callable[..., commands.RareCommand]] = {
    "conversation.item.retrieve": commands.RetrieveItem,
    "conversation.item.delete": commands.DeleteItem,
}

# How the usual clients spell an append up to its audio, which is all of the rest.
_APPEND_HEADS = (
    '{"type":"input_audio_buffer.append","audio":"',
    '{"type": "input_audio_buffer.append", "audio": "',
)
_APPEND_TAIL = '"}'


def parse_client_event(text: str) -> commands.ClientCommand:
    """The command of one text frame. Raises ProtocolError."""
    if text.startswith(_APPEND_HEADS) and text.endswith(_APPEND_TAIL):
        event = _plain_append(text)
        if event is not None:
            return event
    data = _json_object(text)
    try:
        return _parsed(data)
    except ProtocolError as problem:
        event_id = data.get("event_id")
        if isinstance(event_id, str) and len(event_id) <= 512:
            problem.event_id = event_id
        raise


def _parsed(data: dict[str, Any]) -> commands.ClientCommand:
    name = data.get("type")
    if "type" not in data:
        expected = "the name of a client event"
        raise wrong("type", expected, MISSING, "missing_required_parameter")
    if not isinstance(name, str):
        raise wrong("type", "the name of a client event", shown(name), "invalid_type")
    if (refusal := beta_refusal(data)) is not None:
        raise refusal
    model = _EVENTS.get(name)
    if model is None:
        raise ProtocolError(
            f"type: expected one of {', '.join(_EVENTS)}; got {shown(name)}",
            code="unknown_event",
            param="type",
        )
    data = _prepared(model, data)
    try:
        return _command(name, model.model_validate(data))
    except ValidationError as error:
        raise invalid(error) from None


def _command(name: str, event: ClientEvent) -> commands.ClientCommand:
    """What a checked event asks for."""
    id = event.event_id
    match event:
        case AudioAppend():
            return commands.Append(event.audio, id)
        case SessionUpdate():
            change = partial(updated, session=event.session)
            return commands.Configure(change, event_id=id, name=name)
        case ItemCreate():
            return commands.CreateItem(event.item, event.previous_item_id, event_id=id, name=name)
        case ItemTruncate():
            kept = event.lookhear.characters if event.lookhear is not None else None
            at, ms = event.content_index, event.audio_end_ms
            return commands.TruncateItem(event.item_id, at, ms, kept, event_id=id, name=name)
        case ItemNamed():
            return _ITEM[name](event.item_id, event_id=id, name=name)
        case ResponseCreate():
            plan = partial(response_plan, response=event.response or {})
            return commands.CreateResponse(plan, event.input, event_id=id, name=name)
        case ResponseCancel():
            return commands.CancelResponse(event.response_id, event_id=id, name=name)
        case FrameAppend(image=image):
            url = image if image[:5].lower() == "data:" else f"data:image/jpeg;base64,{image}"
            return commands.AppendFrame(url, event.timestamp_ms, event_id=id, name=name)
        case _:
            return _PLAIN[name](event_id=id, name=name)


def _plain_append(text: str) -> commands.Append | None:
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
    return commands.Append(audio)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


_JSON = json.JSONDecoder(parse_constant=_no_number)


def _json_object(text: str) -> dict[str, Any]:
    try:
        if len(text) <= SMALL:
            data = _JSON.decode(text)
        else:  # half a character is not what UTF-8 can spell; the parser hands it on
            data = parse_json(text.encode(errors="surrogatepass"), constant=_no_number)
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


def _prepared(model: type[ClientEvent], data: dict[str, Any]) -> dict[str, Any]:
    """The event's data with audio decoded and items parsed. Raises ProtocolError."""
    if model is AudioAppend and "audio" in data:
        if not isinstance(data["audio"], str):
            raise wrong("audio", "a string of base64", described(data["audio"]), "invalid_type")
        return {**data, "audio": decode_audio(data["audio"])}
    if model is ItemCreate and "item" in data:
        return {**data, "item": parse_item(data["item"], "item")}
    if model is ResponseCreate:
        response = data.get("response")
        given = response.get("input") if isinstance(response, dict) else None
        parsed = None if given is None else parse_input(given, "response.input")
        return {**data, "input": parsed}
    return data


def binary_frame(size: int) -> ProtocolError:
    """Audio is not sent so here."""
    got = f"a binary frame of {size} bytes; send audio as base64 in input_audio_buffer.append"
    return wrong("frame", "a text frame with a JSON event", got, "invalid_frame")
