"""The responses of a realtime session: from `ResponseCreated` to exactly one `ResponseDone`.

A response waits until all speech that it is about is transcribed; then its prompt goes to the
engine, and with the engine's first token its item opens. However it ends, what was opened is closed
and what was said stays. One at a time writes to the conversation, others run beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from lookhear.engine.messages import (
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    CancelAnswer,
    StartAnswer,
)
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.realtime.answering.eager import AnswerEvent, Eager
from lookhear.gateway.realtime.answering.truncation import HALF, excess
from lookhear.gateway.realtime.pictures.camera import CameraFrame
from lookhear.gateway.realtime.pictures.media_store import MediaStore
from lookhear.gateway.realtime.pictures.prompts import Prompt, build_prompt
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.conversation import (
    CallContent,
    Item,
    Spoken,
    TextContent,
)
from lookhear.gateway.realtime.protocol.events import ResponseStatus
from lookhear.gateway.realtime.protocol.outputs import Emitter, GuessAsked, ResponseFinished
from lookhear.gateway.realtime.protocol.refusals import (
    busy,
    nothing_to_answer,
    too_many_responses,
    untranscribed,
)
from lookhear.gateway.telemetry.ids import IdFactory

MAX_RESPONSES = 16  # under way at once, out-of-band ones among them
TOO_LONG = "context_length_exceeded"


@dataclass(slots=True, eq=False)
class Response:
    """items, frames: what it answers, oldest first. after: the item that its next one comes behind,
    if it joins the conversation. sees_all: its context is the conversation's, not its own. owed:
    what was said to voice detection that it answers."""

    head: events.ResponseHead
    answer_id: str  # of its first item
    items: list[Item]
    frames: list[CameraFrame]
    sees_all: bool
    after: str | None
    owed: set[str] = field(default_factory=set)
    left_out: list[Item] = field(default_factory=list)  # older ones, as the context was too long
    frames_left_out: list[CameraFrame] = field(default_factory=list)
    answer: str | None = None  # the engine's name of it, once it is asked
    tries: int = 0
    prompt: Prompt | None = None
    started: bool = False
    said: list[Item] = field(default_factory=list)  # all its items
    previous: str | None = None  # the item before the newest of them
    is_open: bool = False  # more may come of the newest of them
    is_there: bool = False  # the newest of them is in the conversation
    text: list[str] = field(default_factory=list)  # of the one that is open
    pieces: int = 0
    usage: AnswerUsage = AnswerUsage()

    @property
    def is_default(self) -> bool:
        """Whether it is of the conversation, not out-of-band."""
        return self.head.conversation is not None

    @property
    def has_said(self) -> bool:
        """Whether a word of it came, or a call."""
        return bool(self.text) or any(item.text or item.call for item in self.said)

    @property
    def media(self) -> list[Picture | Spoken]:
        """All that it answers, those of its items first."""
        shown = [medium for item in self.items for medium in item.media()]
        return shown + [frame.picture for frame in self.frames]


class Speaker(Protocol):
    """The conversation that responses write to."""

    def insert_output(self, response: Response, item: Item) -> str | None:
        """An item of it joins the conversation. -> the id of the item before it."""

    def on_shortened(self, response: Response) -> None:
        """An answer of the conversation's came once something was left out of its context."""

    def hears(self, model: str) -> bool:
        """Whether that served model has ears."""


class Responses:
    """Those of one session that are under way. seeds: draws one for who named none."""

    def __init__(
        self,
        emitter: Emitter,
        store: MediaStore,
        speaker: Speaker,
        *,
        ids: IdFactory,
        seeds: Callable[[], int],
    ) -> None:
        self._ids = ids
        self._emitter = emitter
        self._store = store
        self._speaker = speaker
        self._seeds = seeds
        self._running: dict[str, Response] = {}
        self._refused: set[str] = set()  # items of a question that was too long by itself
        self.eager = Eager(emitter, store, seeds)

    @property
    def default(self) -> Response | None:
        """The one that writes to the conversation."""
        return next((r for r in self._running.values() if r.is_default), None)

    def __len__(self) -> int:
        return len(self._running)

    def get(self, response_id: str) -> Response | None:
        """The one under way of that id."""
        return self._running.get(response_id)

    def owns(self, item_id: str) -> bool:
        """Whether the item of a response under way has this id."""
        return any(
            item_id == response.answer_id or any(item_id == item.id for item in response.said)
            for response in self._running.values()
        )

    def check_room(self, *, is_default: bool) -> None:
        """Raises ProtocolError if no other response can be started."""
        if is_default and (active := self.default) is not None:
            raise busy(active.head.id)
        if len(self) >= MAX_RESPONSES:
            raise too_many_responses(MAX_RESPONSES)

    def create(self, response: Response) -> None:
        """Announce it, and ask the engine as soon as everything is transcribed."""
        self._running[response.head.id] = response
        # An engine may read a picture until the answer is done, whatever is deleted meanwhile.
        self._store.keep(response.media)
        self._emitter.send(events.ResponseCreated(response.head))
        self._ask_if_ready(response)

    def settled(self) -> None:
        """A transcript came, or failed, or its item was deleted: who waits for it may go on."""
        for response in [r for r in self._running.values() if r.answer is None]:
            self._ask_if_ready(response)

    def forget(self, item: Item, previous: str) -> None:
        """The item, which followed `previous`, was deleted: answers to it stand there, nothing more
        is told of it, and who has not asked yet does without it."""
        for response in self._running.values():
            if response.after == item.id:
                response.after = previous
            if response.said[-1:] == [item]:
                response.is_there = False
        for response in [r for r in self._running.values() if r.answer is None]:
            while item in response.items:  # it may be referred to more than once
                response.items.remove(item)
                self._store.release(item.media())

    def cancel(self, response: Response, reason: str) -> None:
        """reason: "client_cancelled" or "turn_detected"."""
        if response.answer is not None:
            self._emitter.submit(CancelAnswer(self._emitter.session, response.answer))
        self._finish(response, ResponseStatus.CANCELLED, reason=reason)

    def fail_all(self, problem: ProtocolError) -> None:
        """The engine is gone."""
        for response in list(self._running.values()):
            self._finish(response, ResponseStatus.FAILED, problem=problem)

    def engine(self, event: AnswerEvent) -> None:
        """About an answer that was cancelled meanwhile: ignored."""
        if self.eager.engine(event):
            return
        running = self._running.values()
        response = next((r for r in running if r.answer == event.answer), None)
        if response is None:
            return
        match event:
            case AnswerStarted():
                response.usage = event.usage
                self._open(response)
            case AnswerText():
                self._text(response, event)
            case AnswerCall():
                self._call(response, event)
            case AnswerCompleted():
                response.usage = event.usage
                if event.reason == "length":
                    self._finish(response, ResponseStatus.INCOMPLETE, reason="max_output_tokens")
                else:
                    self._finish(response, ResponseStatus.COMPLETED)
            case AnswerFailed():
                self._failed(response, event)

    # --- the way of one response -----------------------------------------------------------------

    def _ask_if_ready(self, response: Response) -> None:
        hears = self._speaker.hears(response.head.settings.model)
        if any(item.is_pending(hears=hears) for item in response.items):
            return
        last = response.items[-1] if response.items else None
        if last is not None and last.has_failed(hears=hears):
            self._finish(response, ResponseStatus.FAILED, problem=untranscribed(last.id))
        else:
            self._ask(response)

    def _ask(self, response: Response) -> None:
        settings = response.head.settings
        hears = self._speaker.hears(settings.model)
        prompt = build_prompt(settings.instructions, response.items, response.frames, hears=hears)
        response.prompt = prompt
        if not prompt.messages:
            self._finish(response, ResponseStatus.FAILED, problem=nothing_to_answer())
            return
        if response.is_default and not response.tries:
            begun = self.eager.claim(settings, prompt)
            if begun is not None:
                response.tries, response.answer = 1, begun.name
                self._emitter.put(GuessAsked(begun.name))
                for event in begun.said:
                    self.engine(event)
                return
        response.tries += 1
        # A second try is another answer to the engine.
        id, tries = response.head.id, response.tries
        response.answer = id if tries == 1 else f"{id}.{tries}"
        self._store.show(prompt.media, settings.model)
        session, answer = self._emitter.session, settings.answer(self._seeds())
        self._emitter.submit(StartAnswer(session, response.answer, answer, prompt.messages))

    def _open(self, response: Response) -> None:
        response.started = True
        if response.is_default and (response.left_out or response.frames_left_out):
            self._speaker.on_shortened(response)
        if not response.head.settings.tools:  # else it may be that nothing is said, only called
            self._begin(response, Item(response.answer_id, "assistant", status="in_progress"))

    def _begin(self, response: Response, item: Item) -> None:
        """Another item of it; what was open is whole."""
        self._close(response, "completed")
        response.previous = None
        response.is_there = response.is_default
        if response.is_there:
            response.previous = self._speaker.insert_output(response, item)
        response.said.append(item)
        response.is_open = True
        head, index = response.head, len(response.said) - 1
        self._emitter.send(events.OutputStarted(head, item, index, response.previous))

    def _close(self, response: Response, status: str) -> None:
        """The open item, if there is one, gets its text."""
        if not response.is_open:
            return
        response.is_open = False
        item, text = response.said[-1], "".join(response.text)
        response.text.clear()
        if item.call is not None:
            item.call.arguments = text
        else:
            item.content = [TextContent(text)]
        item.status = status
        head, index = response.head, len(response.said) - 1
        done = events.OutputDone(head, item, index, response.previous, response.is_there)
        self._emitter.send(done)

    def _text(self, response: Response, event: AnswerText) -> None:
        assert response.started, "text of an answer that has not started"
        response.pieces += 1
        head, is_reasoning = response.head, event.is_reasoning
        if not event.text or (is_reasoning and not head.settings.sampling.reasoning):
            return
        if not response.is_open or response.said[-1].call is not None:
            id = self._ids("item") if response.said else response.answer_id
            self._begin(response, Item(id, "assistant", status="in_progress"))
        if not is_reasoning:
            response.text.append(event.text)
        self._tell(response, event.text, is_reasoning=is_reasoning)

    def _call(self, response: Response, event: AnswerCall) -> None:
        response.pieces += 1
        if event.name is not None:
            call = CallContent(self._ids("call"), event.name, "")
            id = self._ids("item") if response.said else response.answer_id
            self._begin(response, Item(id, "assistant", [call], "in_progress"))
        if event.arguments:
            response.text.append(event.arguments)
            self._tell(response, event.arguments)

    def _tell(self, response: Response, text: str, *, is_reasoning: bool = False) -> None:
        item, index = response.said[-1], len(response.said) - 1
        self._emitter.send(
            events.OutputDelta(response.head, item, index, text, is_reasoning=is_reasoning)
        )

    def _failed(self, response: Response, event: AnswerFailed) -> None:
        if event.code == TOO_LONG and not response.started and self._shorten(response):
            self._ask(response)
            return
        if event.code == TOO_LONG and response.sees_all and response.is_default:
            self._refused = {item.id for item in response.items if item.role != "system"}
        place = response.prompt and response.prompt.place(event.message_index, event.part_index)
        message = f"{place}: {event.message}" if place else event.message
        if message.startswith("tools["):  # which are flat on this wire
            message = message.replace(".function.", ".", 1)
        problem = ProtocolError(message, code=event.code, type=_error_type(event.code))
        self._finish(response, ResponseStatus.FAILED, problem=problem)

    def _shorten(self, response: Response) -> bool:
        """Leave something out, see `excess`: at first what the client wants not retained. False:
        there is nothing to leave out, or the client does not want it."""
        if response.head.settings.truncation == "disabled" or not response.sees_all:
            return False
        wanted = response.head.settings.retention
        share = HALF if wanted is None or response.tries > 1 else wanted
        # What is neither read nor seen is no end of a question, and no answer to one.
        items = [item for item in response.items if not item.is_empty]
        gone, frames_gone = excess(items, response.frames, self._refused, share)
        self._store.release(response.media)
        response.items = [item for item in items if item not in gone]
        response.frames = response.frames[len(frames_gone) :]
        response.left_out += gone
        response.frames_left_out += frames_gone
        self._store.keep(response.media)
        return bool(gone or frames_gone)

    def _finish(
        self,
        response: Response,
        status: ResponseStatus,
        *,
        reason: str | None = None,
        problem: ProtocolError | None = None,
    ) -> None:
        """What was said stays, in its item if it has one."""
        head = response.head
        del self._running[head.id]
        self._store.release(response.media)
        if response.started and not response.said:  # not a word, and no call
            self._begin(response, Item(response.answer_id, "assistant", status="in_progress"))
        is_whole = status is ResponseStatus.COMPLETED
        self._close(response, "completed" if is_whole else "incomplete")
        if response.usage.output == 0 and response.pieces:
            # Cut off, so the engine does not say: about a token each.
            response.usage = replace(response.usage, output=response.pieces)
        said, usage = tuple(response.said), response.usage
        self._emitter.send(events.ResponseDone(head, said, status, usage, reason, problem))
        self._emitter.put(ResponseFinished(head.id, status))


def _error_type(code: str) -> str:
    is_mine = code.startswith(("invalid_", "unsupported_", "unknown_", "too_many_"))
    is_mine = is_mine or code.endswith(("_too_long", "_too_large", "_exceeded"))
    return "invalid_request_error" if is_mine else "server_error"
