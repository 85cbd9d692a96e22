"""HTTP errors in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookhear.engine.client.client import EngineUnavailable
from lookhear.gateway.errors import GatewayError

REQUEST_ID = "lookhear.request_id"  # in an ASGI scope
MAX_SHOWN = 200  # characters of a path that an error repeats


class ApiError(GatewayError):
    """A request that cannot be served. status: HTTP status. type: by the status, if not given.
    headers: of the answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        by_status = "server_error" if status >= 500 else "invalid_request_error"
        super().__init__(message, param=param, type=type or by_status)
        self.status = status
        self.code = code
        self.headers = headers


def wrong(param: str, expected: str, got: str, code: str = "invalid_value") -> ApiError:
    """A field of a request that holds something else than it should."""
    return ApiError(400, f"{param}: expected {expected}, got {got}", code=code, param=param)


def unavailable(error: EngineUnavailable) -> ApiError:
    """No engine takes it now."""
    return ApiError(503, f"{error}; try again", code="engine_unavailable")


def error_body(
    message: str, type: str, code: str | None, param: str | None = None
) -> dict[str, Any]:
    """Every error answers with this."""
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


# Paths of these APIs, and below them, that have another one here or none.
_SECRETS = "keys for browsers are made by POST /v1/realtime/client_secrets"
_BATCHES = "no batches are kept here, ask all at once: who finds no place waits for one"
_MUTE = "this server hears and writes, it does not speak"
_ELSEWHERE = {
    "/v1/audio/speech": _MUTE,
    "/v1/batches": _BATCHES,
    "/v1/conversations": "a conversation goes on by previous_response_id of POST /v1/responses",
    "/v1/files": "no files are stored here, they come with the request that is about them",
    "/v1/messages/batches": _BATCHES,
    "/v1/realtime/calls": "WebRTC is not spoken here, connect to the WebSocket /v1/realtime",
    "/v1/realtime/sessions": _SECRETS,
    "/v1/realtime/transcription_sessions": _SECRETS,
    "/v1/speak": _MUTE,
}


async def answer_api_error(_: Request, error: Exception) -> Response:
    """Answer what our own code refused."""
    assert isinstance(error, ApiError)
    body = error_body(error.message, error.type, error.code, error.param)
    headers = {"retry-after": "1"} if error.status == 503 else error.headers
    if error.status == 408:
        headers = {"connection": "close"}  # the rest of that request is not waited for
    return JSONResponse(body, error.status, headers)


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """Routing errors (no such path, wrong method) and what starlette itself refuses."""
    assert isinstance(error, HTTPException)
    message: str = error.detail
    code: str | None = None
    path = request.url.path
    got = f"{request.method} {path[:MAX_SHOWN]}{'…' if len(path) > MAX_SHOWN else ''}"
    if error.status_code == 404:
        message = f"expected a path of this server, got {got}{_instead(request)}"
        code = "not_found"
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        message, code = f"expected {allowed}, got {got}", "method_not_allowed"
    body = error_body(message, "invalid_request_error", code)
    return JSONResponse(body, error.status_code, error.headers)


def _instead(request: Request) -> str:
    """What was probably meant by a path that is none."""
    path = request.url.path
    for known, instead in _ELSEWHERE.items():
        if path == known or path.startswith(f"{known}/"):
            return f"; {instead}"
    # A base URL without its end, or with it twice.
    meant = path[3:] if path.startswith("/v1/v1/") else f"/v1{path}"
    is_there = any(getattr(route, "path", None) == meant for route in request.app.routes)
    return f"; is it {meant}?" if is_there else ""


async def answer_hung_up(_: Request, __: Exception) -> Response:
    """The client went away before it was answered: nobody reads this."""
    return JSONResponse(error_body("the client hung up", "invalid_request_error", None), 499)


async def answer_bug(request: Request, _: Exception) -> Response:
    """Answer anything else; the log has the details."""
    body = error_body("the server failed while handling this request", "server_error", None)
    # Nothing of ours is left around this answer that would add it.
    return JSONResponse(body, 500, {"x-request-id": request.scope.get(REQUEST_ID, "")})
