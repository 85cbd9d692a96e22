"""`WS /v1/realtime`: who may come in, and the session that follows."""

from __future__ import annotations

import json
import time

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.http.access import REALTIME, Denied
from lookhear.gateway.http.errors import error_body
from lookhear.gateway.realtime.openai import rendering as wire
from lookhear.gateway.realtime.session.session import RealtimeSession
from lookhear.gateway.services.services import Services, services
from lookhear.gateway.telemetry.log import log_event


async def realtime(websocket: WebSocket) -> None:
    """One connection from the handshake to its end."""
    gateway = services(websocket)
    offered: list[str] = list(websocket.scope.get("subprotocols", []))
    # A client that offers `realtime` must see it echoed, or it hangs up. The protocol with the
    # key is never echoed.
    subprotocol = REALTIME if REALTIME in offered else None
    try:
        gateway.access.check_place(websocket.headers)
        gateway.access.check_key(websocket.headers, offered)
    except Denied as denied:
        log_event("session.refused", code=denied.code, reason=denied.message)
        if denied.status == 401 and offered and "authorization" not in websocket.headers:
            # A browser shows its page nothing of a refused handshake, so it is told inside.
            problem = ProtocolError(denied.message, code=denied.code)
            await _turn_away(
                websocket, gateway, subprotocol, problem, 3000, f"{denied.type}.{denied.code}"
            )
        else:
            gateway.metrics.refused.labels(denied.code).inc()
            await websocket.send_denial_response(
                JSONResponse(error_body(denied.message, denied.type, denied.code), denied.status)
            )
        return
    engine = gateway.engine
    requested = websocket.query_params.get("model") or None
    # Who names no model yet may choose one that is up; who names an unknown one is told inside.
    down = requested in {s.model for s in engine.states if s.state != "ready"}
    if down or not gateway.takes_work:
        whose = f" of {requested}" if down else ""
        problem = ProtocolError(
            f"the engine{whose} is not ready; connect again in a moment",
            code="engine_not_ready",
            type="server_error",
        )
        await _turn_away(websocket, gateway, subprotocol, problem, 1013, "engine not ready")
        return
    if len(gateway.sessions) >= gateway.config.max_sessions:
        problem = ProtocolError(
            f"expected at most {gateway.config.max_sessions} sessions at once, all are taken; "
            "connect again later",
            code="too_many_sessions",
            type="server_error",
        )
        await _turn_away(websocket, gateway, subprotocol, problem, 1013, "too many sessions")
        return
    limit = gateway.config.max_session_seconds
    session = RealtimeSession(
        websocket,
        engine,
        gateway,
        requested_model=requested,
        transcribes=websocket.query_params.get("intent") == "transcription",
        expires_at=int(time.time() + limit) if limit else None,
    )
    # Counted before the handshake is answered, so that a burst cannot pass the limit.
    gateway.sessions.add(session)
    try:
        await websocket.accept(subprotocol)
        await session.run()
    except WebSocketDisconnect:
        pass
    finally:
        gateway.sessions.discard(session)
        session.ended.set()


async def _turn_away(
    websocket: WebSocket,
    gateway: Services,
    subprotocol: str | None,
    problem: ProtocolError,
    code: int,
    reason: str,
) -> None:
    """Accept, say why not, close."""
    event = wire.error(problem)
    text = json.dumps({"type": event["type"], "event_id": gateway.ids("event"), **event})
    gateway.metrics.refused.labels(problem.code).inc()
    try:
        await websocket.accept(subprotocol)
        await websocket.send_text(text)
        await websocket.close(code, reason)
    except WebSocketDisconnect:
        pass
