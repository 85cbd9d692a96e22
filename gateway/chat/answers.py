"""One question put to the engine, and its answers as they come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from lookhear.engine.client.client import EngineUnavailable
from lookhear.engine.messages import (
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerSettings,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    CancelAnswer,
    EngineFailed,
    Event,
    HoldEmbeddings,
    HoldPicture,
    HoldRecording,
    StartAnswer,
)
from lookhear.gateway.chat.loading import Question
from lookhear.gateway.chat.refusals import TOO_LONG, prompt_size, too_long
from lookhear.gateway.chat.truncation import remaining
from lookhear.gateway.checks.answers import INT64
from lookhear.gateway.checks.checks import is_clients_fault
from lookhear.gateway.http.errors import ApiError, unavailable
from lookhear.gateway.services.services import Services
from lookhear.gateway.telemetry.cadence import Cadence

Fields = Mapping[str, str]
ChoiceEvent = AnswerStarted | AnswerText | AnswerCall | AnswerCompleted
NO_FIELDS: Fields = MappingProxyType({})
TOOL_SCHEMA = ".function.parameters"  # of a tool, in the engine's words
MOST_UNREAD = 1 << 16  # events; the policy for more is to give the answers up, and to say so


class Answers:
    """A session of the engine that lives as long as one request. leave: told when the engine has
    said all, or need not.

    Whoever makes one calls `close`, however it ends: what is not answered by then is cancelled.
    Every method but `close` raises ApiError: 400 for what the engine refuses, 503 if it is gone.
    """

    def __init__(self, gateway: Services, leave: Callable[[], None]) -> None:
        self._gateway = gateway
        self._leave = leave
        self._engine = gateway.engine
        self._session = gateway.ids("chat")
        self._events: asyncio.Queue[Event] = asyncio.Queue(MOST_UNREAD)
        self._open: dict[str, int] = {}  # name -> choice, until the reader has heard its end
        self._unfinished: set[str] = set()  # until the engine has said its end
        self._shrinking: dict[str, StartAnswer] = {}  # what may be asked again, and shorter
        self._first: tuple[int, ChoiceEvent] | None = None
        self._places: list[str] = []
        self._paths: list[list[str]] = []
        self._fields = NO_FIELDS
        self._counts = False
        self._asked_at = gateway.clock()
        self._cadence = Cadence(gateway.metrics.inter_token, gateway.clock)
        self._is_closed = False
        self._is_too_slow = False
        self._engine.open_session(self._session, self._hear)

    def ask(
        self,
        question: Question,
        settings: AnswerSettings,
        choices: int,
        fields: Fields = NO_FIELDS,
        *,
        truncates: bool = False,
        are_apart: bool = False,
        seeds_anew: bool = False,
        counts: bool = False,
    ) -> None:
        """Choices share the prompt and differ in their seeds. The question's media are handed
        over: they are gone from it. fields and what follows: see `Asked`."""
        assert choices == 1 or not truncates  # whose places are those of errors
        prompts = [[each] for each in question.messages] if are_apart else [question.messages]
        model = settings.model
        self._places, self._paths, self._fields = question.places, question.paths, fields
        self._counts = counts
        self._asked_at = self._gateway.clock()
        try:
            self._engine.use_model(self._session, model)
            for name, picture in question.pictures.items():
                self._engine.send(HoldPicture(self._session, model, name, picture.pixels))
            for name, samples in question.recordings.items():
                self._engine.send(HoldRecording(self._session, model, name, samples))
            for name, rows in question.embeddings.items():
                self._engine.send(HoldEmbeddings(self._session, model, name, rows))
            question.pictures.clear()
            question.recordings.clear()
            question.embeddings.clear()
            each = choices // len(prompts)
            for choice in range(choices):
                name = f"answer_{choice}"
                place = choice % each if seeds_anew else choice
                chosen = replace(settings, seed=with_seed(settings.seed, place))
                prompt = prompts[choice * len(prompts) // choices]
                start = StartAnswer(self._session, name, chosen, prompt)
                self._engine.send(start)
                if truncates:
                    self._shrinking[name] = start
                self._open[name] = choice
                self._unfinished.add(name)
        except EngineUnavailable as error:
            raise unavailable(error) from None

    def _hear(self, event: Event) -> None:
        """As soon as the engine is done it forgets the session, pictures and all, however slowly
        the client reads."""
        if self._events.full():
            self._is_too_slow = True
            self.close()
            return
        self._cadence.said(event)
        if isinstance(event, AnswerFailed) and self._is_asked_again(event):
            return
        self._events.put_nowait(event)
        if isinstance(event, AnswerCompleted | AnswerFailed):
            self._unfinished.discard(event.answer)
            if not self._unfinished:
                self._engine.close_session(self._session)
                self._leave()

    def _is_asked_again(self, event: AnswerFailed) -> bool:
        """Without the older half, if it is too long and its client prefers that to none."""
        start = self._shrinking.pop(event.answer, None)
        if start is None or event.code != TOO_LONG:
            return False
        kept = remaining(start.messages)
        if kept is None:
            return False
        # To the engine it is another answer.
        shorter = replace(
            start, answer=f"{start.answer}+", messages=[start.messages[i] for i in kept]
        )
        try:
            self._engine.send(shorter)
        except EngineUnavailable:
            return False
        self._places = [self._places[i] for i in kept]
        self._paths = [self._paths[i] for i in kept]
        self._shrinking[shorter.answer] = shorter
        self._open[shorter.answer] = self._open.pop(start.answer)
        self._unfinished.remove(start.answer)
        self._unfinished.add(shorter.answer)
        return True

    async def begin(self) -> None:
        """Until the first thing comes of it: then the engine has taken the question."""
        self._first = await self._next()
        if not self._counts:
            self._gateway.metrics.first_token.observe(self._gateway.clock() - self._asked_at)

    async def events(self) -> AsyncIterator[tuple[int, ChoiceEvent]]:
        """(choice, event) in the order in which they come, until all choices are complete."""
        if self._first is not None:
            first, self._first = self._first, None
            yield first
        while self._open:
            yield await self._next()

    async def _next(self) -> tuple[int, ChoiceEvent]:
        if self._is_too_slow and self._events.empty():
            raise ApiError(503, "the client reads too slowly", code="client_too_slow")
        event = await self._events.get()
        match event:
            case AnswerStarted() | AnswerText() | AnswerCall():
                return self._open[event.answer], event
            case AnswerCompleted():
                self._ended(event.reason)
                return self._open.pop(event.answer), event
            case AnswerFailed():
                choice = self._open.pop(event.answer, 0)
                self._ended("failed")
                size = prompt_size(event.message) if self._counts else None
                if size is not None:
                    usage = AnswerUsage(prompt=size)
                    return choice, AnswerStarted(event.session, event.answer, usage)
                raise self._refusal(event)
            case EngineFailed():
                self._open.clear()
                self._ended("failed")
                message = f"the engine stopped: {event.message}; try again"
                raise ApiError(503, message, code=event.code)
            case _:
                raise AssertionError(event)

    def _ended(self, outcome: str) -> None:
        """An answer has; who has tokens of a prompt counted asks for none."""
        if not self._counts:
            self._gateway.metrics.answers.labels(outcome).inc()

    def _refusal(self, event: AnswerFailed) -> ApiError:
        """The engine's refusal, about the part or the setting that is to blame."""
        if event.message_index is not None:
            path = self._places[event.message_index]
            if event.part_index is not None:
                path = self._paths[event.message_index][event.part_index]
            message = f"{path}: {event.message}"
            message = too_long(message) if event.code == TOO_LONG else message
            return ApiError(400, message, code=event.code, param=path)
        message, is_too_long = event.message, event.code == TOO_LONG
        if is_too_long or is_clients_fault(event.code):
            place = message.partition(":")[0]
            name = place.partition("[")[0]
            param = self._fields.get(name)
            if name == "tools":
                tool, bracket, rest = place.partition("]")
                tool = self._fields.get(tool + bracket, tool + bracket)
                param = tool + rest.replace(TOOL_SCHEMA, self._fields.get(TOOL_SCHEMA, TOOL_SCHEMA))
                message = param + message.removeprefix(place)
            elif param is not None:  # by its name on the wire
                message = param + message.removeprefix(name)
            elif is_too_long:
                param = self._fields.get("messages")
            message = too_long(message) if is_too_long else message
            return ApiError(400, message, code=event.code, param=param)
        is_busy = event.code.startswith("too_many_")
        return ApiError(503 if is_busy else 500, message, code=event.code)

    def close(self) -> None:
        """The end of the request, for whatever reason."""
        if self._is_closed:
            return
        self._is_closed = True
        for name in self._unfinished & self._open.keys():
            self._ended("cancelled")
            with contextlib.suppress(EngineUnavailable):
                self._engine.send(CancelAnswer(self._session, name))
        self._engine.close_session(self._session)
        self._leave()


def with_seed(seed: int, choice: int) -> int:
    """The seed of a choice: the first has the client's own, and none leaves 64 bits."""
    return (seed + choice + INT64) % (2 * INT64) - INT64
