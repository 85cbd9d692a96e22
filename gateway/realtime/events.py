"""Client events of the Realtime wire format, parsed and checked.

OpenAI Realtime GA. A client event that cannot be used raises `ProtocolError`, which names the
field, says what was expected and what came, and carries the client's `event_id`. Unknown extra
fields are ignored: real clients send tuning fields that not every server has.
"""

from __future__ import annotations

import binascii
import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

MAX_APPEND_BYTES = 15 * 1024 * 1024  # of decoded audio in one append, as documented by OpenAI
_SHOWN = 80  # characters of a refused value that an error message repeats


class ProtocolError(Exception):
    """A client event that cannot be used; the session goes on.

    code: machine word. param: path of the offending field. event_id: the client's, echoed.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        param: str | None = None,
        event_id: str | None = None,
        type: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.event_id = event_id
        self.type = type


def shown(value: object) -> str:
    """A value as an error message shows it: JSON, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def kind(value: object) -> str:
    """The JSON type of a value, in words."""
    names: tuple[tuple[type, str], ...] = (
        (bool, "a boolean"),
        (str, "a string"),
        (int, "a number"),
        (float, "a number"),
        (list, "an array"),
        (dict, "an object"),
    )
    return next((name for cls, name in names if isinstance(value, cls)), "null")


def _unicode(text: str) -> str:
    """Refuse lone surrogates: JSON can spell them, UTF-8 and tokenizers cannot."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("expected valid Unicode text, got a lone surrogate") from None
    return text


Text = Annotated[str, AfterValidator(_unicode)]
"""A string that is valid Unicode."""


class WireModel(BaseModel):
    """Base of everything a client sends: exact JSON types, unknown fields ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class ClientEventBase(WireModel):
    event_id: Annotated[Text, Field(max_length=512)] | None = None


class SessionUpdate(ClientEventBase):
    type: Literal["session.update"]
    session: dict[str, Any]  # checked by settings.SessionPatch


class Append(ClientEventBase):
    """audio: the decoded bytes, still in the session's audio format."""

    type: Literal["input_audio_buffer.append"]
    audio: bytes


class Commit(ClientEventBase):
    type: Literal["input_audio_buffer.commit"]


class Clear(ClientEventBase):
    type: Literal["input_audio_buffer.clear"]


class ItemRetrieve(ClientEventBase):
    type: Literal["conversation.item.retrieve"]
    item_id: Text


class ItemDelete(ClientEventBase):
    type: Literal["conversation.item.delete"]
    item_id: Text


class Conversational(ClientEventBase):
    """An event of conversation sessions, which a transcription session answers with an error."""

    type: Literal[
        "conversation.item.create",
        "conversation.item.truncate",
        "response.create",
        "response.cancel",
        "output_audio_buffer.clear",
    ]


ClientEvent = SessionUpdate | Append | Commit | Clear | ItemRetrieve | ItemDelete | Conversational

_EVENTS: dict[str, type[ClientEvent]] = {
    "session.update": SessionUpdate,
    "input_audio_buffer.append": Append,
    "input_audio_buffer.commit": Commit,
    "input_audio_buffer.clear": Clear,
    "conversation.item.retrieve": ItemRetrieve,
    "conversation.item.delete": ItemDelete,
    "conversation.item.create": Conversational,
    "conversation.item.truncate": Conversational,
    "response.create": Conversational,
    "response.cancel": Conversational,
    "output_audio_buffer.clear": Conversational,
}


def describe(error: ValidationError, prefix: str = "") -> tuple[str, str]:
    """The first problem pydantic found: (message with expected and got, path of the field)."""
    problem = error.errors(include_url=False, include_context=True)[0]
    # Union branches and the like put their own names into the path; field names are lower case.
    steps = [str(step) for step in problem["loc"] if str(step).replace("_", "").isalnum()]
    path = ".".join(([prefix] if prefix else []) + steps)
    value = problem["input"]
    match problem["type"]:
        case "missing":
            return f"{path}: expected a value, got nothing (the field is missing)", path
        case "value_error":
            return f"{path}: {problem['ctx']['error']}", path
        case "string_type" | "dict_type" | "model_type" | "list_type" | "bool_type" as wanted:
            noun = {"string": "a string", "list": "an array", "bool": "a boolean"}
            expected = noun.get(wanted.removesuffix("_type"), "an object")
            return f"{path}: expected {expected}, got {kind(value)}: {shown(value)}", path
        case _:
            message = problem["msg"].removeprefix("Input should be ").removeprefix("a valid ")
            return f"{path}: expected {message}, got {shown(value)}", path


def parse_client_event(text: str) -> ClientEvent:
    """One text frame as an event. Raises ProtocolError."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ProtocolError("expected JSON, got too deep a nesting", code="invalid_json") from None
    except ValueError as error:
        raise ProtocolError(
            f"expected a JSON object, got text that is not JSON ({error}): {shown(text[:_SHOWN])}",
            code="invalid_json",
        ) from None
    if not isinstance(data, dict):
        raise ProtocolError(
            f"expected a JSON object, got {kind(data)}: {shown(data)}", code="invalid_json"
        )
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
    if model is Append and isinstance(data.get("audio"), str):
        data = {**data, "audio": decode_audio(data["audio"], event_id=echo)}
    elif model is Append and "audio" in data:
        got = f"{kind(data['audio'])}: {shown(data['audio'])}"
        raise ProtocolError(
            f"audio: expected a string of base64, got {got}",
            code="invalid_type",
            param="audio",
            event_id=echo,
        )
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise invalid(error, event_id=echo) from None


def invalid(error: ValidationError, *, prefix: str = "", event_id: str | None) -> ProtocolError:
    """The protocol error for values that a model refused."""
    message, path = describe(error, prefix)
    missing = error.errors(include_url=False)[0]["type"] == "missing"
    code = "missing_required_parameter" if missing else "invalid_value"
    return ProtocolError(message, code=code, param=path, event_id=event_id)


def decode_audio(text: str, *, event_id: str | None) -> bytes:
    """Strict base64, at most MAX_APPEND_BYTES decoded. Raises ProtocolError."""
    if len(text) // 4 * 3 > MAX_APPEND_BYTES + 2:
        raise ProtocolError(
            f"audio: expected at most {MAX_APPEND_BYTES} bytes of audio in one append, "
            f"got about {len(text) // 4 * 3}; send it in smaller pieces",
            code="audio_too_large",
            param="audio",
            event_id=event_id,
        )
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise ProtocolError(
            f"audio: expected base64, got {len(text)} characters that are not base64 ({error})",
            code="invalid_base64",
            param="audio",
            event_id=event_id,
        ) from None
