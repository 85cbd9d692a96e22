"""The errors of a session in words: what was expected, what came."""

from __future__ import annotations

from lookhear.engine.messages import EngineFailed, TurnFailed
from lookhear.gateway.checks.checks import ProtocolError, is_clients_fault, shown
from lookhear.gateway.realtime.protocol.commands import (
    CancelResponse,
    Command,
    CreateItem,
    TruncateItem,
)


def no_conversation(event: Command) -> ProtocolError:
    """A transcription session."""
    if isinstance(event, CancelResponse):
        return no_response(event, "; transcription sessions do not respond")
    return ProtocolError(
        f"type: expected an event of a transcription session, got {shown(event.name)}; "
        "transcription sessions do not respond and take no items (session.update with "
        'type "realtime" makes one that does, if a served model answers)',
        code="unsupported_event",
        param="type",
        event_id=event.event_id,
    )


def no_response(event: CancelResponse, why: str = "") -> ProtocolError:
    """Clients look for this code and these first words."""
    named = event.response_id
    if named is not None and not why:
        why = f"; expected the id of a response under way, got {shown(named)}"
    return ProtocolError(
        f"Cancellation failed: no active response found{why}",
        code="response_cancel_not_active",
        param="type" if named is None else "response_id",
        event_id=event.event_id,
    )


def no_item(item_id: str, event_id: str | None, param: str = "item_id") -> ProtocolError:
    """It was deleted, forgotten, or never there."""
    return ProtocolError(
        f"{param}: expected the id of an item of this session, got {shown(item_id)}",
        code="item_not_found",
        param=param,
        event_id=event_id,
    )


def same_item(event: CreateItem) -> ProtocolError:
    """Ids of items are unique."""
    return ProtocolError(
        f"item.id: expected an id that no item of this session has, got {shown(event.item.id)}",
        code="item_create_duplicate_item_id",
        param="item.id",
        event_id=event.event_id,
    )


def too_many_items(limit: int, event_id: str | None) -> ProtocolError:
    """The client makes no more items; turns and answers push out the oldest."""
    return ProtocolError(
        f"item: expected at most {limit} items in a session, all are there; delete some first",
        code="too_many_items",
        param="item",
        event_id=event_id,
    )


def too_much_text(limit: int, path: str, event_id: str | None) -> ProtocolError:
    """The text of all items together is bounded."""
    return ProtocolError(
        f"{path}: expected at most {limit} characters in the conversation together, got more; "
        "delete items first",
        code="conversation_too_large",
        param=path,
        event_id=event_id,
    )


def nothing_to_cut(event: TruncateItem) -> ProtocolError:
    """Nothing is ever spoken here."""
    return ProtocolError(
        f"item_id: expected an assistant's item with audio, got {shown(event.item_id)}; "
        "answers are text here, there is no audio to cut",
        code="invalid_value",
        param="item_id",
        event_id=event.event_id,
    )


def cannot_see(path: str, model: str, event_id: str | None, what: str = "image") -> ProtocolError:
    """The model that answers takes no pictures, or no videos."""
    return ProtocolError(
        f"{path}: expected no {what}, {shown(model)} cannot see; got one",
        code=f"unsupported_{what}",
        param=path,
        event_id=event_id,
    )


def cannot_hear(path: str, event_id: str | None) -> ProtocolError:
    """No model is there for audio."""
    return ProtocolError(
        f"{path}: expected no audio, no served model transcribes; got some",
        code="unsupported_audio",
        param=path,
        event_id=event_id,
    )


def no_new_audio(path: str, event_id: str | None) -> ProtocolError:
    """A response does not wait for speech that is in no item."""
    return ProtocolError(
        f"{path}: expected text and images; make an item of the audio first and refer to it",
        code="unsupported_audio",
        param=path,
        event_id=event_id,
    )


def busy(response_id: str, event_id: str | None) -> ProtocolError:
    """One response at a time writes to the conversation; in OpenAI's own words."""
    return ProtocolError(
        f"Conversation already has an active response in progress: {response_id}. Wait until the "
        "response is finished before creating a new one.",
        code="conversation_already_has_active_response",
        event_id=event_id,
    )


def too_many_responses(limit: int, event_id: str | None) -> ProtocolError:
    """Responses out of band are counted as well."""
    return ProtocolError(
        f"response: expected at most {limit} responses under way at once, all are; wait for one",
        code="too_many_responses",
        param="response",
        event_id=event_id,
    )


def still_answering(event_id: str | None) -> ProtocolError:
    """A session that transcribes only has no responses."""
    return ProtocolError(
        'session.type: expected "realtime" while a response is under way, got "transcription"',
        code="invalid_value",
        param="session.type",
        event_id=event_id,
    )


def nothing_to_answer() -> ProtocolError:
    """The prompt would be empty."""
    return ProtocolError(
        "the conversation: expected text or a picture to answer, or instructions; got none",
        code="nothing_to_answer",
    )


def untranscribed(item_id: str) -> ProtocolError:
    """What is to be answered is not known."""
    return ProtocolError(
        f"item {item_id}: expected speech that could be transcribed; its transcription failed",
        code="transcription_failed",
        type="server_error",
    )


def backwards(timestamp_ms: int, newest_ms: int, event_id: str | None) -> ProtocolError:
    """Frames of a camera come in order."""
    return ProtocolError(
        f"timestamp_ms: expected at least that of the frame before ({newest_ms}), "
        f"got {timestamp_ms}",
        code="invalid_value",
        param="timestamp_ms",
        event_id=event_id,
    )


def empty_commit(event_id: str | None) -> ProtocolError:
    """A turn has at least some audio."""
    return ProtocolError(
        "input_audio_buffer: expected audio to commit, got none since the session began or the "
        "last commit or clear",
        code="input_audio_buffer_commit_empty",
        param="input_audio_buffer",
        event_id=event_id,
    )


def too_long(seconds: float, event_id: str | None) -> ProtocolError:
    """The client commits turns itself, and did not."""
    return ProtocolError(
        f"audio: expected at most {seconds:g} seconds between two commits, got more; what came "
        "before is kept, what follows is dropped until a commit or clear",
        code="input_audio_buffer_full",
        param="audio",
        event_id=event_id,
    )


def engine_stopped(event: EngineFailed) -> ProtocolError:
    """Every session is told so once, and closed."""
    return ProtocolError(
        f"the engine stopped: {event.message}; connect again",
        code=event.code,
        type="server_error",
    )


# What an engine may blame: settings of a session by their names there.
_SETTINGS = ("language", "prompt", "model", "words", "logprobs")


def turn_refused(event: TurnFailed) -> ProtocolError:
    """The engine did not transcribe a turn. Its message begins with the setting to blame, if one
    is: what this model cannot do."""
    blamed = event.message.partition(":")[0]
    is_mine = is_clients_fault(event.code)
    return ProtocolError(
        event.message,
        code=event.code,
        type="invalid_request_error" if is_mine else "transcription_error",
        param=blamed if is_mine and blamed in _SETTINGS else None,
    )
