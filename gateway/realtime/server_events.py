"""Server events of the Realtime wire format, built as plain dicts.

The protocol adds `event_id`. Absent optional fields are left out (strict clients drop an event over
a stray null), except `previous_item_id` and the `transcript` of an audio part, which clients want
to see as null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.messages import TokenLogprob, Word
from gateway.realtime.events import ProtocolError

Json = dict[str, Any]

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


def session_created(session: Json) -> Json:
    return {"type": "session.created", "session": session}


def session_updated(session: Json) -> Json:
    return {"type": "session.updated", "session": session}


def error(problem: ProtocolError) -> Json:
    return {
        "type": "error",
        "error": {
            "type": problem.type,
            "code": problem.code,
            "message": problem.message,
            "param": problem.param,
            "event_id": problem.event_id,
        },
    }


def speech_started(item_id: str, audio_start_ms: int) -> Json:
    return {
        "type": "input_audio_buffer.speech_started",
        "item_id": item_id,
        "audio_start_ms": audio_start_ms,
    }


def speech_stopped(item_id: str, audio_end_ms: int) -> Json:
    return {
        "type": "input_audio_buffer.speech_stopped",
        "item_id": item_id,
        "audio_end_ms": audio_end_ms,
    }


def committed(item_id: str, previous_item_id: str | None) -> Json:
    return {
        "type": "input_audio_buffer.committed",
        "item_id": item_id,
        "previous_item_id": previous_item_id,
    }


def cleared() -> Json:
    return {"type": "input_audio_buffer.cleared"}


def item_added(item: Json, previous_item_id: str | None) -> Json:
    return {"type": "conversation.item.added", "item": item, "previous_item_id": previous_item_id}


def item_done(item: Json, previous_item_id: str | None) -> Json:
    return {"type": "conversation.item.done", "item": item, "previous_item_id": previous_item_id}


def item_retrieved(item: Json) -> Json:
    return {"type": "conversation.item.retrieved", "item": item}


def item_deleted(item_id: str) -> Json:
    return {"type": "conversation.item.deleted", "item_id": item_id}


def _logprobs(logprobs: Sequence[TokenLogprob]) -> list[Json]:
    return [{"token": p.token, "logprob": p.logprob, "bytes": list(p.bytes)} for p in logprobs]


def transcription_delta(item_id: str, delta: str, logprobs: Sequence[TokenLogprob] | None) -> Json:
    event = {
        "type": f"{_TRANSCRIPTION}.delta",
        "item_id": item_id,
        "content_index": 0,
        "delta": delta,
    }
    return event if logprobs is None else {**event, "logprobs": _logprobs(logprobs)}


def transcription_completed(
    item_id: str,
    transcript: str,
    seconds: float,
    language: str | None,
    logprobs: Sequence[TokenLogprob] | None,
) -> Json:
    event: Json = {
        "type": f"{_TRANSCRIPTION}.completed",
        "item_id": item_id,
        "content_index": 0,
        "transcript": transcript,
        "usage": {"type": "duration", "seconds": round(seconds, 3)},
    }
    if language is not None:
        event["languages"] = [{"code": language}]
    if logprobs is not None:
        event["logprobs"] = _logprobs(logprobs)
    return event


def transcription_failed(item_id: str, problem: ProtocolError) -> Json:
    error = {"type": problem.type, "code": problem.code, "message": problem.message}
    if problem.param is not None:
        error["param"] = problem.param
    return {
        "type": f"{_TRANSCRIPTION}.failed",
        "item_id": item_id,
        "content_index": 0,
        "error": error,
    }


def provisional(item_id: str, text: str) -> Json:
    """Extension, only on request: text that may still change; replaces the last provisional."""
    return {
        "type": "lookhear.input_audio_transcription.provisional",
        "item_id": item_id,
        "content_index": 0,
        "text": text,
    }


def words(item_id: str, words: Sequence[Word]) -> Json:
    """Extension, only on request: word times in seconds from the start of the item's audio."""
    return {
        "type": "lookhear.input_audio_transcription.words",
        "item_id": item_id,
        "content_index": 0,
        "words": [
            {"word": w.word, "start": w.start, "end": w.end, "probability": w.probability}
            for w in words
        ],
    }
