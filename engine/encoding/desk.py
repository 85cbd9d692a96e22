"""Takes what a tower that is alone is asked: media, by their digests. Pure."""

from __future__ import annotations

from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.desks import refused
from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.core.single_pass import RowsResult
from lookhear.engine.encoding.request import EncodingRequest
from lookhear.engine.messages import (
    EncodeMedium,
    EncodingFailed,
    Event,
    MediumEncoded,
    Message,
)
from lookhear.engine.paged.request import Medium


class Encoding:
    """One medium, from being asked for to its embeddings. Satisfies `Owner`."""

    is_urgent = True

    def __init__(self, key: str, message: EncodeMedium) -> None:
        self._key = key
        self._digest = message.digest
        self._medium = Medium(message.features, message.num_tokens, message.digest)
        self._has_request = self.is_done = False

    def wants_request(self) -> bool:
        """Once."""
        return not self._has_request

    def cost(self) -> Cost:
        """What the encoder reads."""
        return Cost(self._medium.num_tokens)

    def make_request(self) -> EncodingRequest:
        """The only one."""
        self._has_request = True
        return EncodingRequest(self._key, self._medium)

    def absorb(self, result: Result) -> list[Event]:
        """It is encoded."""
        assert isinstance(result, RowsResult)
        self.is_done = True
        return [MediumEncoded(self._digest, result.rows)]

    def settle(self) -> list[Event]:
        """Nothing: all comes of its request."""
        return []

    def fail(self, code: str, message: str) -> list[Event]:
        """It could not be encoded."""
        self.is_done = True
        return [EncodingFailed(self._digest, code, message)]


class EncodingDesk:
    """name: the model's on the wire."""

    def __init__(self, name: str) -> None:
        self._name = name

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        if not isinstance(message, EncodeMedium):
            return refused(message, f"this engine of {self._name} is its encoder alone")
        key = message.digest.hex()
        if core.owner(key) is None:  # else it is under way, and answered once
            core.add(key, Priority.LIVE, Encoding(key, message))
        return []

    def close(self, session: str) -> None:
        """Media are of no session."""

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """Nothing waits for a medium."""
        return []

    def stats(self, core: EngineCore) -> dict[str, int]:
        """Media under way."""
        return {"encoding": core.count(Encoding)}
