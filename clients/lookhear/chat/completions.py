"""Chat over HTTP: a question, perhaps about pictures, and its answer as it is written."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lookhear.chat.answers import AnswerCompleted, AnswerDelta, AnswerEvent, ReasoningDelta, Usage
from lookhear.errors import ConnectionFailed, ProtocolError, server_error
from lookhear.transport.address import Server
from lookhear.transport.realtime import without_none
from lookhear.transport.sse import post_events


async def chat_events(
    server: Server,
    messages: Callable[[], list[dict[str, Any]]],
    settings: Mapping[str, Any],
    timeout: float | None = 600.0,
) -> AsyncGenerator[AnswerEvent, None]:
    """Ask, and yield the answer.

    messages: all so far, in the OpenAI format; called in a thread, as it may read files. settings:
    fields of the request, those that are None are left out. timeout: seconds that the server may
    be silent.

    SourceError, ServerError and its kinds, ConnectionFailed, ProtocolError.
    """
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    said = await asyncio.to_thread(messages)
    body = {"messages": said, **without_none(**settings), **stream}
    written = _PartialAnswer()
    frames = post_events(server, "/v1/chat/completions", body, timeout)
    async with contextlib.aclosing(frames):
        async for frame in frames:
            if frame == "[DONE]":
                break
            for event in written.take(frame):
                yield event
    if written.finish_reason is None:
        raise ConnectionFailed(f"{server.base_url} broke off in the middle of the answer")
    yield written.completed(written.finish_reason)


@dataclass(slots=True)
class _PartialAnswer:
    """What has been told about the first choice so far."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None

    def take(self, frame: str) -> list[AnswerDelta | ReasoningDelta]:
        """One chunk. ServerError if it is an error, ProtocolError if it is not a chunk."""
        try:
            chunk = json.loads(frame)
            if (error := chunk.get("error")) is not None:
                raise server_error(error)
            return self._take(chunk)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProtocolError(f"the answer is not well formed: {frame[:80]!r}") from error

    def _take(self, chunk: Mapping[str, Any]) -> list[AnswerDelta | ReasoningDelta]:
        events: list[AnswerDelta | ReasoningDelta] = []
        if (usage := chunk.get("usage")) is not None:
            self.usage = Usage.from_json(usage)
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) != 0:
                continue
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            delta = choice.get("delta") or {}
            if thought := delta.get("reasoning_content"):
                self.reasoning += thought
                events.append(ReasoningDelta(thought))
            if text := delta.get("content"):
                self.text += text
                events.append(AnswerDelta(text))
        return events

    def completed(self, finish_reason: str) -> AnswerCompleted:
        return AnswerCompleted(self.text, finish_reason, self.reasoning, self.usage)
