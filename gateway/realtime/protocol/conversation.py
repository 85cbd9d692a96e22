"""The items of a session, in order: what was said, shown and answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.gateway.decoding.results import Picture

ROOT = "root"  # instead of an item's id: the beginning of the conversation


@dataclass(slots=True)
class TextContent:
    """Something written, by anyone."""

    text: str


@dataclass(slots=True)
class ImageContent:
    """picture: None once its item has been left out of the context. url: what the client gave, if
    it is an address; the bytes of data URLs are not kept."""

    picture: Picture | None
    detail: str
    url: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """What was said, as it sounds: of a session whose model hears. name: one of a kind. samples:
    [n] float32 mono at 16 kHz."""

    name: str
    samples: NDArray[np.float32]

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / SAMPLE_RATE


@dataclass(slots=True)
class AudioContent:
    """transcript: None until it is known; it stays so if the transcription failed, or if nobody
    transcribes it (is_told). spoken: None where only the text counts."""

    transcript: str | None = None
    failed: bool = False
    spoken: Spoken | None = None
    is_told: bool = True

    @property
    def is_pending(self) -> bool:
        """Whether the transcript is still to come."""
        return self.transcript is None and self.is_told and not self.failed

    def is_heard(self, hears: bool) -> bool:
        """Whether a model needs no text of it. hears: it has ears."""
        return hears and self.spoken is not None


@dataclass(slots=True)
class CallContent:
    """A call of a tool, all of an item. arguments: JSON text, cut off if the item is incomplete."""

    call_id: str
    name: str
    arguments: str


@dataclass(slots=True)
class OutputContent:
    """What came of a call, all of an item."""

    call_id: str
    output: str


Content = TextContent | ImageContent | AudioContent | CallContent | OutputContent


@dataclass(slots=True, eq=False)
class Item:
    """A message, a call of a tool (role "assistant") or what came of one (role "tool"). status:
    "in_progress" (an answer being written), "completed", "incomplete"."""

    id: str
    role: str = "user"
    content: list[Content] = field(default_factory=list)
    status: str = "completed"

    @property
    def speech(self) -> list[AudioContent]:
        """What was said in it."""
        return [part for part in self.content if isinstance(part, AudioContent)]

    def is_pending(self, *, hears: bool) -> bool:
        """Whether a transcript of it is still to come that a model wants. hears: it has ears."""
        return any(part.is_pending and not part.is_heard(hears) for part in self.speech)

    def has_failed(self, *, hears: bool) -> bool:
        """Whether speech in it could not be transcribed for a model."""
        return any(part.failed and not part.is_heard(hears) for part in self.speech)

    def media(self, *, hears: bool = True) -> list[Picture | Spoken]:
        """What it shows to a model, in order; to one that hears also what was said."""
        found: list[Picture | Spoken] = []
        for part in self.content:
            if isinstance(part, ImageContent) and part.picture is not None:
                found.append(part.picture)
            elif hears and isinstance(part, AudioContent) and part.spoken is not None:
                found.append(part.spoken)
        return found

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it for a model: noise, and answers that were never begun."""
        is_message = self.call is None and self.role != "tool"
        return is_message and not self.characters and not self.media()

    @property
    def text(self) -> str:
        """What is written in it."""
        return "".join(part.text for part in self.content if isinstance(part, TextContent))

    @property
    def call(self) -> CallContent | None:
        """The call that it is, if it is one."""
        return next((part for part in self.content if isinstance(part, CallContent)), None)

    @property
    def characters(self) -> int:
        """Of all that is written in it, what was said among it."""
        call = self.call
        called = len(call.name) + len(call.arguments) if call else 0
        outputs = sum(len(part.output) for part in self.content if isinstance(part, OutputContent))
        said = sum(len(part.transcript or "") for part in self.speech)
        return len(self.text) + called + outputs + said


class Conversation:
    """At most `limit` items: `add` forgets the oldest, so that memory stays bounded."""

    def __init__(self, limit: int) -> None:
        assert limit >= 1, limit
        self.limit = limit
        self._items: list[Item] = []
        self._by_id: dict[str, Item] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._by_id

    @property
    def last_id(self) -> str | None:
        """The item that the next one follows."""
        return self._items[-1].id if self._items else None

    @property
    def is_answered(self) -> bool:
        """Whether the newest item is what an assistant says."""
        last = self._items[-1] if self._items else None
        return last is not None and last.role == "assistant" and last.call is None

    @property
    def last_answer_id(self) -> str | None:
        """The newest message of an assistant."""
        answers = (item.id for item in reversed(self._items) if item.role == "assistant")
        return next(answers, None)

    @property
    def characters(self) -> int:
        """Of all that is written."""
        return sum(item.characters for item in self._items)

    def call_ids(self, upto: str | None) -> set[str]:
        """Of all calls of tools up to an item, see `add`."""
        items = self._items[: self._place(upto)]
        return {call.call_id for item in items if (call := item.call) is not None}

    def add(self, item: Item, after: str | None = None) -> list[Item]:
        """after: an item's id, `ROOT`, or None for the end. -> the items that were forgotten."""
        assert item.id not in self._by_id, item.id
        self._items.insert(self._place(after), item)
        self._by_id[item.id] = item
        forgotten = []
        while len(self._items) > self.limit:
            oldest = self._items[0] if self._items[0] is not item else self._items[1]
            forgotten.append(oldest)
            self.delete(oldest.id)
        return forgotten

    def _place(self, after: str | None) -> int:
        if after is None:
            return len(self._items)
        return 0 if after == ROOT else self._items.index(self._by_id[after]) + 1

    def get(self, item_id: str) -> Item | None:
        """The item, None if there is no such."""
        return self._by_id.get(item_id)

    def before(self, item: Item) -> str | None:
        """The id of the item that it follows."""
        place = self._items.index(item)
        return self._items[place - 1].id if place else None

    def delete(self, item_id: str) -> Item | None:
        """The item, None if there is no such."""
        item = self._by_id.pop(item_id, None)
        if item is not None:
            self._items.remove(item)
        return item
