"""Takes the messages of a model that tells speakers apart. Pure."""

from __future__ import annotations

from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.desks import refused
from lookhear.engine.core.request import Priority
from lookhear.engine.diarisation.file import FileDiarisation
from lookhear.engine.diarisation.speaker_cache import Chunking
from lookhear.engine.messages import (
    CancelFile,
    DiariseFile,
    Event,
    FileFailed,
    Message,
)


class DiarisationDesk:
    """name: the model's on the wire. chunking: of whole files. stack: frames of a place. emphasis:
    see `frames.stretch`."""

    def __init__(self, name: str, chunking: Chunking, stack: int, emphasis: float) -> None:
        self._name = name
        self._chunking, self._stack, self._emphasis = chunking, stack, emphasis

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        match message:
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

    def close(self, session: str) -> None:
        """Nothing is of a session."""

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """Nobody waits for another."""
        return []

    def stats(self, core: EngineCore) -> dict[str, int]:
        """Recordings under way."""
        return {"diarised_files": core.count(FileDiarisation)}
