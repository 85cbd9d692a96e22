"""A question over HTTP, in whichever dialect: messages in, answers out, streamed or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from lookhear.engine.messages import AnswerSettings, ModelCard
from lookhear.gateway.chat.answers import Answers, Fields
from lookhear.gateway.chat.dialect import Asked, Dialect, Reply
from lookhear.gateway.chat.length import readable
from lookhear.gateway.chat.lines import Pointer, pointers
from lookhear.gateway.chat.loading import Question, check_abilities, load, wanted_of
from lookhear.gateway.chat.places import AnswerPlaces, Place
from lookhear.gateway.chat.refusals import wrong_type
from lookhear.gateway.checks.outline import Data, TooMuchJson, parse_json
from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.http.notes import notes
from lookhear.gateway.http.requests import body_of, done_with_body, until_gone
from lookhear.gateway.services.services import Services, served, services
from lookhear.gateway.slots import Claim

HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What is left of a request once its media are loaded: nothing that is as large as its body.
    told: headers of the answer."""

    question: Question
    settings: AnswerSettings
    choices: int
    fields: Fields
    is_streamed: bool
    truncates: bool
    are_apart: bool
    seeds_anew: bool
    counts: bool
    told: dict[str, str]
    reply: Reply
    place: Place


async def answer(request: Request, dialect: Dialect, places: AnswerPlaces) -> Response:
    """Raises ApiError until the answer begins; then errors are events of the stream."""
    gateway = services(request)
    gateway.check_loaded()
    prepared = await _prepared(request, gateway, dialect, places)
    done_with_body(request)
    return await _answer(request, gateway, prepared)


async def _prepared(
    request: Request, gateway: Services, dialect: Dialect, places: AnswerPlaces
) -> _Prepared:
    """The request, read and checked. Its body may be large: nothing here outlives the call. Media
    are loaded once it has its places: those who wait hold no more than their bodies."""
    body = await body_of(request, gateway.config.max_upload_bytes)
    most, max_media = gateway.config.max_json_bytes, gateway.config.max_pictures
    owner = gateway.access.owner(request.headers)

    def parse() -> Asked:
        """In a thread: a body may be a hundred megabytes of base64."""
        return dialect.parse(read_object(body, most), max_media, owner)

    asked = await gateway.in_thread(parse)
    wanted = wanted_of(asked.lines, gateway)
    card = served(asked.model or None, gateway.models, "chat", wanted)
    check_abilities(asked.lines, card, gateway)
    asked = readable(asked, card)
    claim = gateway.claim(request, gateway.ids("question"))
    place = await _placed(request, gateway, places, card, claim, asked)
    try:
        question = await until_gone(request, load(asked.lines, gateway, claim, card))
        place.loaded()
        return _Prepared(
            question=question,
            settings=replace(asked.settings, model=card.id),
            choices=asked.choices,
            fields=asked.fields,
            is_streamed=asked.is_streamed,
            truncates=asked.truncates,
            are_apart=asked.are_apart,
            seeds_anew=asked.seeds_anew,
            counts=asked.counts,
            told=notes(card, asked.ignored),
            reply=asked.reply(card),
            place=place,
        )
    except BaseException:
        place.leave()
        raise


def _takes_time(pointer: Pointer) -> bool:
    """Whether others decide how long it takes; a picture in the request itself takes no time."""
    is_here = pointer.is_base64 or pointer.url[:5].lower() == "data:"
    return not (is_here and pointer.kind in ("image", "prompt_embeds"))


async def _placed(
    request: Request,
    gateway: Services,
    places: AnswerPlaces,
    card: ModelCard,
    claim: Claim,
    asked: Asked,
) -> Place:
    """Places of an engine that can be asked: while it is being started again nobody keeps any, so
    that all are told together if it does not come back."""
    began, loads = gateway.clock(), any(map(_takes_time, pointers(asked.lines)))
    while True:
        await until_gone(request, gateway.until_ready(card.id))
        place = places.queue(card, claim, asked.choices, loads=loads)
        try:
            await until_gone(request, place.taken())
        except BaseException:
            place.leave()
            raise
        if gateway.engine.is_ready(card.id):
            gateway.metrics.answer_wait.observe(gateway.clock() - began)
            return place
        place.leave()


async def _answer(request: Request, gateway: Services, asked: _Prepared) -> Response:
    answers, reply = Answers(gateway, asked.place.leave), asked.reply
    try:
        question, settings = asked.question, asked.settings
        answers.ask(
            question,
            settings,
            asked.choices,
            asked.fields,
            truncates=asked.truncates,
            are_apart=asked.are_apart,
            seeds_anew=asked.seeds_anew,
            counts=asked.counts,
        )
        # What the engine refuses is still an error of its own, not a stream that breaks off.
        await until_gone(request, answers.begin())
        if asked.is_streamed:
            return _EventStream(answers, reply, asked.told)
        whole = reply.whole(await until_gone(request, _all(answers)))
    except BaseException:
        answers.close()
        reply.close()
        raise
    answers.close()
    reply.close()
    return JSONResponse(whole, headers=asked.told)


class _EventStream(StreamingResponse):
    """Server-sent events. However the response ends, its answers end with it."""

    def __init__(self, answers: Answers, reply: Reply, told: dict[str, str]) -> None:
        stream = _stream(answers, reply)
        super().__init__(stream, media_type="text/event-stream", headers=HEADERS | told)
        self._answers = answers
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answers.close()
            self._reply.close()


async def _stream(answers: Answers, reply: Reply) -> AsyncIterator[str]:
    try:
        async for choice, event in answers.events():
            for frame in reply.of(choice, event):
                yield frame
    except ApiError as error:  # too late for a status
        for frame in reply.failed(error):
            yield frame
    else:
        for frame in reply.end():
            yield frame


async def _all(answers: Answers) -> list[Any]:
    return [event async for event in answers.events()]


def read_object(body: Data, most: int) -> dict[str, Any]:
    """The JSON object that a body is. most: bytes of it, but for long strings. Raises ApiError."""
    try:
        data = parse_json(body, most)
    except RecursionError:
        message = "body: expected JSON, got too deep a nesting"
        raise ApiError(400, message, code="invalid_json", param="body") from None
    except TooMuchJson as error:
        raise ApiError(413, f"body: {error}", code="request_too_large", param="body") from None
    except ValueError as error:
        message = f"body: expected a JSON object, got what is not JSON ({error})"
        raise ApiError(400, message, code="invalid_json", param="body") from None
    if not isinstance(data, dict):
        raise wrong_type("body", "a JSON object", data)
    return data
