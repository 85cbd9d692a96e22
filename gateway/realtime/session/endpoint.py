"""WebSockets of realtime sessions: who may come in, and the session that follows."""

from __future__ import annotations

import json
from collections.abc import Sequence

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.http.access import REALTIME, Denied
from lookhear.gateway.http.errors import error_body
from lookhear.gateway.realtime.protocol.dialect import Dialect
from lookhear.gateway.realtime.protocol.events import Refused
from lookhear.gateway.realtime.protocol.outputs import Close
from lookhear.gateway.realtime.session.session import RealtimeSession
from lookhear.gateway.services.services import services
from lookhear.gateway.telemetry.log import log_event


async def serve(websocket: WebSocket, dialects: Sequence[type[Dialect]]) -> None:
    """One connection from the handshake to its end. dialects: those of its path; the first one
    greets."""
    gateway = services(websocket)
    dialect = dialects[0](websocket.query_params, gateway.ids)
    offered: list[str] = list(websocket.scope.get("subprotocols", []))
    # A client that offers `realtime` must see it echoed, or it hangs up. The protocol with the
    # key is never echoed.
    subprotocol = REALTIME if REALTIME in offered else None

    async def turn_away(problem: ProtocolError, close: Close) -> None:
        """Accept, say why not, close."""
        gateway.metrics.refused.labels(problem.code).inc()
        try:
            await websocket.accept(subprotocol)
            for frame in dialect.render(Refused(problem)):
                await websocket.send_text(json.dumps(frame))
            await websocket.close(close.code, close.reason)
        except WebSocketDisconnect:
            pass

    try:
        gateway.access.check_place(websocket.headers)
        gateway.access.check_key(websocket.headers, offered)
    except Denied as denied:
        log_event("session.refused", code=denied.code, reason=denied.message)
        if denied.status == 401 and offered and "authorization" not in websocket.headers:
            # A browser shows its page nothing of a refused handshake, so it is told inside.
            problem = ProtocolError(denied.message, code=denied.code)
            await turn_away(problem, Close(3000, f"{denied.type}.{denied.code}"))
        else:
            gateway.metrics.refused.labels(denied.code).inc()
            body = error_body(denied.message, denied.type, denied.code)
            await websocket.send_denial_response(JSONResponse(body, denied.status))
        return
    requested = dialect.requested_model
    # Who names no model yet may choose one that is up; who names an unknown one is told inside.
    down = requested in {s.model for s in gateway.engine.states if s.state != "ready"}
    if down or not gateway.takes_work:
        whose = f" of {requested}" if down else ""
        message = f"the engine{whose} is not ready; connect again in a moment"
        problem = ProtocolError(message, code="engine_not_ready", type="server_error")
        await turn_away(problem, Close(1013, "engine not ready"))
        return
    most = gateway.config.max_sessions
    if len(gateway.sessions) >= most:
        message = f"expected at most {most} sessions at once, all are taken; connect again later"
        problem = ProtocolError(message, code="too_many_sessions", type="server_error")
        await turn_away(problem, Close(1013, "too many sessions"))
        return
    session = RealtimeSession(websocket, gateway, dialects)
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
