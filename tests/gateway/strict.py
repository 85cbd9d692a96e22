"""Every server frame against the openai package's own models, as its strict clients do it."""

from __future__ import annotations

from typing import Annotated, Any, get_args

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
        assert event["session"]["object"] == "realtime.transcription_session"
    ADAPTER.validate_python(event, strict=True)
    if event["type"].endswith(".completed"):
        assert event["usage"]["type"] == "duration" and event["content_index"] == 0
    return event


def _at_24_khz(event: dict[str, Any]) -> dict[str, Any]:
    """Other PCM rates are an extension that only who asks for them sees; the models know 24000."""
    audio = event["session"]["audio"]["input"]
    if audio["format"]["type"] != "audio/pcm":
        return event
    audio = {**audio, "format": {"type": "audio/pcm", "rate": 24000}}
    return {**event, "session": {**event["session"], "audio": {"input": audio}}}
