"""A request for vectors or scores over HTTP, in whichever API: inputs in, one object out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from lookhear.engine.client.client import EngineUnavailable, InputRefused
from lookhear.engine.messages import (
    ChatMessage,
    HoldEmbeddings,
    HoldPicture,
    ModelCard,
    PoolingInput,
    StartPooling,
)
from lookhear.gateway.chat.endpoint import read_object
from lookhear.gateway.chat.length import least_tokens
from lookhear.gateway.chat.loading import Question, check_abilities, load, wanted_of
from lookhear.gateway.chat.refusals import TOO_LONG, too_long
from lookhear.gateway.checks.checks import is_clients_fault
from lookhear.gateway.http.errors import ApiError, unavailable
from lookhear.gateway.http.notes import notes
from lookhear.gateway.http.requests import body_of, done_with_body, until_gone
from lookhear.gateway.pooling.asked import Asked, Json
from lookhear.gateway.pooling.inputs import Given
from lookhear.gateway.services.services import served, services

Held = HoldPicture | HoldEmbeddings
Parse = Callable[[Json, int], Asked]
"""(body, media parts at most) -> what is asked. Runs in a thread. Raises ApiError."""


async def answer(request: Request, parse: Parse) -> Response:
    """Raises ApiError."""
    gateway = services(request)
    gateway.check_loaded()
    config = gateway.config
    body = await body_of(request, config.max_upload_bytes)
    asked = await gateway.in_thread(
        lambda: parse(read_object(body, config.max_json_bytes), config.max_pictures)
    )
    given = [*asked.queries, *asked.documents]
    lines = [line for one in given for line in one.lines]
    wanted = wanted_of(lines, gateway)
    card = served(asked.model or None, gateway.models, asked.ability, wanted)
    check_abilities(lines, card, gateway)
    _check_lengths(given, card)
    await until_gone(request, gateway.until_ready(card.id))
    id = gateway.ids(asked.ability)
    question = await until_gone(request, load(lines, gateway, gateway.claim(request, id), card))
    message = _message(id, asked, question, card.id)
    held: list[Held] = [HoldPicture(id, card.id, n, p.pixels) for n, p in question.pictures.items()]
    held += [HoldEmbeddings(id, card.id, name, r) for name, r in question.embeddings.items()]
    done_with_body(request)
    try:
        pooled = await until_gone(request, gateway.engine.pool(message, held))
    except InputRefused as error:
        raise _refusal(error, asked) from None
    except EngineUnavailable as error:
        raise unavailable(error) from None

    def rendered() -> str:
        """Many numbers are much to write."""
        whole = asked.render(card, pooled, id.replace("_", "-", 1), int(gateway.now()))
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))

    text = await gateway.in_thread(rendered)
    told = notes(card, asked.ignored)
    return Response(text, media_type="application/json", headers=told)


def _check_lengths(given: list[Given], card: ModelCard) -> None:
    """Refuse what is longer by far than the model reads. Raises ApiError."""
    for one in given:
        if (tokens := least_tokens(one.lines)) > card.context_tokens:
            expected = f"expected at most {card.context_tokens} tokens, got {tokens} or more"
            message = too_long(f"{one.path}: {expected}")
            raise ApiError(400, message, code=TOO_LONG, param=one.path)


def _message(id: str, asked: Asked, question: Question, model: str) -> StartPooling:
    loaded = iter(question.messages)

    def inputs(given: list[Given]) -> list[PoolingInput]:
        return [_input(one, [next(loaded) for _ in one.lines]) for one in given]

    queries = inputs(list(asked.queries))  # in the order in which they were loaded
    documents = inputs(asked.documents)
    return StartPooling(id, replace(asked.settings, model=model), documents, queries)


def _input(given: Given, messages: list[ChatMessage]) -> PoolingInput:
    return PoolingInput(messages, given.tokens, given.is_conversation)


def _refusal(error: InputRefused, asked: Asked) -> ApiError:
    """The engine's refusal, about the input or the setting that is to blame."""
    code, message = error.code, str(error)
    if error.index is not None:
        sides = {"query": list(asked.queries), "document": asked.documents}
        path = sides[error.side][error.index].path
        if code == TOO_LONG:
            return ApiError(400, too_long(f"{path}: {message}"), code=code, param=path)
        if is_clients_fault(code):
            return ApiError(400, f"{path}: {message}", code=code, param=path)
        return ApiError(500, f"{path}: {message}", code=code)
    if is_clients_fault(code):
        name, _, rest = message.partition(":")
        param = (asked.fields or {}).get(name, name)
        return ApiError(400, f"{param}:{rest}", code=code, param=param)
    return ApiError(503 if code.startswith("too_many_") else 500, message, code=code)
