"""WebSockets of realtime sessions: who may come in, and the session that follows."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from lookhear.engine.config.log import bind
from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError, shown
from lookhear.gateway.checks.models import chat_models
from lookhear.gateway.http.access import Denied, echoed, leaving
from lookhear.gateway.http.errors import error_body
from lookhear.gateway.realtime.dialects import dialect_within
from lookhear.gateway.realtime.protocol.dialect import Close, Dialect
from lookhear.gateway.realtime.protocol.events import Refused
from lookhear.gateway.realtime.protocol.refusals import NO_PLACE
from lookhear.gateway.realtime.session.attachment import Attachment
from lookhear.gateway.realtime.session.machine import SHUT_DOWN
from lookhear.gateway.realtime.session.session import RealtimeSession
from lookhear.gateway.services.services import GRACE, services
from lookhear.gateway.sockets.connections import network
from lookhear.gateway.sockets.relay import TOKEN
from lookhear.gateway.telemetry.log import address, log_event

# In the URL of a client that comes back: the last event that it got, beside its token.
AFTER = "lookhear_after"
LOADING_RETRY_AFTER = 1  # seconds; as over HTTP
FULL_RETRY_AFTER = math.ceil(GRACE)  # seconds: by then who never said anything may be closed


async def serve(websocket: WebSocket, dialects: Sequence[type[Dialect]]) -> None:
    """One connection from the handshake to its end. dialects: those of its path; the first one
    greets."""
    gateway = services(websocket)
    dialect = dialects[0](websocket.query_params, gateway.ids)
    offered: list[str] = list(websocket.scope.get("subprotocols", []))
    subprotocol = echoed(offered)

    async def turn_away(problem: ProtocolError, close: Close) -> None:
        """Accept, say why not, close."""
        address_of = address(websocket.scope)
        log_event("session.refused", code=problem.code, close_code=close.code, client=address_of)
        gateway.refusals.add(problem.code, is_clients=problem.type != "server_error")
        try:
            await websocket.accept(subprotocol)
            for frame in dialect.render(Refused(problem)):
                await websocket.send_text(json.dumps(frame))
            close = dialect.closing(close)
            await websocket.close(close.code, close.reason)
        except WebSocketDisconnect:
            pass

    async def deny(denied: Denied, close: Close | None) -> None:
        """Refuse the handshake; or, with `close`, say inside why not."""
        # What a client sent is repeated in it.
        log_event("session.refused.words", level=logging.DEBUG, reason=denied.message)
        problem = ProtocolError(denied.message, code=denied.code, type=denied.type)
        if close is not None:
            await turn_away(problem, close)
            return
        address_of = address(websocket.scope)
        log_event("session.refused", code=denied.code, status=denied.status, client=address_of)
        gateway.refusals.add(denied.code, is_clients=denied.status < 500)
        answer = dialect.denial(problem, denied.status)
        headers = dict(answer.headers)
        if denied.retry_after:
            headers["retry-after"] = str(denied.retry_after)
        await websocket.send_denial_response(JSONResponse(answer.body, denied.status, headers))

    try:
        gateway.access.check_place(websocket.headers)
        within = gateway.access.secret_session(websocket.headers, offered, gateway.now())
        if within is None:
            gateway.access.check_key(websocket.headers, offered)
        else:
            fixed = dialect_within(within)
            if fixed.path != dialect.path:
                message = f"expected an API key, got a client secret, which opens {fixed.path} only"
                raise Denied(401, "client_secret_not_allowed", message)
            dialects = [fixed]
            dialect = fixed(websocket.query_params, gateway.ids)
    except Denied as denied:
        # A browser shows its page nothing of a refused handshake, so it is told inside.
        is_page = denied.status == 401 and bool(offered)
        close = Close(3000, f"{denied.type}.{denied.code}")
        await deny(denied, close if is_page and "authorization" not in websocket.headers else None)
        return
    is_page = "origin" in websocket.headers
    token = websocket.query_params.get(TOKEN)
    client = gateway.access.key_name(websocket.headers, offered)
    if client is None:
        client = network(websocket.client.host) if websocket.client else ""
    speaks_to = _speaks_to(dialect, gateway.models) if token is None else None
    if token is None:
        await gateway.counted_out(client, speaks_to)
    # From here on nothing is waited for until the session is counted.
    if gateway.is_leaving:
        await deny(leaving(), SHUT_DOWN if is_page else None)
        return
    if token is not None:
        try:
            session, attachment = _resumed(websocket, token, offered)
        except Denied as denied:
            await deny(denied, Close(4000 + denied.status, denied.code) if is_page else None)
        else:
            bind(session=session.id)
            log_event("session.resumed", session=session.id, client=address(websocket.scope))
            await session.serve_resumed(attachment, subprotocol)
        return
    asked = dialect.requested_model
    called = (card.id for card in gateway.models if asked is not None and card.is_called(asked))
    requested = next(called, asked)
    # Who names no model yet may choose one that is up; who names an unknown one is told inside.
    is_known = requested in {state.model for state in gateway.engine.states}
    down = is_known and not gateway.engine.is_ready(requested or "")
    if down or not gateway.takes_work:
        whose = f" of {requested}" if down else ""
        message = f"the engine{whose} is not ready; come back in {LOADING_RETRY_AFTER} s"
        not_ready = Denied(503, "engine_not_ready", message, LOADING_RETRY_AFTER)
        await deny(not_ready, Close(1013, "engine not ready") if is_page else None)
        return
    unserved = dialect.first_settings(gateway.models)[1]
    if unserved is not None and dialect.is_strict:
        await deny(Denied(400, unserved.code, unserved.message), None)
        return
    if unserved is not None and within is not None:
        await turn_away(unserved, Close(3000, f"{unserved.type}.{unserved.code}"))
        return
    most = gateway.config.max_sessions
    if not gateway.has_room(client):
        of_one = gateway.config.max_client_sessions
        own = f" and {of_one} of one client" if of_one else ""
        message = (
            f"expected at most {most} sessions at once{own}, all are taken; come back in "
            f"{FULL_RETRY_AFTER} s"
        )
        full = Denied(503, "too_many_sessions", message, FULL_RETRY_AFTER)
        await deny(full, Close(1013, "too many sessions") if is_page else None)
        return
    load = None if speaks_to is None else gateway.engine.live_load(speaks_to)
    if load is not None and not load.places and not gateway.make_place(speaks_to, client):
        full = Denied(503, NO_PLACE, load.refusal, load.retry_after)
        await deny(full, Close(1013, "too many speakers") if is_page else None)
        return
    session = RealtimeSession(websocket, gateway, dialects, client)
    bind(session=session.id)
    # Counted before the handshake is answered, so that a burst cannot pass the limits.
    gateway.sessions.add(session)
    attachment = session.attach(websocket)
    session.begin(speaks_to)
    await session.serve(attachment, subprotocol)


async def serve_nowhere(websocket: WebSocket, paths: Sequence[str]) -> None:
    """A handshake where no WebSocket is: 404, for the 403 of an empty route looks like a key's."""
    client = address(websocket.scope)
    log_event("session.refused", code="not_found", status=404, client=client)
    services(websocket).refusals.add("not_found", is_clients=True)
    message = f"expected one of the paths {', '.join(paths)}, got {shown(websocket.url.path)}"
    body = error_body(message, "invalid_request_error", "not_found")
    await websocket.send_denial_response(JSONResponse(body, 404))


async def serve_plain(request: Request) -> Response:
    """A GET without a handshake: of somebody who tries the URL, or behind a proxy that takes the
    handshake for a request."""
    message = (
        f"expected a WebSocket handshake, got a plain GET {request.url.path}; a proxy in between "
        "has to pass on the headers Upgrade and Connection"
    )
    body = error_body(message, "invalid_request_error", "upgrade_required")
    return JSONResponse(body, 426, {"upgrade": "websocket", "connection": "upgrade"})


def _resumed(
    websocket: WebSocket, token: str, offered: Sequence[str]
) -> tuple[RealtimeSession, Attachment]:
    """The session that goes on on this socket. Raises Denied."""
    gateway = services(websocket)
    after = websocket.query_params.get(AFTER)
    if not after:
        message = f"{AFTER}: expected the event_id of the last event that came, got none"
        raise Denied(400, "missing_required_parameter", message)
    inside = (s for s in gateway.sessions if isinstance(s, RealtimeSession))
    session = next((s for s in inside if s.answers_to(token)), None)
    if session is None:
        seconds = gateway.config.resume_seconds
        message = (
            f"{TOKEN}: expected the token of a session whose connection was cut less than "
            f"{seconds:g} s ago, got that of none; begin a new one"
        )
        raise Denied(404, "session_not_found", message)
    # Without keys the token is all: a phone that changes its network changes its address.
    key = gateway.access.key_name(websocket.headers, offered)
    if key is not None and session.client != key:
        message = f"{TOKEN}: expected the API key that the session was begun with, got another"
        raise Denied(403, "session_of_another_key", message)
    attachment = session.resume(websocket, after)
    if attachment is None:
        message = (
            f"{AFTER}: expected one of the last events of the session, got "
            f"{shown(after)}; what followed it is not kept any more: begin a new session"
        )
        raise Denied(409, "session_not_resumable", message)
    return session, attachment


def _speaks_to(dialect: Dialect, models: Sequence[ModelCard]) -> str | None:
    """The model that a session will speak to, as far as its URL tells. None: it may be there to
    chat only; then it asks for a place when it begins to speak."""
    settings, _ = dialect.first_settings(models)
    may_chat = dialect.requested_model is None and bool(chat_models(models))
    return None if settings.converse is not None or may_chat else settings.model
