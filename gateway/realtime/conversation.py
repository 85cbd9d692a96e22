"""The items of a session: what was committed, in order, with its transcript when known."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Item:
    """One committed utterance. transcript: None until it is known."""

    id: str
    transcript: str | None = None

    def on_wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": self.transcript}],
        }


class Conversation:
    """The newest `limit` items; older ones are forgotten, so that memory stays bounded."""

    def __init__(self, limit: int) -> None:
        assert limit >= 1, limit
        self._limit = limit
        self._items: OrderedDict[str, Item] = OrderedDict()

    @property
    def last_id(self) -> str | None:
        """The item that the next one follows."""
        return next(reversed(self._items), None)

    def add(self, item: Item) -> None:
        assert item.id not in self._items, item.id
        self._items[item.id] = item
        while len(self._items) > self._limit:
            self._items.popitem(last=False)

    def get(self, item_id: str) -> Item | None:
        return self._items.get(item_id)

    def delete(self, item_id: str) -> bool:
        """False if there is no such item."""
        return self._items.pop(item_id, None) is not None
