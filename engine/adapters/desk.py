"""Takes the messages about a model's adapters. Between two steps, so no pass is half of one."""

from __future__ import annotations

from pathlib import Path

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    AdapterFailed,
    AdapterLoaded,
    Event,
    LoadAdapter,
    Message,
    UnloadAdapter,
)


class AdapterDesk:
    """Beside the desks of the model's work."""

    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        match message:
            case LoadAdapter(request, _, name, folder):
                try:
                    adapter = self._adapters.load(name, Path(folder))
                except CheckpointError as error:
                    return [AdapterFailed(request, "invalid_adapter", str(error))]
                return [AdapterLoaded(request, name, adapter.rank, adapter.version)]
            case UnloadAdapter(request, _, name):
                if not self._adapters.unload(name):
                    text = f"expected an adapter that is loaded, got {name!r}"
                    return [AdapterFailed(request, "invalid_adapter", text)]
                return [AdapterLoaded(request, name)]
        return []

    def close(self, session: str) -> None:
        """Adapters are of no session."""

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """Nobody waits for an adapter."""
        return []

    def stats(self, core: EngineCore) -> dict[str, int]:
        """How many can be asked for."""
        return {"adapters": len(self._adapters.names)}
