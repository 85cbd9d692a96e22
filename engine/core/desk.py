"""Who takes the messages of a kind of model, as the core sees it."""

from __future__ import annotations

from typing import Protocol

from lookhear.engine.core.owner import Owner
from lookhear.engine.core.request import Priority
from lookhear.engine.messages import Event, Message


class Book(Protocol):
    """The core's owners, by name. See `EngineCore`."""

    def add(
        self, key: str, priority: Priority, owner: Owner, session: str | None = None
    ) -> None: ...

    def owner(self, key: str) -> Owner | None: ...

    def count(self, kind: type) -> int: ...

    def drop(self, key: str) -> None: ...

    def drop_if_done(self, key: str) -> None: ...


class Desk(Protocol):
    """Of one model. Pure, like the core."""

    def take(self, message: Message, book: Book) -> list[Event]:
        """Begin, feed or end an owner; what is not for this kind of model is refused."""
        ...

    def close(self, session: str) -> None:
        """The session is over; its owners are dropped by the core."""
        ...

    def stats(self, book: Book) -> dict[str, int]:
        """How it is now, for the metrics."""
        ...
