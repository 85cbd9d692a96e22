"""One answer of a realtime session, from the server's events to the client's."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from lookhear.chat.answers import AnswerCompleted, AnswerDelta, AnswerEvent, ReasoningDelta, Usage
from lookhear.errors import LookhearError, ServerError, server_error

_MAX_EVENTS = 1000  # that wait to be taken one by one
# As chat completions call them.
_FINISH_REASONS = {"max_output_tokens": "length"}


class Response:
    """Told the server's events by `take`; yields what they mean by `next`.

    done: nothing about it will follow. ended: the server said so itself. item_id: what the
    conversation calls it. text: so far.
    """

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.ended = False
        self.item_id: str | None = None
        self.text = ""
        self._id: str | None = None
        self._reasoning = ""
        self._events: deque[AnswerEvent | LookhearError | None] = deque()  # not taken yet
        self._news = asyncio.Event()  # set while there are any

    def take(self, message: Mapping[str, Any]) -> None:
        """Events of other responses mean nothing."""
        match message["type"]:
            case "response.created" if self._id is None:
                self._id = message["response"]["id"]
            case "response.output_item.added" if message["response_id"] == self._id:
                self.item_id = message["item"]["id"]
            case "response.output_text.delta" if message["response_id"] == self._id:
                self.text += message["delta"]
                self._put(AnswerDelta(message["delta"]))
            case "lookhear.response.reasoning.delta" if message["response_id"] == self._id:
                self._reasoning += message["delta"]
                self._put(ReasoningDelta(message["delta"]))
            case "response.done" if message["response"]["id"] == self._id:
                self.ended = True
                self._end(self._outcome(message["response"]))

    def fail(self, error: LookhearError) -> None:
        """It was refused, or the connection is gone."""
        if not self.done.is_set():
            self._end(error)

    async def next(self) -> AnswerEvent | None:
        """None after the end. Raises what it failed with."""
        await self._news.wait()
        event = self._events.popleft()
        if not self._events:
            self._news.clear()
        if isinstance(event, LookhearError):
            raise event
        return event

    def _put(self, event: AnswerEvent | LookhearError | None) -> None:
        """Where too many wait, deltas are joined: nothing is lost, and the text is the bound."""
        last = self._events[-1] if len(self._events) >= _MAX_EVENTS else None
        if isinstance(event, AnswerDelta) and isinstance(last, AnswerDelta):
            self._events[-1] = AnswerDelta(last.text + event.text)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            self._events[-1] = ReasoningDelta(last.text + event.text)
        else:
            self._events.append(event)
        self._news.set()

    def _outcome(self, response: Mapping[str, Any]) -> AnswerCompleted | ServerError:
        status = response["status"]
        details = response.get("status_details") or {}
        if status == "failed":
            return server_error(details.get("error") or {}, fallback="the answer failed")
        reason = {"completed": "stop", "cancelled": "cancelled"}.get(status)
        if reason is None:
            said = str(details.get("reason") or status)
            reason = _FINISH_REASONS.get(said, said)
        usage = response.get("usage")
        counted = None if usage is None else Usage.from_json(usage)
        return AnswerCompleted(self.text, reason, self._reasoning, counted)

    def _end(self, outcome: AnswerCompleted | LookhearError) -> None:
        self._put(outcome)
        self._put(None)
        self.done.set()
