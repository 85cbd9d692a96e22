"""What can go wrong with an engine, as the gateway sees it."""

from __future__ import annotations


class EngineError(RuntimeError):
    """What an engine, or the way to it, could not do."""


class EngineStartError(EngineError):
    """An engine could not load its model; the message says why."""


class EngineUnavailable(EngineError):
    """No engine process is up for the model at this moment, or it does not keep up."""


class ModelGone(EngineUnavailable):
    """No engine serves a model of that name: an adapter that was unloaded."""


class EngineRequestError(EngineError):
    """What was asked of an engine could not be done. code: as in `FileFailed`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class InputRefused(EngineRequestError):
    """A text or picture of which there is no vector. side, index: as in `PoolingFailed`."""

    def __init__(self, code: str, message: str, side: str, index: int | None) -> None:
        super().__init__(code, message)
        self.side = side
        self.index = index


class WireError(EngineError):
    """The other end sent something that is not a frame of ours."""
