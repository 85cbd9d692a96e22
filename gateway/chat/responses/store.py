"""Responses that can be gone on with: in memory, and bounded in bytes, in number and in age. Pure.

An item that several responses of a conversation have in common is kept once. When there are too
many bytes, or responses, the oldest one of the owner that holds most of them goes, so that nobody
can push out what all others have. The event loop alone changes a store; other threads may look
things up in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lookhear.gateway.chat.responses.items import OVERHEAD, Item, Json, item

MOST_RESPONSES = 4096
MOST_BYTES = 128 * 1024 * 1024
MOST_SECONDS = 24 * 3600.0
POINTER = 8  # bytes of an item that is kept already, in one response more


@dataclass(slots=True)
class Kept:
    """owner: whose it is. since: when it came, in seconds. input: the whole conversation that it
    answers. output: None until it is complete."""

    owner: str
    since: float
    response: Json
    input: tuple[Item, ...]
    size: int
    output: tuple[Item, ...] | None = None

    @property
    def items(self) -> tuple[Item, ...]:
        """All, with its answer, if it has one."""
        return self.input + (self.output or ())


@dataclass(slots=True)
class _Shared:
    item: Item
    owner: str
    holders: int = 0


class Store:
    """clock: seconds."""

    def __init__(
        self,
        clock: Callable[[], float],
        most_responses: int = MOST_RESPONSES,
        most_bytes: int = MOST_BYTES,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        self._clock = clock
        self._most_responses = most_responses
        self._most_bytes = most_bytes
        self._most_seconds = most_seconds
        self._kept: dict[str, Kept] = {}  # the oldest first
        self._items: dict[str, _Shared] = {}
        self._held: Counter[str] = Counter()  # bytes, by owner
        self._responses: Counter[str] = Counter()  # by owner

    @property
    def size(self) -> int:
        """Bytes of all, about."""
        return self._held.total()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, owner: str, response: Json, input: Sequence[Item]) -> bool:
        """Keep one that is begun -> whether there is room for it."""
        size = len(json.dumps(response)) + OVERHEAD + POINTER * len(input)
        kept = Kept(owner, self._clock(), response, tuple(input), size)
        self._kept[response["id"]] = kept
        self._held[owner] += size
        self._responses[owner] += 1
        self._hold(owner, kept.input)
        self._make_room()
        return response["id"] in self._kept

    def complete(self, response: Json) -> None:
        """It is complete, if it is still kept."""
        kept = self._kept.get(response["id"])
        if kept is None:
            return
        output = tuple(item(wire) for wire in response["output"])
        self._hold(kept.owner, output)
        kept.response, kept.output = response, output
        self._make_room()

    def abandon(self, id: str) -> None:
        """Its request is over: unless it is complete, nothing will come of it."""
        kept = self._kept.get(id)
        if kept is not None and kept.output is None:
            self._drop(id)

    def get(self, id: str, owner: str) -> Kept | None:
        """None: there is no such response, or it is somebody else's, or too old."""
        kept = self._kept.get(id)
        if kept is None or kept.owner != owner or self._is_old(kept):
            return None
        return kept

    def item(self, id: str, owner: str) -> Item | None:
        """One of those that its owner's responses have."""
        shared = self._items.get(id)
        return None if shared is None or shared.owner != owner else shared.item

    def delete(self, id: str, owner: str) -> bool:
        """Whether there was such a one."""
        if self.get(id, owner) is None:
            return False
        self._drop(id)
        return True

    def _is_old(self, kept: Kept) -> bool:
        return self._clock() - kept.since > self._most_seconds

    def _make_room(self) -> None:
        while self._kept:
            id, oldest = next(iter(self._kept.items()))
            if self._is_old(oldest):
                self._drop(id)
            elif len(self._kept) > self._most_responses:
                self._drop(self._oldest_of_most(self._responses))
            elif self.size > self._most_bytes:
                self._drop(self._oldest_of_most(self._held))
            else:
                break

    def _oldest_of_most(self, held: Counter[str]) -> str:
        owner = max(held, key=lambda owner: held[owner])
        return next(id for id, kept in self._kept.items() if kept.owner == owner)

    def _hold(self, owner: str, items: Sequence[Item]) -> None:
        for each in items:
            shared = self._items.setdefault(each.id, _Shared(each, owner))
            if not shared.holders:
                self._held[owner] += each.size
            shared.holders += 1

    def _drop(self, id: str) -> None:
        kept = self._kept.pop(id)
        self._held[kept.owner] -= kept.size
        self._responses[kept.owner] -= 1
        for each in kept.items:
            shared = self._items[each.id]
            shared.holders -= 1
            if not shared.holders:
                self._held[kept.owner] -= each.size
                del self._items[each.id]
        if not self._responses[kept.owner]:
            del self._held[kept.owner], self._responses[kept.owner]
