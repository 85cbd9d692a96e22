"""The errors of a session in words: what was expected, what came.

Those about a command get its `event_id` where it is known, in the session's machine.
"""

from __future__ import annotations

from lookhear.engine.messages import EngineFailed, TurnFailed
from lookhear.gateway.checks.checks import ProtocolError, is_clients_fault, shown, wrong
from lookhear.gateway.realtime.protocol.commands import CancelResponse, Command

NO_PLACE = "too_many_speakers"  # with this code an engine refuses one more speaker
EMPTY_COMMIT = "input_audio_buffer_commit_empty"
UNREADABLE = "unreadable_audio"  # the container that it came in is none, or is damaged
GOING_AWAY = "going_away"  # the server ends
IDLE = "session_idle"
EXPIRED = "session_expired"
# Said of a session once all else of it is said.
LAST_WORDS = frozenset({GOING_AWAY, IDLE, EXPIRED})
# What an engine may blame: settings of a session by their names there.
_SETTINGS = ("language", "prompt", "model", "words", "logprobs")


def no_conversation(command: Command) -> ProtocolError:
    """A transcription session."""
    if isinstance(command, CancelResponse):
        return no_response(command, "; transcription sessions do not respond")
    got = (
        f"{shown(command.name)}; transcription sessions do not respond and take no items "
        '(session.update with type "realtime" makes one that does, if a served model answers)'
    )
    return wrong("type", "an event of a transcription session", got, "unsupported_event")


def no_response(command: CancelResponse, why: str = "") -> ProtocolError:
    """Clients look for this code and these first words."""
    named = command.response_id
    if named is not None and not why:
        why = f"; expected the id of a response under way, got {shown(named)}"
    return ProtocolError(
        f"Cancellation failed: no active response found{why}",
        code="response_cancel_not_active",
        param="type" if named is None else "response_id",
    )


def no_item(item_id: str, param: str = "item_id") -> ProtocolError:
    """It was deleted, forgotten, or never there."""
    return wrong(param, "the id of an item of this session", shown(item_id), "item_not_found")


def no_call(call_id: str, path: str) -> ProtocolError:
    """An output is of a call that was made before."""
    expected = "the call_id of a function call in front of it"
    return wrong(path, expected, shown(call_id), "invalid_call_id")


def same_item(item_id: str) -> ProtocolError:
    """Ids of items are unique."""
    expected = "an id that no item of this session has"
    return wrong("item.id", expected, shown(item_id), "item_create_duplicate_item_id")


def too_many_items(limit: int) -> ProtocolError:
    """The client makes no more items; turns and answers push out the oldest."""
    return ProtocolError(
        f"item: expected at most {limit} items in a session, all are there; delete some first",
        code="too_many_items",
        param="item",
    )


def too_many_recordings(limit: int) -> ProtocolError:
    """They are heard when what is being said is over, which may be the client's to end."""
    expected = f"at most {limit} recordings that wait for the end of the open turn"
    return wrong("item", expected, "more; commit or clear it first", "too_many_recordings")


def too_much_text(limit: int, path: str) -> ProtocolError:
    """The text of all items together is bounded."""
    expected = f"at most {limit} characters in the conversation together"
    return wrong(path, expected, "more; delete items first", "conversation_too_large")


def nothing_to_cut(item_id: str) -> ProtocolError:
    """Nothing is ever spoken here."""
    got = f"{shown(item_id)}; answers are text here, lookhear.characters says how much is kept"
    return wrong("item_id", "an assistant's item with audio", got)


def cannot_see(path: str, model: str) -> ProtocolError:
    """The model that answers takes no pictures, or no videos."""
    expected = f"no image, {shown(model)} cannot see; got one"
    return ProtocolError(f"{path}: expected {expected}", code="unsupported_image", param=path)


def cannot_hear(path: str) -> ProtocolError:
    """No model is there for audio."""
    expected = "no audio: no served model transcribes, and the one that answers does not hear"
    return ProtocolError(f"{path}: expected {expected}", code="unsupported_audio", param=path)


def too_much_sound(most: float, path: str) -> ProtocolError:
    """More than a session can hold, and none of it is known as text."""
    expected = f"recordings of at most {most:g} s in a session"
    return wrong(path, expected, "more; delete items with recordings first", "audio_too_long")


def no_new_audio(path: str) -> ProtocolError:
    """A response does not wait for speech that is in no item."""
    expected = "text and images; make an item of the audio first and refer to it"
    return ProtocolError(f"{path}: expected {expected}", code="unsupported_audio", param=path)


def busy(response_id: str) -> ProtocolError:
    """One response at a time writes to the conversation; in OpenAI's own words."""
    return ProtocolError(
        f"Conversation already has an active response in progress: {response_id}. Wait until the "
        "response is finished before creating a new one.",
        code="conversation_already_has_active_response",
    )


def too_many_responses(limit: int) -> ProtocolError:
    """Responses out of band are counted as well."""
    return ProtocolError(
        f"response: expected at most {limit} responses under way at once, all are; wait for one",
        code="too_many_responses",
        param="response",
    )


def still_answering() -> ProtocolError:
    """A session that transcribes only has no responses."""
    expected = '"realtime" while a response is under way'
    return wrong("session.type", expected, '"transcription"')


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


def backwards(timestamp_ms: int, newest_ms: int) -> ProtocolError:
    """Frames of a camera come in order."""
    expected = f"at least that of the frame before ({newest_ms})"
    return wrong("timestamp_ms", expected, str(timestamp_ms))


def empty_commit() -> ProtocolError:
    """A turn has at least some audio."""
    got = "none since the session began or the last commit or clear"
    return wrong("input_audio_buffer", "audio to commit", got, EMPTY_COMMIT)


def too_long(seconds: float) -> ProtocolError:
    """The client commits turns itself, and did not."""
    got = "more; what came before is kept, what follows is dropped until a commit or clear"
    expected = f"at most {seconds:g} seconds between two commits"
    return wrong("audio", expected, got, "input_audio_buffer_full")


def engine_stopped(event: EngineFailed) -> ProtocolError:
    """Every session is told so once, and closed."""
    message = f"the engine stopped: {event.message}; connect again"
    return ProtocolError(message, code=event.code, type="server_error")


def going_away() -> ProtocolError:
    """The last word of a server that ends, before it closes."""
    message = "the server is shutting down, and the session is over; connect again"
    return ProtocolError(message, code=GOING_AWAY, type="server_error")


def resumed_elsewhere() -> ProtocolError:
    """The last word on a socket whose session goes on on a newer one."""
    message = "the session was resumed on another connection, and goes on there; this one is closed"
    return ProtocolError(message, code="session_resumed_elsewhere")


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


def expired(seconds: float) -> ProtocolError:
    """A session lasts so long, and no longer."""
    message = f"session: expected to last at most {seconds:g} s, which are over; connect again"
    return ProtocolError(message, code=EXPIRED)


def our_bug() -> ProtocolError:
    """The session ends for it."""
    message = "the server failed while handling this session; connect again"
    return ProtocolError(message, code="internal_error", type="server_error")
