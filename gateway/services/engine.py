"""What the gateway needs of its engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from lookhear.engine.client.client import EngineState, Recovery
from lookhear.engine.messages import (
    AdapterLoaded,
    DiariseFile,
    Event,
    FileDiarised,
    FileProgress,
    FileTranscribed,
    HoldEmbeddings,
    HoldPicture,
    LiveLoad,
    LoadAdapter,
    Message,
    ModelCard,
    Pong,
    Pooled,
    RequestDone,
    StartPooling,
    TranscribeFile,
    UnloadAdapter,
)


class Engine(Protocol):
    """As `engine.client.client.EngineClient` has it."""

    @property
    def states(self) -> list[EngineState]:
        """Tells how each engine is, in the order of the models and their replicas."""

    @property
    def models(self) -> list[ModelCard]:
        """Lists the cards of the models that were loaded, the default first."""

    @property
    def stats(self) -> dict[str, Pong]:
        """Holds what each engine last said of its work, by `EngineState.label`."""

    @property
    def recovery(self) -> Recovery:
        """Counts what came of engines that died."""

    def watch(self, on_request: Callable[[str, RequestDone], None]) -> None:
        """on_request hears on the event loop of each request that an engine computed, and for which
        model."""

    def is_ready(self, model: str) -> bool:
        """Whether that model can be asked now."""

    async def until_ready(self, model: str) -> bool:
        """Whether it can, when an engine that is being started again has had the time to be."""

    def live_load(self, model: str) -> LiveLoad | None:
        """Who speaks to that model, and how many more may. None: as many as like."""

    async def counted_out(self, model: str) -> None:
        """Until those who have just gone from that model are no longer counted by `live_load`."""

    def serves(self, session: str, model: str) -> bool:
        """Whether that model's engine knows the session: it speaks, is to speak, or has asked."""

    def open_session(self, session: str, on_event: Callable[[Event], None]) -> None:
        """on_event hears on the event loop what the engine says to that session."""

    def use_model(self, session: str, model: str) -> None:
        """The engine of this model is the session's to lose from now on."""

    def send(self, message: Message) -> None:
        """To the engine of the message's session. Raises EngineUnavailable."""

    def close_session(self, session: str) -> None:
        """The engine forgets all that the session had."""

    async def transcribe_file(
        self, message: TranscribeFile, on_progress: Callable[[FileProgress], None] | None = None
    ) -> FileTranscribed:
        """Raises EngineRequestError and EngineUnavailable."""

    async def diarise_file(self, message: DiariseFile) -> FileDiarised:
        """Raises EngineRequestError and EngineUnavailable."""

    async def pool(
        self, message: StartPooling, held: Sequence[HoldPicture | HoldEmbeddings] = ()
    ) -> list[Pooled]:
        """Raises InputRefused and EngineUnavailable."""

    async def load_adapter(self, message: LoadAdapter, *, replaces: bool) -> AdapterLoaded:
        """Raises EngineRequestError and EngineUnavailable."""

    async def unload_adapter(self, message: UnloadAdapter) -> None:
        """Raises EngineRequestError and EngineUnavailable."""

    async def close(self) -> None:
        """Ends the engines."""
