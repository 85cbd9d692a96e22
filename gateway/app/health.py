"""Whether the gateway lives, whether it can serve, what it serves, and its numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookhear.engine.client.client import EngineState
from lookhear.engine.messages import LiveLoad, ModelCard
from lookhear.gateway.services.services import served, services


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


async def models(request: Request) -> Response:
    """The default first, aliases behind all of them. None while they are loaded for the first
    time."""
    cards = services(request).models
    data = [_on_wire(card) for card in cards]
    data += [_on_wire(card, alias) for card in cards for alias in card.aliases]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
    return JSONResponse({"object": "list", "data": data, "has_more": False, **ends})


async def model(request: Request) -> Response:
    """An id may hold slashes, plain or as %2F. Only what the list has: nothing stands in here."""
    id, cards = request.path_params["id"], services(request).models
    card = served(id, [replace(card, stands_in=False) for card in cards])
    return JSONResponse(_on_wire(card, None if card.id == id else id))


def _on_wire(card: ModelCard, alias: str | None = None) -> dict[str, Any]:
    """alias: the entry is about this other name of the model; `root` is what vLLM calls its own.
    `type`, `display_name` and `created_at` are Anthropic's words, `max_model_len` is vLLM's."""
    chosen: dict[str, Any] = {"reason": card.reason} if card.reason else {}
    if alias is not None:
        chosen |= {"root": card.id, "lookhear": {"alias_of": card.id}}
    return {
        "id": alias or card.id,
        "object": "model",
        "created": card.created,
        "owned_by": "lookhear",
        "type": "model",
        "display_name": alias or card.id,
        "created_at": datetime.fromtimestamp(card.created, UTC).isoformat().replace("+00:00", "Z"),
        "architecture": card.architecture,
        "languages": card.languages,
        "parameters": card.parameters,
        "abilities": card.abilities,
        "toy": card.toy,
        **({"max_model_len": card.context_tokens} if card.context_tokens else {}),
        **({"parent": card.parent} if card.parent else {}),
        **chosen,
    }
