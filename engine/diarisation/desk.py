"""Takes the messages of a model that tells speakers apart. Pure."""

from __future__ import annotations

from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.desks import refused
from lookhear.engine.core.request import Priority
from lookhear.engine.diarisation.file import FileDiarisation
from lookhear.engine.diarisation.live import LiveDiarisation
from lookhear.engine.diarisation.speaker_cache import Chunking
from lookhear.engine.messages import (
    CancelFile,
    DiariseFile,
    DiariseLive,
    Event,
    FileFailed,
    Message,
)


class DiarisationDesk:
    """name: the model's on the wire. chunking: of whole files; live: of what is heard. stack:
    frames of a place. emphasis: see `frames.stretch`."""

    def __init__(
        self, name: str, chunking: Chunking, live: Chunking, stack: int, emphasis: float
    ) -> None:
        self._name = name
        self._chunking, self._live = chunking, live
        self._stack, self._emphasis = stack, emphasis
        self._sessions: dict[str, LiveDiarisation] = {}  # those that failed, too

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        match message:
            case DiariseLive():
                return self._hear(message, core)
            case DiariseFile(request):
                if core.owner(request) is not None:
                    text = f"request: {request!r} is running already"
                    return [FileFailed(request, "duplicate_request", text)]
                owner = FileDiarisation(message, self._chunking, self._stack, self._emphasis)
                core.add(request, Priority.BATCH, owner)
                events = owner.settle()
                core.drop_if_done(request)
                return events
            case CancelFile(request):
                core.drop(request)
            case _:
                return refused(message, f"{self._name} tells speakers apart")
        return []

    def _hear(self, message: DiariseLive, core: EngineCore) -> list[Event]:
        session, key = message.session, _key(message.session)
        live = self._sessions.get(session)
        if live is None:
            live = LiveDiarisation(key, session, self._live, self._stack, self._emphasis)
            self._sessions[session] = live
            core.add(key, Priority.LIVE, live, session)
        if live.is_closed or live.has_failed:
            return []  # the gateway may not have heard of it yet
        if message.begin != live.num_heard:
            text = f"expected the samples from {live.num_heard} on, got those from {message.begin}"
            failed = live.fail("audio_missing", f"{text}; an engine that heard them may have died")
            core.drop(key)
            return failed
        live.append(message.samples, is_last=message.is_last)
        events = live.settle()
        core.changed(key)
        core.drop_if_done(key)
        return events

    def close(self, session: str) -> None:
        """Its recording is over, or nobody wants it."""
        self._sessions.pop(session, None)

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """Nobody waits for another."""
        return []

    def stats(self, core: EngineCore) -> dict[str, int]:
        """Recordings under way."""
        live, files = core.count(LiveDiarisation), core.count(FileDiarisation)
        return {"diarised_files": files, "diarised_sessions": live}


def _key(session: str) -> str:
    return f"{session}/speakers"
