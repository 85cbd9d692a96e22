"""What is served: the list of models and each of them, for clients of OpenAI's, Anthropic's,
Deepgram's and vLLM's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.checks.models import speech_models
from lookhear.gateway.deepgram import shapes
from lookhear.gateway.http.errors import wrong
from lookhear.gateway.http.paging import limit_of, place_of
from lookhear.gateway.services.services import served, services

LENGTHS = ("max_model_len", "max_input_tokens", "max_tokens")  # of an answer with its prompt
MOST_LISTED = 1000  # of a page, if a client asks for pages: as at Anthropic's


async def models(request: Request) -> Response:
    """The default first, aliases behind all of them. None while they are loaded for the first
    time. In pages as Anthropic's for who asks for them; clients of OpenAI's know none."""
    cards, query = services(request).models, request.query_params
    if shapes.is_theirs(request.headers):
        speech = [shapes.listed(card) for card in speech_models(cards)]
        return JSONResponse({"stt": speech, "tts": []})
    data = [_on_wire(card) for card in cards]
    data += [_on_wire(card, alias) for card in cards for alias in card.aliases]
    if "active" not in (query.getlist("lifecycle[]") or ["active"]):
        data = []
    what = "the id of a model of this list"
    after, before = (place_of(query, name, data, what) for name in ("after_id", "before_id"))
    if after is not None and before is not None:
        raise wrong("before_id", "one of after_id and before_id", shown(query["before_id"]))
    limit = limit_of(query, len(data), MOST_LISTED)
    if before is not None:
        page, has_more = data[max(0, before - limit) : before], before > limit
    else:
        first = 0 if after is None else after + 1
        page, has_more = data[first : first + limit], first + limit < len(data)
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
    return JSONResponse({"object": "list", "data": page, "has_more": has_more, **ends})


async def model(request: Request) -> Response:
    """An id may hold slashes, plain or as %2F. Only what the list has: nothing stands in here. To
    Deepgram's clients it is a UUID."""
    id = request.path_params["id"]
    cards = [replace(card, stands_in=False) for card in services(request).models]
    if shapes.is_theirs(request.headers):
        speech = speech_models(cards)
        id = next((card.id for card in speech if shapes.model_uuid(card) == id), id)
        return JSONResponse(shapes.listed(served(id, speech)))
    card = served(id, cards)
    return JSONResponse(_on_wire(card, None if card.id == id else id))


def _on_wire(card: ModelCard, alias: str | None = None) -> dict[str, Any]:
    """alias: the entry is about this other name of the model; `root` is what vLLM calls its own.
    `max_model_len` is vLLM's word, from `type` to `lifecycle` they are Anthropic's."""
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
        "lifecycle": "active",
        "architecture": card.architecture,
        "languages": card.languages,
        "parameters": card.parameters,
        "abilities": card.abilities,
        "toy": card.toy,
        **({name: card.context_tokens for name in LENGTHS} if card.context_tokens else {}),
        **({"parent": card.parent} if card.parent else {}),
        **chosen,
    }
