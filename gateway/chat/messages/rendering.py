"""An answer as Anthropic's message: the events of its stream, which also make it up when it is
whole. Thinking is a block of its own, without a signature; each call is a block."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

from pydantic_core import from_json

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
from lookhear.gateway.chat.messages.errors import error_of
from lookhear.gateway.http.errors import ApiError

TEXT, THINKING, CALL = "text", "thinking", "tool_use"
FULL = "model_context_window_exceeded"
REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class Reply:
    """One message. ids: makes a fresh id of a prefix. most: tokens that its client allows."""

    def __init__(self, card: ModelCard, ids: Callable[[str], str], most: int | None = None) -> None:
        self._ids = ids
        self._most = most or 0
        self._context = card.context_tokens
        self._message: Json = {
            "id": ids("msg"),
            "type": "message",
            "role": "assistant",
            "model": card.id,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage(AnswerUsage()),
        }
        self._open: Json | None = None  # the block that is being said
        self._said = ""  # of it, or its arguments

    def whole(self, events: Iterable[tuple[int, ChoiceEvent]]) -> Json:
        """The message, from all that was said."""
        for _, event in events:
            self._take(event)
        return self._message

    def of(self, choice: int, event: ChoiceEvent) -> list[str]:
        """What one event becomes. There is one choice."""
        return [frame(told, told["type"]) for told in self._take(event)]

    def end(self) -> list[str]:
        """The last event said all."""
        return [frame({"type": "message_stop"}, "message_stop")]

    def failed(self, error: ApiError) -> list[str]:
        """An event that is an error, as over HTTP."""
        return [frame({"type": "error", "error": error_of(error.message, error.status)}, "error")]

    def close(self) -> None:
        """Nothing of it is kept."""

    def _take(self, event: ChoiceEvent) -> list[Json]:
        match event:
            case AnswerStarted():
                self._message["usage"] = usage(event.usage)
                begun = {**self._message, "content": []}
                return [{"type": "message_start", "message": begun}, {"type": "ping"}]
            case AnswerText():
                return self._text(event) if event.text else []
            case AnswerCall(name=str() as name):
                head = {"type": CALL, "id": self._ids("toolu"), "name": name, "input": {}}
                return [*self._begin(head), *self._more(event.arguments)]
            case AnswerCall():
                return self._more(event.arguments)
            case AnswerCompleted():
                return self._complete(event)

    def _text(self, event: AnswerText) -> list[Json]:
        kind = THINKING if event.is_reasoning else TEXT
        told = []
        if self._open is None or self._open["type"] != kind:
            # No "citations": where there are none Anthropic sends no field, and its clients' models
            # take it for a list.
            more = {"signature": ""} if event.is_reasoning else {}
            told = self._begin({"type": kind, kind: "", **more})
        return [*told, *self._more(event.text)]

    def _more(self, text: str) -> list[Json]:
        assert self._open is not None
        if not text:
            return []
        self._said += text
        match self._open["type"]:
            case "text":
                delta = {"type": "text_delta", "text": text}
            case "thinking":
                delta = {"type": "thinking_delta", "thinking": text}
            case _:
                delta = {"type": "input_json_delta", "partial_json": text}
        return [{"type": "content_block_delta", "index": self._index, "delta": delta}]

    @property
    def _index(self) -> int:
        return len(self._message["content"])

    def _begin(self, block: Json) -> list[Json]:
        told = self._close()
        self._open = block
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return [*told, start]

    def _close(self) -> list[Json]:
        """The end of the open block. Of arguments that are cut off what can be read of them is the
        input, as the clients of a stream have it."""
        if self._open is None:
            return []
        kind, told = self._open["type"], {"type": "content_block_stop", "index": self._index}
        if kind == CALL:
            block = {**self._open, "input": _input(self._said)}
        else:
            block = {**self._open, kind: self._said}
        self._message["content"].append(block)
        self._open, self._said = None, ""
        return [told]

    def _complete(self, event: AnswerCompleted) -> list[Json]:
        told = self._close()
        reason, sequence = REASONS[event.reason], event.stop_text
        if sequence is not None and reason == "end_turn":
            reason = "stop_sequence"
        if reason == "max_tokens" and event.usage.prompt + self._most > self._context:
            reason = FULL  # it was cut off by the context before that
        end = {"stop_reason": reason, "stop_sequence": sequence}
        self._message |= {**end, "usage": usage(event.usage)}
        return [*told, {"type": "message_delta", "delta": end, "usage": self._message["usage"]}]


def _input(said: str) -> Json:
    """Arguments, as far as they can be read."""
    try:
        read = from_json(said, allow_partial=True)
    except ValueError:  # nothing yet, or what JSON allows and Python has no room for
        return {}
    return _finite(read) if isinstance(read, dict) else {}


def _finite(value: Any) -> Any:
    """Numbers of JSON may be as large as they like; those that no float holds are read as
    infinity, which nobody may write."""
    match value:
        case float() if not math.isfinite(value):
            return math.copysign(sys.float_info.max, value)
        case list():
            return [_finite(entry) for entry in value]
        case dict():
            return {name: _finite(entry) for name, entry in value.items()}
    return value


def usage(counts: AnswerUsage) -> Json:
    """input_tokens: those of the prompt that were not found in the cache."""
    return {
        "input_tokens": counts.prompt - counts.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.output,
        "output_tokens_details": {"thinking_tokens": counts.reasoning},
    }
