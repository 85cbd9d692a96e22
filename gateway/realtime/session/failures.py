"""What a session hears of a message that no engine took."""

from __future__ import annotations

from lookhear.engine.client.client import EngineUnavailable, ModelGone
from lookhear.engine.messages import (
    AnswerFailed,
    EngineFailed,
    Event,
    Message,
    Passing,
    StartAnswer,
    StartTurn,
    TurnFailed,
)


def failure(message: Message, error: EngineUnavailable) -> Event | None:
    """None: nobody waits for it. Where the model is gone, an adapter that was unloaded, it is the
    end of that turn or answer alone: the session may choose another."""
    if isinstance(message, Passing):
        return None  # it has none of them any more, or will miss it
    if not isinstance(error, ModelGone):
        return EngineFailed("engine_unavailable", str(error))
    if isinstance(message, StartTurn | StartAnswer):
        why = f"model: expected one that is served, got {message.settings.model!r}, which is gone"
        if isinstance(message, StartTurn):
            return TurnFailed(message.session, message.turn, "model_not_found", why)
        return AnswerFailed(message.session, message.answer, "model_not_found", why)
    return None
