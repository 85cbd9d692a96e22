"""What every check of a client's words shares: the error, wire types, values shown in messages.

An error names the field by its path in the event, says what was expected and what came. Unknown
extra fields are ignored: real clients send tuning fields that not every server has.
"""

from __future__ import annotations

import binascii
import itertools
import json
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from lookhear.gateway.errors import GatewayError

MISSING = "nothing (the field is missing)"
MAX_PROMPT = 8192  # characters; a model keeps the last few hundred tokens of it
MAX_APPEND_BYTES = 15 * 1024 * 1024  # of decoded audio in one append, as documented by OpenAI
# In the order in which they are looked for, of pydantic's.
OUR_WORDS = {
    "a valid integer": "a whole number",
    "a valid": "a",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "more than",
}
_SHOWN = 80  # characters of a refused value that an error message repeats


class ProtocolError(GatewayError):
    """A command of a session that cannot be used; the session goes on.

    code: machine word. event_id: the client's, echoed; whoever knows the command fills it in.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        param: str | None = None,
        type: str = "invalid_request_error",
    ) -> None:
        super().__init__(message, param=param, type=type)
        self.code = code
        self.event_id: str | None = None


def wrong(param: str, expected: str, got: str, code: str = "invalid_value") -> ProtocolError:
    """A field that holds something else than it should."""
    return ProtocolError(f"{param}: expected {expected}, got {got}", code=code, param=param)


def shown(value: object) -> str:
    """A value as an error message shows it: JSON, shortened. It costs little, however large."""
    try:
        text = json.dumps(_beginning(value, [_SHOWN]), ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    if not text.isascii():  # half a character cannot be sent back as UTF-8
        text = text.encode(errors="backslashreplace").decode()
    if len(text) <= _SHOWN:
        return text
    size = f" ({len(value)} characters)" if isinstance(value, str) else ""
    return f"{text[:_SHOWN]}…{size}"


def _beginning(value: object, left: list[int]) -> object:
    """What is enough to show the beginning of it. left: how many values more, each of which is a
    character at least."""
    left[0] -= 1
    if isinstance(value, str):
        return value[: _SHOWN + 1]
    if isinstance(value, list):
        taken = itertools.takewhile(lambda _: left[0] >= 0, value)
        return [_beginning(entry, left) for entry in taken]
    if isinstance(value, dict):
        items = itertools.takewhile(lambda _: left[0] >= 0, value.items())
        return {_beginning(name, left): _beginning(entry, left) for name, entry in items}
    return value


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


def described(value: object) -> str:
    """A value of the wrong type as an error message shows it."""
    return "null" if value is None else f"{kind(value)}: {shown(value)}"


def valid_unicode(text: str) -> str:
    """Refuse lone surrogates: JSON can spell them, UTF-8 and tokenizers cannot."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("expected valid Unicode text, got a lone surrogate") from None
    return text


def check_json(value: object, most: int, bits: int | None = None, depth: int = 0) -> None:
    """Refuse JSON with more than `most` levels of nesting, with lone surrogates, or with whole
    numbers that do not fit into so many bits. ValueError."""
    if depth > most:
        raise ValueError(f"expected at most {most} levels of nesting, got more")
    if isinstance(value, str):
        valid_unicode(value)
    elif isinstance(value, int) and bits is not None:
        if not -1 << (bits - 1) <= value < 1 << (bits - 1):
            raise ValueError(f"expected numbers of {bits} bits, got a larger one")
    elif isinstance(value, list):
        for entry in value:
            check_json(entry, most, bits, depth + 1)
    elif isinstance(value, dict):
        for name, entry in value.items():
            check_json(name, most, bits, depth + 1)
            check_json(entry, most, bits, depth + 1)


Text = Annotated[str, AfterValidator(valid_unicode)]
"""A string that is valid Unicode."""


class WireModel(BaseModel):
    """Base of everything a client sends: exact JSON types, unknown fields ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


def describe(error: ValidationError, prefix: str = "") -> tuple[str, str]:
    """The first problem pydantic found: (message with expected and got, path of the field)."""
    problem = _first(error)
    # Union branches and the like put their own names into the path; field names are lower case.
    path = prefix
    for step in problem["loc"]:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.replace("_", "").isalnum():
            name = step[:_SHOWN]  # of an object without fixed names it is the client's own
            path += f".{name}" if path else name
    value = problem["input"]
    match problem["type"]:
        case "missing":
            return f"{path}: expected a value, got {MISSING}", path
        case "value_error":
            return f"{path}: {problem['ctx']['error']}", path
        case "string_type" | "dict_type" | "model_type" | "list_type" | "bool_type" as wanted:
            noun = {"string": "a string", "list": "an array", "bool": "a boolean"}
            expected = noun.get(wanted.removesuffix("_type"), "an object")
            return f"{path}: expected {expected}, got {described(value)}", path
        case "too_long" | "string_too_long" | "too_short" | "string_too_short" as wanted:
            bound = "at most" if wanted.endswith("long") else "at least"
            most = problem["ctx"]["max_length" if wanted.endswith("long") else "min_length"]
            what = "characters" if isinstance(value, str) else "entries"
            got = f"{len(value)}: {shown(value)}" if hasattr(value, "__len__") else shown(value)
            return f"{path}: expected {bound} {most} {what}, got {got}", path
        case _:
            message = problem["msg"].removeprefix("Input should be ")
            for theirs, ours in OUR_WORDS.items():
                message = message.replace(theirs, ours)
            return f"{path}: expected {message}, got {shown(value)}", path


def _first(error: ValidationError) -> ErrorDetails:
    """The problem to tell of: what an object's `type` should be goes before what one of that type
    would have to have."""
    first, *others = error.errors(include_url=False, include_context=True)
    place = (*first["loc"][:-1], "type")
    return next((other for other in others if other["loc"] == place), first)


def invalid(error: ValidationError, prefix: str = "") -> ProtocolError:
    """The protocol error for values that a model refused."""
    message, path = describe(error, prefix)
    missing = _first(error)["type"] == "missing"
    code = "missing_required_parameter" if missing else "invalid_value"
    return ProtocolError(message, code=code, param=path)


def decode_audio(text: str, param: str = "audio") -> bytes:
    """Strict base64, at most MAX_APPEND_BYTES decoded. param: its path. Raises ProtocolError."""
    size = len(text) // 4 * 3
    if size > MAX_APPEND_BYTES + 2:
        expected = f"at most {MAX_APPEND_BYTES} bytes of audio in one piece"
        raise wrong(param, expected, f"about {size}; send it in smaller pieces", "audio_too_large")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        got = f"{len(text)} characters that are not base64 ({error})"
        raise wrong(param, "base64", got, "invalid_base64") from None


def is_clients_fault(code: str) -> bool:
    """Whether an engine refused with this code what was asked, rather than failed at it."""
    return code.startswith(("invalid_", "unsupported_")) or code.endswith("_too_long")
