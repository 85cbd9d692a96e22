"""WebSockets of realtime sessions: who may come in, and the session that follows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from lookhear.engine.config.log import bind
from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import shown, wrong
from lookhear.gateway.checks.models import chat_models
from lookhear.gateway.http.access import Denied, leaving
from lookhear.gateway.http.errors import error_body
from lookhear.gateway.realtime.dialects import dialect_within
from lookhear.gateway.realtime.protocol.dialect import Close, Dialect
from lookhear.gateway.realtime.protocol.refusals import NO_PLACE
from lookhear.gateway.realtime.session.attachment import Attachment
from lookhear.gateway.realtime.session.handshake import Handshake
from lookhear.gateway.realtime.session.machine import SHUT_DOWN
from lookhear.gateway.realtime.session.session import RealtimeSession
from lookhear.gateway.services.services import GRACE, services
from lookhear.gateway.sockets.relay import TOKEN
from lookhear.gateway.telemetry.log import address, log_event

# In the URL of a client that comes back: the last event that it got, beside its token.
AFTER = "lookhear_after"
LOADING_RETRY_AFTER = 1  # seconds; as over HTTP
FULL_RETRY_AFTER = math.ceil(GRACE)  # seconds: by then who never said anything may be closed


async def serve(websocket: WebSocket, dialects: Sequence[type[Dialect]], channels: int = 1) -> None:
    """One connection from the handshake to its end. dialects: those of its path; the first one
    greets. channels: of the client that come together, or not at all."""
    handshake = Handshake(websocket, dialects)
    gateway = handshake.gateway
    try:
        has_secret = _let_in(handshake)
    except Denied as denied:
        # A page that offers its key among the subprotocols is told inside.
        is_page = bool(handshake.offered) and "authorization" not in websocket.headers
        close = Close(3000, f"{denied.type}.{denied.code}")
        await handshake.deny(denied, close if is_page and denied.status == 401 else None)
        return
    token = websocket.query_params.get(TOKEN)
    client, speaks_to = handshake.client, None
    if token is None:
        speaks_to = _speaks_to(handshake.dialect, gateway.models)
        await gateway.counted_out(client, speaks_to)
    # From here on nothing is waited for until the session is counted.
    try:
        if gateway.is_leaving:
            raise _NotNow(leaving(), SHUT_DOWN)
        if token is not None:
            session, attachment = _resumed(handshake, token)
            bind(session=session.id)
            log_event("session.resumed", session=session.id, client=address(websocket.scope))
            return await session.serve_resumed(attachment, handshake.subprotocol)
        _check_up(handshake)
        unserved = handshake.dialect.first_settings(gateway.models)[1]
        if unserved is not None and handshake.dialect.is_strict:
            raise _NotNow(Denied(400, unserved.code, unserved.message), None)
        if unserved is not None and has_secret:
            close = Close(3000, f"{unserved.type}.{unserved.code}")
            return await handshake.turn_away(unserved, close)
        _check_channels(handshake, channels)
        _check_room(handshake, client, speaks_to)
    except _NotNow as refusal:
        await handshake.deny(refusal.denied, refusal.close if handshake.is_page else None)
        return
    session = RealtimeSession(websocket, gateway, handshake.dialects, client)
    bind(session=session.id)
    # Counted before the handshake is answered, so that a burst cannot pass the limits.
    gateway.sessions.add(session)
    attachment = session.attach(websocket)
    session.begin(speaks_to)
    await session.serve(attachment, handshake.subprotocol)


class _NotNow(Exception):
    """Somebody who may come in, but not now or not so. close: of a page's socket, inside of which
    it is told; None: it is not."""

    def __init__(self, denied: Denied, close: Close | None) -> None:
        super().__init__(denied.message)
        self.denied = denied
        self.close = close


def _let_in(handshake: Handshake) -> bool:
    """Whether by a client secret, which says how its session begins. Raises Denied."""
    gateway, headers, offered = handshake.gateway, handshake.websocket.headers, handshake.offered
    gateway.access.check_place(headers)
    within = gateway.access.secret_session(headers, offered, gateway.now())
    if within is None:
        gateway.access.check_key(headers, offered)
        return False
    fixed = dialect_within(within)
    if fixed.path != handshake.dialect.path:
        message = f"expected an API key, got a client secret, which opens {fixed.path} only"
        raise Denied(401, "client_secret_not_allowed", message)
    handshake.speak([fixed])
    return True


def _check_up(handshake: Handshake) -> None:
    """Raises _NotNow: nobody would hear it. Who names no model yet may choose one that is up; who
    names an unknown one is told inside."""
    gateway, asked = handshake.gateway, handshake.dialect.requested_model
    called = (card.id for card in gateway.models if asked is not None and card.is_called(asked))
    requested = next(called, asked)
    is_known = requested in {state.model for state in gateway.engine.states}
    down = is_known and not gateway.engine.is_ready(requested or "")
    if down or not gateway.takes_work:
        whose = f" of {requested}" if down else ""
        message = f"the engine{whose} is not ready; come back in {LOADING_RETRY_AFTER} s"
        not_ready = Denied(503, "engine_not_ready", message, LOADING_RETRY_AFTER)
        raise _NotNow(not_ready, Close(1013, "engine not ready"))


def _check_channels(handshake: Handshake, channels: int) -> None:
    """Raises _NotNow: there are fewer places than these, also when all are free."""
    config = handshake.gateway.config
    most = min(config.max_sessions, config.max_client_sessions or config.max_sessions)
    if channels > most:
        expected = f"at most {most} with multichannel, as many sessions as a client may have"
        problem = wrong("channels", expected, str(channels))
        raise _NotNow(Denied(400, problem.code, problem.message), None)


def _check_room(handshake: Handshake, client: str, speaks_to: str | None) -> None:
    """Raises _NotNow: all places are taken, and nobody makes room."""
    gateway = handshake.gateway
    if not gateway.has_room(client):
        most, of_one = gateway.config.max_sessions, gateway.config.max_client_sessions
        own = f" and {of_one} of one client" if of_one else ""
        message = (
            f"expected at most {most} sessions at once{own}, all are taken; come back in "
            f"{FULL_RETRY_AFTER} s"
        )
        full = Denied(503, "too_many_sessions", message, FULL_RETRY_AFTER)
        raise _NotNow(full, Close(1013, "too many sessions"))
    load = None if speaks_to is None else gateway.engine.live_load(speaks_to)
    if load is not None and not load.places and not gateway.make_place(speaks_to, client):
        full = Denied(503, NO_PLACE, load.refusal, load.retry_after)
        raise _NotNow(full, Close(1013, "too many speakers"))


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


def _resumed(handshake: Handshake, token: str) -> tuple[RealtimeSession, Attachment]:
    """The session that goes on on this socket. Raises _NotNow."""
    gateway, websocket = handshake.gateway, handshake.websocket

    def refusal(status: int, code: str, message: str) -> _NotNow:
        return _NotNow(Denied(status, code, message), Close(4000 + status, code))

    after = websocket.query_params.get(AFTER)
    if not after:
        message = f"{AFTER}: expected the event_id of the last event that came, got none"
        raise refusal(400, "missing_required_parameter", message)
    inside = (s for s in gateway.sessions if isinstance(s, RealtimeSession))
    session = next((s for s in inside if s.answers_to(token)), None)
    if session is None:
        seconds = gateway.config.resume_seconds
        message = (
            f"{TOKEN}: expected the token of a session whose connection was cut less than "
            f"{seconds:g} s ago, got that of none; begin a new one"
        )
        raise refusal(404, "session_not_found", message)
    # Without keys the token is all: a phone that changes its network changes its address.
    key = gateway.access.key_name(websocket.headers, handshake.offered)
    if key is not None and session.client != key:
        message = f"{TOKEN}: expected the API key that the session was begun with, got another"
        raise refusal(403, "session_of_another_key", message)
    attachment = session.resume(websocket, after)
    if attachment is None:
        message = (
            f"{AFTER}: expected one of the last events of the session, got "
            f"{shown(after)}; what followed it is not kept any more: begin a new session"
        )
        raise refusal(409, "session_not_resumable", message)
    return session, attachment


def _speaks_to(dialect: Dialect, models: Sequence[ModelCard]) -> str | None:
    """The model that a session will speak to, as far as its URL tells. None: it may be there to
    chat only; then it asks for a place when it begins to speak. Or no model was loaded yet."""
    if not models:
        return None
    settings, _ = dialect.first_settings(models)
    is_open = dialect.requested_model is None and not dialect.only_hears
    may_chat = is_open and bool(chat_models(models))
    return None if settings.converse is not None or may_chat else settings.model
