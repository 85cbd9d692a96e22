"""What the dialects of the chat path refuse alike, as `ApiError`s that name the field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lookhear.gateway.checks.checks import describe, described, shown, valid_unicode
from lookhear.gateway.http.errors import ApiError, wrong

Absent = Mapping[str, tuple[tuple[Any, ...], str]]
"""What a client may not ask for -> the values that ask for nothing, and why not."""

TOO_LONG = "context_length_exceeded"
# As the engine says that prompt and answer are longer than the context, of any name of a field.
_TOO_LONG = (
    re.compile(
        r"\w+: expected at most (?P<most>\d+) tokens of prompt and answer, "
        r"got (?P<prompt>\d+)(?P<more> or more)? \+ (?P<answer>\d+)"
    ),
    re.compile(
        r"\w+: expected less than the (?P<most>\d+) tokens of prompt and answer together, "
        r"got (?P<answer>\d+) beside a prompt of (?P<prompt>\d+)(?P<more> or more)?"
    ),
)
LIMIT = "Input tokens exceed the configured limit of"
BEYOND = f"{LIMIT} this model"  # which ends a message that has no numbers of the whole


def wrong_type(param: str, expected: str, value: object) -> ApiError:
    """A field that holds another kind of value than it should."""
    return wrong(param, expected, described(value))


def invalid(error: ValidationError) -> ApiError:
    """What pydantic refused; numbers in the path are places in lists: a.0.b is a[0].b."""
    message, path = describe(error)
    param = re.sub(r"\.(\d+)", r"[\1]", path)
    message = param + message.removeprefix(path)
    return ApiError(400, message, code="invalid_value", param=param or None)


def unsupported(path: str, why: str, value: object) -> ApiError:
    """A field that cannot mean anything here."""
    message = f"{path}: expected none, {why}; got {shown(value)}"
    return ApiError(400, message, code="unsupported_parameter", param=path)


def check_absent(body: Mapping[str, Any], absent: Absent) -> None:
    """Refuse the first field that asks for what is not there. Raises ApiError."""
    for name, (harmless, why) in absent.items():
        if body.get(name) not in harmless:
            expected = f"{shown(harmless[-1])} or nothing, {why}"
            message = f"{name}: expected {expected}; got {shown(body[name])}"
            raise ApiError(400, message, code="unsupported_parameter", param=name)


def text_of(part: Mapping[str, Any], name: str, path: str) -> str:
    """A text of an object at that path. Raises ApiError."""
    value = part.get(name)
    if not isinstance(value, str):
        raise wrong_type(f"{path}.{name}", "a string", value)
    return unicode(value, f"{path}.{name}")


def unicode(text: str, path: str) -> str:
    """The text, if it is valid Unicode. Raises ApiError."""
    try:
        return valid_unicode(text)
    except ValueError:
        raise wrong(path, "valid Unicode text", "a lone surrogate") from None


def prompt_size(message: str) -> int | None:
    """Tokens of a prompt that does not fit the context, if the engine has counted all of them."""
    found = next(filter(None, (form.fullmatch(message) for form in _TOO_LONG)), None)
    return None if found is None or found["more"] else int(found["prompt"])


def too_long(message: str) -> str:
    """What does not fit the context, in OpenAI's own words: clients know by them, and not by the
    code, that they have to shorten what they send."""
    for form in _TOO_LONG:
        if (found := form.fullmatch(message)) is not None:
            most, prompt, answer = (int(found[name]) for name in ("most", "prompt", "answer"))
            shorten = "Please reduce the length of the messages"
            if prompt >= most:
                told = f"Your messages resulted in {prompt} tokens{found['more'] or ''}"
                return f"{LIMIT} {most} tokens. {told}. {shorten}."
            told = f"{prompt} in the messages, {answer} in the completion"
            return (
                f"This model's maximum context length is {most} tokens. However, you requested "
                f"{prompt + answer} tokens ({told}). {shorten} or completion."
            )
    return f"{message}. {BEYOND}"
