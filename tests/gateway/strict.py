"""Every server frame against the openai package's own models, as its strict clients do it."""

from __future__ import annotations

import json
from typing import Annotated, Any, get_args

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.realtime import realtime_server_event
from pydantic import Field, TypeAdapter

PRIVATE = "lookhear."


def _adapter() -> TypeAdapter[Any]:
    union: Any = get_args(realtime_server_event.RealtimeServerEvent)[0]
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[union, Field(discriminator="type")])
    return adapter


ADAPTER = _adapter()


def check(event: dict[str, Any]) -> dict[str, Any]:
    """The event, if it is valid; raises pydantic.ValidationError otherwise."""
    assert isinstance(event.get("event_id"), str)
    if event["type"].startswith(PRIVATE):
        return event
    if event["type"].startswith("session."):
        event = _at_24_khz(event)
        is_realtime = event["session"]["type"] == "realtime"
        name = "realtime.session" if is_realtime else "realtime.transcription_session"
        assert event["session"]["object"] == name
    ADAPTER.validate_python(event, strict=True)
    if event["type"].endswith(".completed"):
        assert event["usage"]["type"] == "duration" and event["content_index"] >= 0
    return event


def _at_24_khz(event: dict[str, Any]) -> dict[str, Any]:
    """Other PCM rates are an extension that only who asks for them sees; the models know 24000."""
    audio = event["session"]["audio"]["input"]
    if audio["format"]["type"] != "audio/pcm":
        return event
    audio = {**audio, "format": {"type": "audio/pcm", "rate": 24000}}
    return {**event, "session": {**event["session"], "audio": {"input": audio}}}


def check_completion(body: dict[str, Any]) -> ChatCompletion:
    """A chat completion that is not streamed. Raises pydantic.ValidationError."""
    completion = ChatCompletion.model_validate(body, strict=True)
    assert [choice.index for choice in completion.choices] == list(range(len(completion.choices)))
    assert completion.usage is not None
    assert completion.usage.total_tokens == (
        completion.usage.prompt_tokens + completion.usage.completion_tokens
    )
    return completion


def check_chunks(frames: list[str], *, usage: bool = False) -> list[ChatCompletionChunk]:
    """The `data:` of all events of a streamed chat completion, [DONE] among them.

    The same head in all; per choice the role first and the reason once, last; usage in a chunk of
    its own before the end, if it was asked for, and null before it.
    """
    assert frames[-1] == "[DONE]"
    bodies: list[dict[str, Any]] = [json.loads(frame) for frame in frames[:-1]]
    chunks = [ChatCompletionChunk.model_validate(body, strict=True) for body in bodies]
    assert len({(c.id, c.created, c.model, c.system_fingerprint) for c in chunks}) == 1
    ended: set[int] = set()
    begun: set[int] = set()
    for chunk, body in zip(chunks[: len(chunks) - usage], bodies, strict=False):
        (choice,) = chunk.choices
        assert choice.index not in ended
        assert (choice.delta.role == "assistant") is (choice.index not in begun)
        begun.add(choice.index)
        if choice.finish_reason is not None:
            ended.add(choice.index)
        assert ("usage" in body) is usage and chunk.usage is None
    assert begun == ended == set(range(len(begun)))
    if usage:
        assert chunks[-1].choices == [] and chunks[-1].usage is not None
    return chunks
