"""An answer as OpenAI's Response: the events of its stream, which also make it up when it is whole.

Thinking is an item of the kind `reasoning` with its text as content; each call is an item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from lookhear.engine.messages import (
    AnswerCall,
    AnswerCompleted,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    ModelCard,
)
from lookhear.gateway.chat.answers import ChoiceEvent
from lookhear.gateway.chat.dialect import Json, frame
from lookhear.gateway.chat.logprobs import logprobs_of
from lookhear.gateway.http.errors import ApiError

MESSAGE, REASONING, CALL = "message", "reasoning", "function_call"
NO_NAMES: Mapping[str, Json] = MappingProxyType({})
PREFIXES = {MESSAGE: "msg", REASONING: "rs", CALL: "fc"}


def heading(id: str, created: int, card: ModelCard, given: Json, *, store: bool) -> Json:
    """A response of which nothing is said yet. created: Unix seconds. given: what it repeats of
    the request."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": card.id,
        "output": [],
        "store": store,
        "usage": None,
        **given,
    }


class Reply:
    """One response. ids: makes a fresh id of a prefix. now: Unix seconds. finished: hears it when
    it is complete, or cut off by its length. left: called in the end, whatever became of it.
    called: see `Told.called`."""

    def __init__(
        self,
        heading: Json,
        ids: Callable[[str], str],
        now: Callable[[], float],
        finished: Callable[[Json], None],
        left: Callable[[], None],
        called: Mapping[str, Json] = NO_NAMES,
    ) -> None:
        self._called = called
        self._response = heading
        self._ids = ids
        self._now = now
        self._finished = finished
        self._left = left
        self._number = 0  # of events
        self._output: list[Json] = []  # items that are over
        self._open: Json | None = None  # the item that is being said
        self._text = ""  # of it, or its arguments
        self._logprobs: list[Json] = []
        self._usage = AnswerUsage()

    def whole(self, events: Iterable[tuple[int, ChoiceEvent]]) -> Json:
        """The response, from all that was said."""
        for _, event in events:
            self._take(event)
        return self._response

    def of(self, choice: int, event: ChoiceEvent) -> list[str]:
        """What one event becomes. There is one choice."""
        return [frame(told, told["type"]) for told in self._take(event)]

    def end(self) -> list[str]:
        """The last event said all."""
        return []

    def failed(self, error: ApiError) -> list[str]:
        """A response that failed, with what was said until then."""
        code = "server_error" if error.status >= 500 else "invalid_prompt"
        told = self._close("incomplete")
        response = {
            **self._response,
            "status": "failed",
            "error": {"code": code, "message": error.message},
            "output": self._output,
        }
        told.append(self._event("response.failed", response=response))
        return [frame(each, each["type"]) for each in told]

    def close(self) -> None:
        """The end of the request."""
        self._left()

    # --- events ----------------------------------------------------------------------------------

    def _take(self, event: ChoiceEvent) -> list[Json]:
        match event:
            case AnswerStarted():
                self._usage = event.usage
                return [
                    self._event("response.created", response=self._response),
                    self._event("response.in_progress", response=self._response),
                ]
            case AnswerText():
                return self._say(event)
            case AnswerCall():
                return self._call(event)
            case AnswerCompleted():
                return self._complete(event)

    def _say(self, event: AnswerText) -> list[Json]:
        kind = REASONING if event.is_reasoning else MESSAGE
        tokens = None if event.is_reasoning else event.tokens
        if not event.text and not tokens:
            return []
        told = self._begin(kind) if self._open is None or self._open["type"] != kind else []
        self._text += event.text
        place = {**self._place(), "content_index": 0, "delta": event.text}
        if kind == REASONING:
            return [*told, self._event("response.reasoning_text.delta", **place)]
        more = logprobs_of(tokens or ())
        self._logprobs += more
        return [*told, self._event("response.output_text.delta", **place, logprobs=more)]

    def _call(self, event: AnswerCall) -> list[Json]:
        told: list[Json] = []
        if event.name is not None:
            told = self._begin(
                CALL,
                call_id=self._ids("call"),
                **self._called.get(event.name, {"name": event.name}),
            )
        if event.arguments:
            self._text += event.arguments
            place = {**self._place(), "delta": event.arguments}
            told.append(self._event("response.function_call_arguments.delta", **place))
        return told

    def _complete(self, event: AnswerCompleted) -> list[Json]:
        self._usage = event.usage
        is_cut = event.reason == "length"
        told: list[Json] = []
        if self._open is None:  # nothing was said: an answer, all the same
            told = self._begin(MESSAGE)
        told += self._close("incomplete" if is_cut else "completed")
        self._response = {
            **self._response,
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "completed_at": None if is_cut else int(self._now()),
            "output": self._output,
            "usage": usage(self._usage),
        }
        self._finished(self._response)
        kind = "response.incomplete" if is_cut else "response.completed"
        return [*told, self._event(kind, response=self._response)]

    # --- items -----------------------------------------------------------------------------------

    def _begin(self, kind: str, **fields: Any) -> list[Json]:
        """The next item, behind the end of the one before it."""
        told = self._close("completed")
        head = {"id": self._ids(PREFIXES[kind]), "type": kind, "status": "in_progress"}
        if kind == CALL:
            self._open = {**head, **fields, "arguments": ""}
        elif kind == REASONING:
            self._open = {**head, "summary": [], "content": []}
        else:
            self._open = {**head, "role": "assistant", "content": []}
        place = self._place()
        index = place["output_index"]
        added = self._event("response.output_item.added", output_index=index, item=self._open)
        told.append(added)
        if kind != CALL:
            part = {**place, "content_index": 0, "part": self._part()}
            told.append(self._event("response.content_part.added", **part))
        return told

    def _close(self, status: str) -> list[Json]:
        """The end of the open item, if there is one. A call that is cut off has no whole
        arguments, so nothing says that they are done."""
        if self._open is None:
            return []
        kind, place, told = self._open["type"], self._place(), list[Json]()
        if kind == CALL:
            done: Json = {"arguments": self._text}
            if status == "completed":
                whole = self._event("response.function_call_arguments.done", **place, **done)
                told.append({**whole, "name": self._open["name"]})
        else:
            part = self._part()
            place["content_index"] = 0
            done = {"content": [part]}
            text = {**place, "text": self._text}
            if kind == MESSAGE:
                text["logprobs"] = self._logprobs
            name = "output_text" if kind == MESSAGE else "reasoning_text"
            told.append(self._event(f"response.{name}.done", **text))
            told.append(self._event("response.content_part.done", **place, part=part))
        item = {**self._open, **done, "status": status}
        index = place["output_index"]
        told.append(self._event("response.output_item.done", output_index=index, item=item))
        self._output.append(item)
        self._open, self._text, self._logprobs = None, "", []
        return told

    def _part(self) -> Json:
        """The content of the open item so far."""
        assert self._open is not None
        if self._open["type"] == REASONING:
            return {"type": "reasoning_text", "text": self._text}
        text = {"type": "output_text", "text": self._text, "annotations": []}
        return {**text, "logprobs": self._logprobs}

    def _place(self) -> Json:
        assert self._open is not None
        return {"item_id": self._open["id"], "output_index": len(self._output)}

    def _event(self, kind: str, **fields: Any) -> Json:
        self._number += 1
        return {"type": kind, "sequence_number": self._number - 1, **fields}


def usage(counts: AnswerUsage) -> Json:
    """image_tokens and the like: of the input, as chat completions have them."""
    return {
        "input_tokens": counts.prompt,
        "input_tokens_details": {
            "cached_tokens": counts.cached,
            "cache_write_tokens": 0,  # of a cache that is paid for
            "audio_tokens": counts.audio,
            "image_tokens": counts.image,
            "video_tokens": counts.video,
        },
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.prompt + counts.output,
    }
