"""Several desks of one model, and what they say to who asks for what it cannot do. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lookhear.engine.core.core import Desk, EngineCore
from lookhear.engine.messages import (
    AdapterFailed,
    AnswerFailed,
    DiariseFile,
    DiariseLive,
    DiarisingFailed,
    Event,
    FileFailed,
    LoadAdapter,
    Message,
    PoolingFailed,
    StartAnswer,
    StartPooling,
    StartTurn,
    TranscribeFile,
    TurnFailed,
    UnloadAdapter,
)


class Desks:
    """desk: takes all messages but those that others are for, by their type."""

    def __init__(self, desk: Desk, others: Mapping[type, Desk]) -> None:
        self._desk = desk
        self._others = dict(others)
        self._all = [desk, *dict.fromkeys(others.values())]

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        return self._others.get(type(message), self._desk).take(message, core)

    def close(self, session: str) -> None:
        """See `Desk`."""
        for desk in self._all:
            desk.close(session)

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        return [event for desk in self._all for event in desk.left(key, session, core)]

    def stats(self, core: EngineCore) -> dict[str, int]:
        """Those of all."""
        return {name: value for desk in self._all for name, value in desk.stats(core).items()}


def refused(message: Message, does: str) -> list[Event]:
    """Nothing, if the message does not ask for anything. does: what the model can do instead, in
    words, its name first."""

    def expected(ability: str) -> tuple[str, str]:
        return "invalid_model", f"model: expected one that {ability}, {does}"

    match message:
        case StartTurn(session, turn):
            return [TurnFailed(session, turn, *expected("transcribes"))]
        case TranscribeFile(request):
            return [FileFailed(request, *expected("transcribes"))]
        case DiariseFile(request):
            return [FileFailed(request, *expected("tells speakers apart"))]
        case DiariseLive(session):
            return [DiarisingFailed(session, *expected("tells speakers apart"))]
        case StartAnswer(session, answer):
            return [AnswerFailed(session, answer, *expected("chats"))]
        case LoadAdapter(request) | UnloadAdapter(request):
            return [AdapterFailed(request, *expected("takes adapters"))]
        case StartPooling(session):
            return [PoolingFailed(session, *expected("makes vectors or scores"))]
    return []
