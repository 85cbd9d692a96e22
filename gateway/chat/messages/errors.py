"""Errors in Anthropic's shape."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

PATHS = ("/v1/messages", "/v1/messages/count_tokens")
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


def error_of(message: str, status: int) -> Json:
    """status: HTTP status that it has, or would have."""
    usual = "api_error" if status >= 500 else "invalid_request_error"
    return {"type": _TYPES.get(status, usual), "message": message}


def denial(message: str, request: str, status: int) -> tuple[Json, dict[str, str]]:
    """-> body and headers of the answer to what is refused. request: its id."""
    body = {"type": "error", "error": error_of(message, status), "request_id": request}
    return body, {"request-id": request}
