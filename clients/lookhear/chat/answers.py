"""Answers while they come: their text, or all that is told about them as typed events.

    async for text in answer: ...          # text alone
    async for event in answer.events(): ... # also reasoning, and how it ended
    whole = await answer.read()            # when it is done

Per answer, in order: `ReasoningDelta` and `AnswerDelta` as they come, then one `AnswerCompleted`.
Joined deltas equal its `text` and `reasoning`. A failure is an exception instead. When the
connection of a conversation breaks in mid-answer, `AnswerRestarted` says that all deltas before it
are void.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from lookhear.errors import ConnectionFailed, ProtocolError


@dataclass(frozen=True, slots=True)
class QuestionHeard:
    """The transcript of a question that was spoken."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """Text that follows all earlier deltas of the answer and is never taken back."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """What the model thought before it answered; only some models think aloud."""

    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. cached and image are those of the prompt that were found in the server's cache, and
    those that stand for pictures."""

    prompt: int
    output: int
    cached: int = 0
    image: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        """From `usage` of a chat completion, or of a realtime response, which has other names."""
        details = data.get("prompt_tokens_details") or data.get("input_token_details") or {}
        is_chat = "prompt_tokens" in data
        return cls(
            prompt=int(data["prompt_tokens" if is_chat else "input_tokens"]),
            output=int(data["completion_tokens" if is_chat else "output_tokens"]),
            cached=int(details.get("cached_tokens") or 0),
            image=int(details.get("image_tokens") or 0),
        )


@dataclass(frozen=True, slots=True)
class AnswerCompleted:
    """The whole answer. finish_reason: "stop", "length" (cut off), "cancelled", "content_filter",
    or what else the server says. usage: None if it did not say."""

    text: str
    finish_reason: str
    reasoning: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class AnswerRestarted:
    """The connection was lost; it is made anew and the question asked again. What was answered so
    far is void."""

    reason: str


AnswerEvent = AnswerDelta | ReasoningDelta | AnswerRestarted | AnswerCompleted


class Answer(AsyncIterator[str]):
    """One answer. Nothing is asked before it is first iterated; closing it early cancels it.

    completed: how it ended, None before.

    Iterated as text, an answer that began again after a lost connection goes on where it was; if it
    turns out differently this time, that is `ConnectionFailed`.
    """

    def __init__(self, events: AsyncGenerator[AnswerEvent, None]) -> None:
        self._events = events
        self._told = ""  # the deltas given out since it began
        self._void = ""  # those of before that the answer must repeat
        self.completed: AnswerCompleted | None = None

    async def next_event(self) -> AnswerEvent | None:
        """What is told next; None after the end."""
        event = await anext(self._events, None)
        match event:
            case AnswerDelta():
                self._told += event.text
            case AnswerRestarted():
                self._void, self._told = max(self._told, self._void, key=len), ""
            case AnswerCompleted():
                self.completed = event
        return event

    async def events(self) -> AsyncGenerator[AnswerEvent, None]:
        """All that is told about the answer. Closing this generator does not cancel the answer."""
        while (event := await self.next_event()) is not None:
            yield event

    async def __anext__(self) -> str:
        while (event := await self.next_event()) is not None:
            if isinstance(event, AnswerDelta) and (text := self._new(event.text)):
                return text
            if isinstance(event, AnswerCompleted) and not self._told.startswith(self._void):
                self._went_differently()
        raise StopAsyncIteration

    def _new(self, delta: str) -> str:
        """What of the newest delta was not given out before the connection was lost."""
        before = len(self._told) - len(delta)
        if not self._void.startswith(self._told[: len(self._void)]):
            self._went_differently()
        return delta[max(0, len(self._void) - before) :]

    def _went_differently(self) -> None:
        raise ConnectionFailed(
            "the connection was lost in mid-answer, and asked again the model answers differently: "
            f"{self._void!r} became {self._told!r}. `events()` and `read()` follow such answers"
        )

    async def read(self) -> AnswerCompleted:
        """Wait for the end."""
        while await self.next_event() is not None:
            pass
        if self.completed is None:
            raise ProtocolError("the answer was closed before it was complete")
        return self.completed

    async def aclose(self) -> None:
        """Cancel it if it still runs. No text comes afterwards."""
        await self._events.aclose()

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
