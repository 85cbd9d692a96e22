"""`POST /v1/chat/completions`: messages in, answers out, streamed or not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from lookhear.engine.messages import ModelCard
from lookhear.gateway.chat.answers import Answers
from lookhear.gateway.chat.completions import Chunks, completion, heading
from lookhear.gateway.chat.loading import Question, check_abilities, load
from lookhear.gateway.chat.messages import Line, parse_messages, pointers
from lookhear.gateway.chat.parameters import Parameters, parse_parameters, wrong_type
from lookhear.gateway.checks.outline import Data, TooMuchJson, parse_json
from lookhear.gateway.http.errors import ApiError, error_body
from lookhear.gateway.http.notes import notes
from lookhear.gateway.http.requests import body_of, done_with_body, until_gone
from lookhear.gateway.services.services import Services, served, services

HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


async def chat_completions(request: Request) -> Response:
    """Raises ApiError until the answer begins; then errors are events of the stream."""
    gateway = services(request)
    gateway.check_ready()
    asked, question, card = await _prepared(request, gateway)
    done_with_body(request)
    return await _answer(request, gateway, asked, question, card)


async def _prepared(request: Request, gateway: Services) -> tuple[Parameters, Question, ModelCard]:
    """The request, read and checked. Its body may be large: nothing here outlives the call."""
    body = await body_of(request, gateway.config.max_upload_bytes)
    most, max_media = gateway.config.max_json_bytes, gateway.config.max_pictures
    asked, lines = await gateway.in_thread(lambda: _parse(body, most, max_media))
    needed = {pointer.kind for pointer in pointers(lines)} - {"audio"}  # which becomes text
    card = served(asked.model or None, gateway.models, "chat", needed)
    check_abilities(lines, card, gateway)
    gateway.check_ready(card.id)
    claim = gateway.claim(request, gateway.ids("chatcmpl"))
    return asked, await until_gone(request, load(lines, gateway, claim)), card


async def _answer(
    request: Request, gateway: Services, asked: Parameters, question: Question, card: ModelCard
) -> Response:
    choices = asked.n or 1
    head = heading(gateway.ids("chatcmpl").replace("_", "-", 1), int(gateway.now()), card)
    told, answers = notes(card, asked.ignored), Answers(gateway)

    def call_id() -> str:
        return gateway.ids("call")

    try:
        answers.ask(question, asked.settings(card.id), choices)
        # What the engine refuses is still an error of its own, not a stream that breaks off.
        await until_gone(request, answers.begin())
        if asked.stream:
            chunks = Chunks(head, choices, call_id, include_usage=asked.include_usage)
            return _EventStream(_stream(answers, chunks), answers, told)
        events = await until_gone(request, _all(answers))
    except BaseException:
        answers.close()
        raise
    answers.close()
    return JSONResponse(completion(head, choices, events, call_id), headers=told)


class _EventStream(StreamingResponse):
    """Server-sent events. However the response ends, its answers end with it."""

    def __init__(self, content: AsyncIterator[str], answers: Answers, told: dict[str, str]) -> None:
        super().__init__(content, media_type="text/event-stream", headers=HEADERS | told)
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answers.close()


async def _stream(answers: Answers, chunks: Chunks) -> AsyncIterator[str]:
    try:
        async for choice, event in answers.events():
            for chunk in chunks.of(choice, event):
                yield _data(chunk)
        for chunk in chunks.end():
            yield _data(chunk)
    except ApiError as error:  # too late for a status
        yield _data(error_body(error.message, error.type, error.code, error.param))
    else:
        yield "data: [DONE]\n\n"


def _data(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}\n\n"


async def _all(answers: Answers) -> list[Any]:
    return [event async for event in answers.events()]


def _parse(body: Data, most: int, max_media: int) -> tuple[Parameters, list[Line]]:
    """In a thread: a body may be a hundred megabytes of base64."""
    try:
        data = parse_json(body, most)
    except RecursionError:
        raise ApiError(400, "body: expected JSON, got too deep a nesting", param="body") from None
    except TooMuchJson as error:
        raise ApiError(413, f"body: {error}", code="request_too_large", param="body") from None
    except ValueError as error:
        message = f"body: expected a JSON object, got what is not JSON ({error})"
        raise ApiError(400, message, param="body") from None
    if not isinstance(data, dict):
        raise wrong_type("body", "a JSON object", data)
    return parse_parameters(data), parse_messages(data.get("messages"), max_media)
