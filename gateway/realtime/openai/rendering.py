"""Server events of the Realtime wire format, built as plain dicts.

The protocol adds `event_id`. Absent optional fields are left out (strict clients drop an event over
a stray null), except `previous_item_id` and the `transcript` of an audio part, which clients want
to see as null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lookhear.engine.messages import AnswerUsage, TokenLogprob, Word
from lookhear.gateway.checks.checks import ProtocolError

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


def transcription_delta(
    item_id: str, content_index: int, delta: str, logprobs: Sequence[TokenLogprob] | None
) -> Json:
    event = {
        "type": f"{_TRANSCRIPTION}.delta",
        "item_id": item_id,
        "content_index": content_index,
        "delta": delta,
    }
    return event if logprobs is None else {**event, "logprobs": _logprobs(logprobs)}


def transcription_completed(
    item_id: str,
    content_index: int,
    transcript: str,
    seconds: float,
    language: str | None,
    logprobs: Sequence[TokenLogprob] | None,
) -> Json:
    event: Json = {
        "type": f"{_TRANSCRIPTION}.completed",
        "item_id": item_id,
        "content_index": content_index,
        "transcript": transcript,
        "usage": {"type": "duration", "seconds": round(seconds, 3)},
    }
    if language is not None:
        event["languages"] = [{"code": language}]
    if logprobs is not None:
        event["logprobs"] = _logprobs(logprobs)
    return event


def transcription_failed(item_id: str, content_index: int, problem: ProtocolError) -> Json:
    error = {"type": problem.type, "code": problem.code, "message": problem.message}
    if problem.param is not None:
        error["param"] = problem.param
    return {
        "type": f"{_TRANSCRIPTION}.failed",
        "item_id": item_id,
        "content_index": content_index,
        "error": error,
    }


def provisional(item_id: str, content_index: int, text: str) -> Json:
    """Extension, only on request: text that may still change; replaces the last provisional."""
    return {
        "type": "lookhear.input_audio_transcription.provisional",
        "item_id": item_id,
        "content_index": content_index,
        "text": text,
    }


def words(item_id: str, content_index: int, words: Sequence[Word]) -> Json:
    """Extension, only on request: word times in seconds from the start of the item's audio."""
    return {
        "type": "lookhear.input_audio_transcription.words",
        "item_id": item_id,
        "content_index": content_index,
        "words": [
            {
                "word": w.word,
                "start": round(w.start, 3),
                "end": round(w.end, 3),
                "probability": round(w.probability, 4),
            }
            for w in words
        ],
    }


# --- responses -----------------------------------------------------------------------------------


def response_created(response: Json) -> Json:
    return {"type": "response.created", "response": response}


def response_done(response: Json) -> Json:
    return {"type": "response.done", "response": response}


def output_item_added(response_id: str, item: Json) -> Json:
    return {
        "type": "response.output_item.added",
        "response_id": response_id,
        "output_index": 0,
        "item": item,
    }


def output_item_done(response_id: str, item: Json) -> Json:
    return {**output_item_added(response_id, item), "type": "response.output_item.done"}


def _of_part(type: str, response_id: str, item_id: str) -> Json:
    """A response has one item, the item one part."""
    return {
        "type": type,
        "response_id": response_id,
        "item_id": item_id,
        "output_index": 0,
        "content_index": 0,
    }


def content_part_added(response_id: str, item_id: str) -> Json:
    event = _of_part("response.content_part.added", response_id, item_id)
    return {**event, "part": {"type": "text", "text": ""}}


def content_part_done(response_id: str, item_id: str, text: str) -> Json:
    event = _of_part("response.content_part.done", response_id, item_id)
    return {**event, "part": {"type": "text", "text": text}}


def output_text_delta(response_id: str, item_id: str, delta: str) -> Json:
    return {**_of_part("response.output_text.delta", response_id, item_id), "delta": delta}


def output_text_done(response_id: str, item_id: str, text: str) -> Json:
    return {**_of_part("response.output_text.done", response_id, item_id), "text": text}


def reasoning_delta(response_id: str, item_id: str, delta: str) -> Json:
    """Extension, only on request: the model's thinking, which is not part of its answer."""
    return {**_of_part("lookhear.response.reasoning.delta", response_id, item_id), "delta": delta}


def status_details(status: str, reason: str | None, problem: ProtocolError | None) -> Json:
    details: Json = {"type": status}
    if reason is not None:
        details["reason"] = reason
    if problem is not None:
        details["error"] = {
            "type": problem.type,
            "code": problem.code,
            "message": problem.message,
        }
    return details


def usage(usage: AnswerUsage) -> Json:
    """Tokens; frames of videos are counted with the images."""
    seen = usage.image + usage.video
    return {
        "total_tokens": usage.prompt + usage.output,
        "input_tokens": usage.prompt,
        "output_tokens": usage.output,
        "input_token_details": {
            "text_tokens": usage.prompt - seen,
            "audio_tokens": 0,
            "image_tokens": seen,
            "cached_tokens": usage.cached,
        },
        "output_token_details": {"text_tokens": usage.output, "audio_tokens": 0},
    }


def frame_kept(timestamp_ms: int, frames: int) -> Json:
    """Extension, only on request: the frame differed enough; `frames` are held now."""
    return {
        "type": "lookhear.input_video_frame.kept",
        "timestamp_ms": timestamp_ms,
        "frames": frames,
    }


def frames_cleared() -> Json:
    """Extension: the answer to `lookhear.input_video_frame.clear`."""
    return {"type": "lookhear.input_video_frame.cleared"}
