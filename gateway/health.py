"""Whether the gateway lives, whether it can serve, what it serves, and its numbers."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.messages import ModelCard
from gateway.errors import ApiError
from gateway.services import services


async def health(_: Request) -> Response:
    """200 as long as the process answers."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """200 only while an engine is up: what a load balancer asks."""
    gateway = services(request)
    engine = gateway.ready_engine
    if engine is None or gateway.closing:
        status = "starting" if gateway.engine is None else "engine_down"
        return JSONResponse({"status": status}, 503, {"retry-after": "1"})
    return JSONResponse({"status": "ready", "models": [card.id for card in engine.models]})


async def metrics(request: Request) -> Response:
    gateway = services(request)
    gateway.metrics.engine_ready.set(gateway.ready_engine is not None)
    if gateway.engine is not None:
        gateway.metrics.see_engines(gateway.engine.stats)
    return Response(gateway.metrics.render(), media_type=CONTENT_TYPE_LATEST)


async def models(request: Request) -> Response:
    engine = services(request).engine
    cards = engine.models if engine else []
    return JSONResponse({"object": "list", "data": [_on_wire(card) for card in cards]})


async def model(request: Request) -> Response:
    """An id may hold slashes, plain or as %2F."""
    name = request.path_params["id"]
    engine = services(request).engine
    for card in engine.models if engine else []:
        if card.id == name:
            return JSONResponse(_on_wire(card))
    raise ApiError(
        404, f"model: expected a served model, got {name!r}", code="model_not_found", param="model"
    )


def _on_wire(card: ModelCard) -> dict[str, Any]:
    return {
        "id": card.id,
        "object": "model",
        "created": card.created,
        "owned_by": "lookhear",
        "architecture": card.architecture,
        "languages": card.languages,
        "parameters": card.parameters,
    }
