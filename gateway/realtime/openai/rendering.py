"""Session events as server events of the Realtime wire format, built as plain dicts.

The dialect adds `event_id`. Absent optional fields are left out (strict clients drop an event over
a stray null), except `previous_item_id` and the `transcript` of an audio part, which clients want
to see as null.
"""

from __future__ import annotations

from typing import Any, assert_never

from lookhear.engine.messages import Word
from lookhear.gateway.realtime.openai import objects
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.conversation import CallContent, Item
from lookhear.gateway.realtime.protocol.dialect import Json
from lookhear.gateway.realtime.protocol.events import SessionEvent

_TRANSCRIPTION = "conversation.item.input_audio_transcription"
EXTENSION = "lookhear.input_audio_transcription"

# Where the session sets what an engine's refusal of a turn may name.
_SETTINGS = {
    "language": "session.audio.input.transcription.language",
    "prompt": "session.audio.input.transcription.prompt",
    "model": "session.audio.input.transcription.model",
    "words": "session.lookhear.words",
    "logprobs": "session.include",
}


def server_events(event: SessionEvent) -> list[Json]:
    """The server events that tell it, in order, without their ids."""
    match event:
        case events.TranscriptDelta():
            logprobs = _logprobs(event)
            return [_transcript(f"{_TRANSCRIPTION}.delta", event, delta=event.text, **logprobs)]
        case events.TranscriptProvisional():
            return [_transcript(f"{EXTENSION}.provisional", event, text=event.text)]
        case events.SpeakersKnown():
            return []  # said of each turn: see `WhoSpeaks`
        case events.TranscriptWords():
            words = [_word(word) for word in event.words]
            return [_transcript(f"{EXTENSION}.words", event, words=words)]
        case events.TranscriptDone():
            return [_transcript_done(event)]
        case events.TranscriptFailed():
            return [_transcript_failed(event)]
        case events.SpeakingStarted(item, milliseconds):
            return [_speaking("started", item, "audio_start_ms", milliseconds)]
        case events.SpeakingStopped(item, milliseconds):
            return [_speaking("stopped", item, "audio_end_ms", milliseconds)]
        case events.TurnCommitted(item, previous):
            committed = {"item_id": item.id, "previous_item_id": previous}
            return [
                {"type": "input_audio_buffer.committed", **committed},
                *_added_and_done(item, previous),
            ]
        case events.NobodySpoke(item, previous, start_ms, end_ms):
            silence = {"audio_start_ms": start_ms, "audio_end_ms": end_ms, "item_id": item.id}
            committed = {"item_id": item.id, "previous_item_id": previous}
            return [
                {"type": "input_audio_buffer.timeout_triggered", **silence},
                {"type": "input_audio_buffer.committed", **committed},
                *_added_and_done(item, previous),
            ]
        case events.AudioCleared():
            return [{"type": "input_audio_buffer.cleared"}]
        case events.ItemAdded(item, previous):
            return _added_and_done(item, previous)
        case events.ItemRetrieved(item):
            return [{"type": "conversation.item.retrieved", "item": objects.item(item)}]
        case events.ItemDeleted(item_id):
            return [{"type": "conversation.item.deleted", "item_id": item_id}]
        case events.ItemTruncated(item_id, index, milliseconds):
            cut = {"item_id": item_id, "content_index": index, "audio_end_ms": milliseconds}
            return [{"type": "conversation.item.truncated", **cut}]
        case events.ResponseCreated(head):
            response = objects.response(head, "in_progress")
            return [{"type": "response.created", "response": response}]
        case events.OutputStarted():
            return _output_started(event)
        case events.OutputDelta(text=text, is_reasoning=is_reasoning):
            if (call := event.item.call) is not None:
                return [_of_call("delta", event, call, delta=text)]
            # Extension, only on request: the thinking is no part of the answer.
            name = "lookhear.response.reasoning" if is_reasoning else "response.output_text"
            return [{**_of_part(f"{name}.delta", event), "delta": text}]
        case events.OutputDone():
            return _output_done(event)
        case events.ResponseDone():
            return _response_done(event)
        case events.FrameKept(timestamp_ms, frames):
            kept = {"timestamp_ms": timestamp_ms, "frames": frames}
            return [{"type": "lookhear.input_video_frame.kept", **kept}]
        case events.EagerEnd(item, text=text):
            return [{"type": "lookhear.eager", "status": "end", "item_id": item, "text": text}]
        case events.EagerResumed(item):
            return [{"type": "lookhear.eager", "status": "resumed", "item_id": item}]
        case events.FramesCleared():
            return [{"type": "lookhear.input_video_frame.cleared"}]
        case events.SessionCreated(id, settings, expires_at, created_at, toys, resume):
            session = objects.session(settings, id, expires_at, toys, resume)
            if isinstance(event, events.SessionUpdated):
                return [{"type": "session.updated", "session": session}]
            # Clients of vLLM's wire look for these; they have not said yet who they are.
            about = {"id": id, "created": int(created_at)}
            return [{"type": "session.created", **about, "session": session}]
        case events.SessionResumed(messages, audio_bytes):
            taken = {"messages": messages, "audio_bytes": audio_bytes}
            return [{"type": "lookhear.session.resumed", **taken}]
        case events.Refused(problem) | events.SpeakersLost(problem):
            where = {"param": problem.param, "event_id": problem.event_id}
            return [{"type": "error", "error": {**objects.failure(problem), **where}}]
        case events.SessionFinished() | events.FellSilent() | events.AudioUnpacked():
            return []
        case events.GoingAway(seconds):
            return [{"type": "lookhear.going_away", "seconds": round(seconds, 3)}]
        case _:
            assert_never(event)


# --- speech --------------------------------------------------------------------------------------


def _speaking(what: str, item: str, field: str, milliseconds: int) -> Json:
    return {"type": f"input_audio_buffer.speech_{what}", "item_id": item, field: milliseconds}


def _transcript(type: str, event: events.TranscriptEvent, **fields: Any) -> Json:
    return {"type": type, "item_id": event.item, "content_index": event.part, **fields}


def _logprobs(event: events.TranscriptDelta | events.TranscriptDone) -> Json:
    return {} if event.logprobs is None else {"logprobs": objects.logprobs(event.logprobs)}


def _word(word: Word) -> Json:
    return {
        "word": word.word,
        "start": round(word.start, 3),
        "end": round(word.end, 3),
        "probability": round(word.probability, 4),
    }


def _transcript_done(event: events.TranscriptDone) -> Json:
    told: Json = {
        "transcript": event.text,
        "usage": {"type": "duration", "seconds": round(event.seconds, 3)},
    }
    if event.language is not None:
        told["languages"] = [{"code": event.language}]
    return _transcript(f"{_TRANSCRIPTION}.completed", event, **told, **_logprobs(event))


def _transcript_failed(event: events.TranscriptFailed) -> Json:
    error = objects.failure(event.problem)
    if event.problem.param is not None:
        error["param"] = _SETTINGS[event.problem.param]
    return _transcript(f"{_TRANSCRIPTION}.failed", event, error=error)


# --- items and responses -------------------------------------------------------------------------


def _of_item(what: str, item: Item, previous: str | None) -> Json:
    return {
        "type": f"conversation.item.{what}",
        "item": objects.item(item),
        "previous_item_id": previous,
    }


def _added_and_done(item: Item, previous: str | None) -> list[Json]:
    return [_of_item("added", item, previous), _of_item("done", item, previous)]


def _of_output(what: str, event: events.ResponseOutput) -> Json:
    return {
        "type": f"response.output_item.{what}",
        "response_id": event.head.id,
        "output_index": event.index,
        "item": objects.item(event.item),
    }


def _of_part(type: str, event: events.ResponseOutput) -> Json:
    """A message has one part."""
    return {
        "type": type,
        "response_id": event.head.id,
        "item_id": event.item.id,
        "output_index": event.index,
        "content_index": 0,
    }


def _of_call(what: str, event: events.ResponseOutput, call: CallContent, **fields: str) -> Json:
    return {
        "type": f"response.function_call_arguments.{what}",
        "response_id": event.head.id,
        "item_id": event.item.id,
        "output_index": event.index,
        "call_id": call.call_id,
        **fields,
    }


def _output_started(event: events.OutputStarted) -> list[Json]:
    out = [_of_output("added", event)]
    if event.head.conversation is not None:
        out.append(_of_item("added", event.item, event.previous))
    if event.item.call is not None:
        return out
    part = _of_part("response.content_part.added", event)
    return [*out, {**part, "part": {"type": "text", "text": ""}}]


def _output_done(event: events.OutputDone) -> list[Json]:
    """All that was opened is closed first. Arguments that are cut off are not said to be done:
    there are clients that would call with them."""
    out: list[Json] = []
    item, call = event.item, event.item.call
    if call is None:
        text = item.text
        out.append({**_of_part("response.output_text.done", event), "text": text})
        part = _of_part("response.content_part.done", event)
        out.append({**part, "part": {"type": "text", "text": text}})
    elif item.status == "completed":
        out.append(_of_call("done", event, call, name=call.name, arguments=call.arguments))
    if event.is_there:
        out.append(_of_item("done", item, event.previous))
    return [*out, _of_output("done", event)]


def _response_done(event: events.ResponseDone) -> list[Json]:
    said = [objects.item(item) for item in event.items]
    response = objects.response(event.head, event.status, said)
    response["status_details"] = objects.status_details(event)
    response["usage"] = objects.usage(event.usage)
    return [{"type": "response.done", "response": response}]
