"""Errors in Anthropic's shape."""

from __future__ import annotations

import re
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

Json = dict[str, Any]

PATH = "/v1/messages"
VERSION = "anthropic-version"  # a header that each of its clients sends
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
# As the engine says that prompt and answer are longer than the context.
_TOO_LONG = (
    re.compile(
        r"messages: expected at most (?P<most>\d+) tokens of prompt and answer, "
        r"got (?P<prompt>\d+) \+ (?P<answer>\d+)"
    ),
    re.compile(
        r"max_tokens: expected less than the (?P<most>\d+) tokens of prompt and answer together, "
        r"got (?P<answer>\d+) beside a prompt of (?P<prompt>\d+)"
    ),
)


def is_theirs(scope: Scope) -> bool:
    """Whether an HTTP request is one of this API, of which other paths are asked, too."""
    path = scope["path"]
    return path == PATH or path.startswith(f"{PATH}/") or VERSION in Headers(scope=scope)


def error_of(message: str, status: int) -> Json:
    """status: HTTP status that it has, or would have."""
    usual = "api_error" if status >= 500 else "invalid_request_error"
    return {"type": _TYPES.get(status, usual), "message": _in_their_words(message)}


def _in_their_words(message: str) -> str:
    """Clients look for Anthropic's own words about what is too long, and for the numbers in them:
    Claude Code then asks for fewer tokens, or sums up what was said."""
    for form in _TOO_LONG:
        if (found := form.fullmatch(message)) is not None:
            most, prompt, answer = (int(found[name]) for name in ("most", "prompt", "answer"))
            if prompt >= most:
                return f"prompt is too long: {prompt} tokens > {most} maximum"
            asked = f"{prompt} + {answer} > {most}"
            what = f"input length and `max_tokens` exceed context limit: {asked}"
            return f"{what}, decrease input length or `max_tokens` and try again"
    return message


def denial(message: str, request: str, status: int) -> tuple[Json, dict[str, str]]:
    """-> body and headers of the answer to what is refused. request: its id."""
    body = {"type": "error", "error": error_of(message, status), "request_id": request}
    return body, {}
