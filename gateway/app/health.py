"""Whether the gateway lives, whether it can serve, what it serves, and its numbers."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookhear.engine.messages import LiveLoad, ModelCard
from lookhear.gateway.services.services import served, services


async def health(_: Request) -> Response:
    """200 as long as the process answers."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """200 only while an engine of every model is up: what a load balancer asks."""
    gateway = services(request)
    states = gateway.engine.states
    several = {state.model for state in states if state.replica > 1}
    if gateway.closing:
        status = "closing"
    elif gateway.draining:
        status = "draining"
    elif not gateway.engine.models:
        status = "starting"
    elif all(gateway.engine.is_ready(state.model) for state in states):
        status = "ready"
    else:
        status = "engine_down"
    body = {
        "status": status,
        "models": [
            {
                "name": state.model,
                **({"replica": state.replica} if state.model in several else {}),
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
    engine = gateway.engine
    loads = {state.model: engine.live_load(state.model) for state in engine.states}
    known = {model: load for model, load in loads.items() if load is not None}
    gateway.metrics.see_engines(engine.states, engine.stats, known, engine.recovery)
    return Response(gateway.metrics.render(), media_type=CONTENT_TYPE_LATEST)


async def models(request: Request) -> Response:
    """The default first. None while they are loaded for the first time."""
    cards = services(request).engine.models
    return JSONResponse({"object": "list", "data": [_on_wire(card) for card in cards]})


async def model(request: Request) -> Response:
    """An id may hold slashes, plain or as %2F."""
    return JSONResponse(_on_wire(served(request.path_params["id"], services(request).engine)))


def _on_wire(card: ModelCard) -> dict[str, Any]:
    chosen = {"reason": card.reason} if card.reason else {}
    return {
        "id": card.id,
        "object": "model",
        "created": card.created,
        "owned_by": "lookhear",
        "architecture": card.architecture,
        "languages": card.languages,
        "parameters": card.parameters,
        "abilities": card.abilities,
        "toy": card.toy,
        **chosen,
    }
