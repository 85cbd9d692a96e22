"""Answers as OpenAI's chat completion objects, whole or in chunks.

`reasoning_content` and the counts of video tokens are the extensions that vLLM's clients know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lookhear.engine.messages import (
    AnswerCall,
    AnswerCompleted,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    ChosenToken,
    ModelCard,
)
from lookhear.gateway.chat.answers import ChoiceEvent
from lookhear.gateway.chat.dialect import frame
from lookhear.gateway.chat.logprobs import logprobs_of
from lookhear.gateway.http.errors import ApiError, error_body

CHUNK = "chat.completion.chunk"


def heading(id: str, created: int, card: ModelCard) -> dict[str, Any]:
    """What every object about one request begins with; its kind is filled in later. created: Unix
    seconds. The fingerprint is the same as long as the same weights are served under that name."""
    weights = f"{card.id} {card.created} {card.parameters}"
    digest = hashlib.blake2b(weights.encode(), digest_size=5).hexdigest()
    return {
        "id": id,
        "object": "",
        "created": created,
        "model": card.id,
        "system_fingerprint": f"fp_{digest}",
    }


@dataclass(slots=True)
class _Choice:
    call_id: Callable[[], str]
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tokens: list[ChosenToken] | None = None
    usage: AnswerUsage = AnswerUsage()
    reason: str = "stop"
    calls: list[dict[str, Any]] = field(default_factory=list)

    def take(self, event: ChoiceEvent) -> None:
        """Add one more event of the choice."""
        match event:
            case AnswerStarted():
                self.usage = event.usage
            case AnswerText():
                (self.reasoning if event.is_reasoning else self.text).append(event.text)
                if event.tokens is not None and not event.is_reasoning:
                    self.tokens = self.tokens or []
                    self.tokens += event.tokens
            case AnswerCall(name=str()):
                self.calls.append(_call(event, self.call_id()))
            case AnswerCall():
                self.calls[event.index]["function"]["arguments"] += event.arguments
            case AnswerCompleted():
                self.usage, self.reason = event.usage, event.reason

    def on_wire(self, index: int) -> dict[str, Any]:
        text = "".join(self.text)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if self.calls:
            message |= {"content": text or None, "tool_calls": self.calls}
        if self.reasoning:
            message["reasoning_content"] = "".join(self.reasoning)
        return {
            "index": index,
            "message": message,
            "logprobs": logprobs(self.tokens),
            "finish_reason": self.reason,
        }


class Reply:
    """The answer to one request, whole or in chunks. call_id: a fresh one for every call."""

    def __init__(
        self,
        heading: dict[str, Any],
        choices: int,
        call_id: Callable[[], str],
        *,
        include_usage: bool,
    ) -> None:
        self._call_id = call_id
        self._heading = heading
        self._include_usage = include_usage
        self._usages = [AnswerUsage()] * choices
        self._begun: set[int] = set()

    def whole(self, events: Iterable[tuple[int, ChoiceEvent]]) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        parts = [_Choice(self._call_id) for _ in self._usages]
        for choice, event in events:
            parts[choice].take(event)
        return {
            **self._heading,
            "object": "chat.completion",
            "choices": [part.on_wire(index) for index, part in enumerate(parts)],
            "usage": usage([part.usage for part in parts]),
        }

    def of(self, choice: int, event: ChoiceEvent) -> list[str]:
        """What one event becomes. The first chunk of a choice has its role."""
        chunks = []
        if choice not in self._begun:
            self._begun.add(choice)
            chunks.append(self._chunk(choice, {"role": "assistant", "content": ""}))
        match event:
            case AnswerStarted():
                self._usages[choice] = event.usage
            case AnswerText():
                name = "reasoning_content" if event.is_reasoning else "content"
                tokens = None if event.is_reasoning else event.tokens
                if event.text or tokens:
                    chunks.append(self._chunk(choice, {name: event.text}, logprobs(tokens)))
            case AnswerCall(name=str()):
                call = {"index": event.index, **_call(event, self._call_id())}
                chunks.append(self._chunk(choice, {"tool_calls": [call]}))
            case AnswerCall():
                more = {"index": event.index, "function": {"arguments": event.arguments}}
                chunks.append(self._chunk(choice, {"tool_calls": [more]}))
            case AnswerCompleted():
                self._usages[choice] = event.usage
                chunks.append(self._chunk(choice, {}, reason=event.reason))
        return [frame(chunk) for chunk in chunks]

    def end(self) -> list[str]:
        """What follows when every choice is complete."""
        last = {**self._heading, "object": CHUNK, "choices": [], "usage": usage(self._usages)}
        return [*([frame(last)] if self._include_usage else []), "data: [DONE]\n\n"]

    def failed(self, error: ApiError) -> list[str]:
        """An event that is an error, as over HTTP."""
        return [frame(error_body(error.message, error.type, error.code, error.param))]

    def close(self) -> None:
        """Nothing of it is kept."""

    def _chunk(
        self,
        choice: int,
        delta: dict[str, Any],
        logprobs: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> dict[str, Any]:
        told = {"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        chunk = {**self._heading, "object": CHUNK, "choices": [told]}
        return {**chunk, "usage": None} if self._include_usage else chunk


def _call(event: AnswerCall, id: str) -> dict[str, Any]:
    """A call as it begins."""
    function = {"name": event.name, "arguments": event.arguments}
    return {"id": id, "type": "function", "function": function}


def usage(choices: Sequence[AnswerUsage]) -> dict[str, Any]:
    """The prompt counts once, however many answers there are to it. Recordings for a model that
    does not hear count as the text that was made of them."""
    prompt = max(each.prompt for each in choices)
    output = sum(each.output for each in choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {
            "cached_tokens": min(each.cached for each in choices),
            "audio_tokens": max(each.audio for each in choices),
            "image_tokens": max(each.image for each in choices),
            "video_tokens": max(each.video for each in choices),
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(each.reasoning for each in choices),
        },
    }


def logprobs(tokens: list[ChosenToken] | None) -> dict[str, Any] | None:
    """Of the tokens of a text, with the likeliest others of each place."""
    if tokens is None:
        return None
    return {"content": logprobs_of(tokens), "refusal": None}
