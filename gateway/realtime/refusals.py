"""The errors of a session in words: what was expected, what came."""

from __future__ import annotations

from engine.messages import EngineFailed, TurnFailed
from gateway.realtime.events import (
    Commit,
    Conversational,
    ItemDelete,
    ItemRetrieve,
    ProtocolError,
    shown,
)


def conversational(event: Conversational) -> ProtocolError:
    if event.type == "response.cancel":  # clients look for this code and these first words
        return ProtocolError(
            "Cancellation failed: no active response found; transcription sessions do not respond",
            code="response_cancel_not_active",
            param="type",
            event_id=event.event_id,
        )
    return ProtocolError(
        f"type: expected an event of a transcription session, got {shown(event.type)}; "
        "transcription sessions do not respond and take no items",
        code="unsupported_event",
        param="type",
        event_id=event.event_id,
    )


def no_item(event: ItemRetrieve | ItemDelete) -> ProtocolError:
    return ProtocolError(
        f"item_id: expected the id of an item of this session, got {shown(event.item_id)}",
        code="item_not_found",
        param="item_id",
        event_id=event.event_id,
    )


def empty_commit(event: Commit) -> ProtocolError:
    return ProtocolError(
        "input_audio_buffer: expected audio to commit, got none since the session began or the "
        "last commit or clear",
        code="input_audio_buffer_commit_empty",
        param="input_audio_buffer",
        event_id=event.event_id,
    )


def too_long(seconds: float, event_id: str | None) -> ProtocolError:
    return ProtocolError(
        f"audio: expected at most {seconds:g} seconds between two commits, got more; what came "
        "before is kept, what follows is dropped until a commit or clear",
        code="input_audio_buffer_full",
        param="audio",
        event_id=event_id,
    )


def engine_stopped(event: EngineFailed) -> ProtocolError:
    return ProtocolError(
        f"the engine stopped: {event.message}; connect again",
        code=event.code,
        type="server_error",
    )


def is_clients_fault(code: str) -> bool:
    """Whether an engine refused with this code what was asked, rather than failed at it."""
    return code.startswith(("invalid_", "unsupported_")) or code.endswith("_too_long")


# Where the session sets what an engine's refusal of a turn may name.
_SETTINGS = {
    "language": "session.audio.input.transcription.language",
    "prompt": "session.audio.input.transcription.prompt",
    "model": "session.audio.input.transcription.model",
    "words": "session.lookhear.words",
    "logprobs": "session.include",
}


def turn_refused(event: TurnFailed) -> ProtocolError:
    """The engine did not transcribe a turn. Its message begins with the setting to blame, if one
    is: what this model cannot do."""
    blamed = _SETTINGS.get(event.message.partition(":")[0])
    is_mine = is_clients_fault(event.code)
    return ProtocolError(
        event.message,
        code=event.code,
        type="invalid_request_error" if is_mine else "transcription_error",
        param=blamed if is_mine else None,
    )


def binary_frame(size: int) -> ProtocolError:
    return ProtocolError(
        f"frame: expected a text frame with a JSON event, got a binary frame of {size} bytes; "
        "send audio as base64 in input_audio_buffer.append",
        code="invalid_frame",
        param="frame",
    )
