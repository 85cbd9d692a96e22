"""`POST /v1/realtime/client_secrets`: a short-lived key for somebody else's browser."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookhear.gateway.checks.checks import ProtocolError, WireModel, described, invalid
from lookhear.gateway.checks.models import chat_models
from lookhear.gateway.checks.outline import Data, TooMuchJson, parse_json
from lookhear.gateway.http.access import Denied
from lookhear.gateway.http.errors import ApiError, wrong
from lookhear.gateway.http.requests import body_of, done_with_body
from lookhear.gateway.realtime.openai import objects
from lookhear.gateway.realtime.openai.fixed_sessions import fixed_settings
from lookhear.gateway.services.services import services

MAX_BODY = 1024 * 1024  # bytes; of its session only some kilobytes fit into a key
DEFAULT_SECONDS = 600


class Expiry(WireModel):
    """How long the secret can open sessions; those that it has opened go on."""

    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Field(ge=10, le=7200)] = DEFAULT_SECONDS


class Asked(WireModel):
    """session: as in `session.update`. absent: a plain one of the type that the server is for."""

    expires_after: Expiry | None = None
    session: dict[str, Any] | None = None


async def client_secrets(request: Request) -> Response:
    """Raises ApiError, naming the field."""
    gateway = services(request)
    gateway.check_loaded()
    models = gateway.models
    asked = _parsed(await body_of(request, MAX_BODY))
    done_with_body(request)
    session = asked.session
    if session is None:
        session = {"type": "realtime" if chat_models(models) else "transcription"}
    settings, problem = fixed_settings(session, models)
    if problem is not None:
        raise _as_api_error(problem)
    seconds = (asked.expires_after or Expiry()).seconds
    try:
        value, expires_at = gateway.access.make_secret(
            request.headers, session, gateway.now(), seconds
        )
    except Denied as denied:
        raise ApiError(denied.status, denied.message, code=denied.code) from None
    shown = objects.session(settings, gateway.ids("sess"), expires_at)
    body = {"value": value, "expires_at": expires_at, "session": shown}
    return JSONResponse(body, headers={"cache-control": "no-store"})


def _parsed(body: Data) -> Asked:
    try:
        data = parse_json(body or b"{}", MAX_BODY)
    except (RecursionError, ValueError, TooMuchJson) as error:
        reason = "too deep a nesting" if isinstance(error, RecursionError) else str(error)
        got = f"what is not JSON ({reason})"
        raise wrong("body", "a JSON object", got, "invalid_json") from None
    if not isinstance(data, dict):
        raise wrong("body", "a JSON object", described(data))
    try:
        return Asked.model_validate(data)
    except ValidationError as error:
        raise _as_api_error(invalid(error)) from None


def _as_api_error(problem: ProtocolError) -> ApiError:
    return ApiError(400, problem.message, code=problem.code, param=problem.param)
