"""Whether the gateway lives, whether it can serve, and its numbers."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookhear.engine.client.client import EngineState
from lookhear.engine.messages import LiveLoad
from lookhear.gateway.services.services import services


async def health(_: Request) -> Response:
    """200 as long as the process answers."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """200 only while an engine of every model is up, in every worker: what a load balancer asks."""
    gateway = services(request)
    states, siblings = gateway.engine.states, gateway.siblings
    several = {state.model for state in states if state.replica > 1 or state.is_encoder}
    status = siblings.status(gateway.status)
    workers = [{"worker": n, "status": siblings.states[n]} for n in sorted(siblings.states)]
    body = {
        "status": status,
        **({"workers": workers} if workers else {}),
        "models": [
            {
                "name": state.model,
                **(_number(state) if state.model in several else {}),
                "state": state.state,
                "stage": state.stage,
                "progress": round(state.progress, 3),
                **_live(gateway.engine.live_load(state.model)),
            }
            for state in states
        ],
    }
    if status == "ready":
        return JSONResponse(body)
    return JSONResponse(body, 503, {"retry-after": "1"})


def _number(state: EngineState) -> dict[str, int]:
    return {"encoder" if state.is_encoder else "replica": state.replica}


def _live(load: LiveLoad | None) -> dict[str, Any]:
    if load is None:
        return {}
    return {
        "live": {
            "speakers": load.speakers,
            "places": load.places,
            "predicted_lag": round(load.lag, 3),
            "max_lag": load.bound,
        }
    }


async def metrics(request: Request) -> Response:
    """Prometheus reads these numbers."""
    gateway = services(request)
    gateway.see_engines()
    return Response(gateway.metrics.render(), media_type=CONTENT_TYPE_LATEST)
