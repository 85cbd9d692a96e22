"""Errors in Anthropic's shape."""

from __future__ import annotations

import re
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from lookhear.gateway.chat.refusals import BEYOND, LIMIT

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
# What is too long, as OpenAI says it.
_PROMPT = re.compile(
    rf"{LIMIT} (?P<most>\d+) tokens\. "
    r"Your messages resulted in (?P<prompt>\d+) tokens(?: or more)?\..*"
)
_TOGETHER = re.compile(
    r"This model's maximum context length is (?P<most>\d+) tokens\. However, you requested \d+ "
    r"tokens \((?P<prompt>\d+) in the messages, (?P<answer>\d+) in the completion\)\..*"
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
    if (found := _PROMPT.fullmatch(message)) is not None:
        return f"prompt is too long: {found['prompt']} tokens > {found['most']} maximum"
    if (found := _TOGETHER.fullmatch(message)) is not None:
        asked = f"{found['prompt']} + {found['answer']} > {found['most']}"
        what = f"input length and `max_tokens` exceed context limit: {asked}"
        return f"{what}, decrease input length or `max_tokens` and try again"
    if message.endswith(BEYOND):
        return f"prompt is too long: {message}"
    return message


def denial(message: str, request: str, status: int) -> tuple[Json, dict[str, str]]:
    """-> body and headers of the answer to what is refused. request: its id."""
    body = {"type": "error", "error": error_of(message, status), "request_id": request}
    return body, {}
