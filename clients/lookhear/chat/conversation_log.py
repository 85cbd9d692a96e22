"""What a conversation's server would have to be told again: its items and frames, in order.

Kept beside the server's own copy, so that a lost connection does not lose the conversation. What
was spoken is told again as its transcript, what was answered as text; nothing is transcribed or
answered twice.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any

MAX_ITEMS = 1000  # as many as a server holds; older ones are forgotten


Event = Mapping[str, Any]
_FRAME = "lookhear.input_video_frame.append"


class ConversationLog:
    """The conversation so far, bounded: the oldest entries are forgotten.

    frames: how many of the newest frames of the camera are kept in full, and as many older ones,
    thinned to every second each time there are too many, as the server does. frames_per_second:
    those that come faster are left out.
    """

    def __init__(self, frames: int = 16, frames_per_second: float = 4.0) -> None:
        # What would be sent, in order, each with its place: a number, which stays while others go.
        self._entries: list[tuple[int, Event]] = []
        self._places = itertools.count()
        self._frames = frames
        self._spacing = 1000.0 / frames_per_second
        self._newest: int | None = None  # of the frames, milliseconds

    def created(self, item: Mapping[str, Any], place: int | None = None) -> None:
        """The server has this item, at the `place` that it had when it was sent; None: the end."""
        self._add(self.place() if place is None else place, item)

    def spoken(self, item_id: str, transcript: str, place: int | None = None) -> None:
        """What was said became this item, at the `place` that it had when it was committed; None:
        the end. Of silence nothing is left to tell."""
        if transcript:
            part = {"type": "input_audio", "transcript": transcript}
            self.created(_message(item_id, "user", part), place)

    def answered(self, item_id: str, text: str, place: int) -> None:
        """An answer; it stands at the `place` that it had when it was asked for."""
        part = {"type": "output_text", "text": text}
        self._add(place, _message(item_id, "assistant", part))

    def place(self) -> int:
        """Behind all entries so far, before all later ones."""
        return next(self._places)

    def deleted(self, item_id: str) -> None:
        """This item is not part of the conversation any more."""
        self._keep(lambda event: _item_id(event) != item_id)

    def seen(self, frame: Event) -> None:
        """A frame of the camera, as it was sent."""
        milliseconds = frame["timestamp_ms"]
        if self._newest is not None and 0 <= milliseconds - self._newest < self._spacing:
            return
        self._newest = milliseconds
        self._entries.append((self.place(), frame))
        frames = [event for _, event in self._entries if event["type"] == _FRAME]
        if len(frames) > 2 * self._frames:
            thinned = {id(frame) for frame in frames[: -self._frames][1::2]}
            self._keep(lambda event: id(event) not in thinned)

    def refused(self, event_id: str) -> None:
        """The server did not take the frame with this name: it would not take it again either."""
        self._keep(lambda event: event.get("event_id") != event_id)
        # The next one may follow the newest that the server has as soon as if this had never been.
        frames = [event for _, event in self._entries if event["type"] == _FRAME]
        self._newest = frames[-1]["timestamp_ms"] if frames else None

    def forget_frames(self) -> None:
        """Nor is anything that the camera showed."""
        self._keep(lambda event: event["type"] != _FRAME)
        self._newest = None

    def events(self) -> Iterator[tuple[str | None, Event]]:
        """The client events that tell everything again, each with the id of the item that it
        creates; None for a frame, which nobody acknowledges and which has the name it was sent
        with, so that an error about it is known to be about no other event."""
        for _, event in self._entries:
            yield _item_id(event), event

    def _add(self, place: int, item: Mapping[str, Any]) -> None:
        entry = (place, {"type": "conversation.item.create", "item": item})
        bisect.insort(self._entries, entry, key=itemgetter(0))
        if len(self._entries) > MAX_ITEMS + 2 * self._frames:
            del self._entries[0]

    def _keep(self, stays: Callable[[Event], bool]) -> None:
        self._entries = [(place, event) for place, event in self._entries if stays(event)]


def _item_id(event: Event) -> str | None:
    return None if event["type"] == _FRAME else str(event["item"]["id"])


def _message(item_id: str, role: str, part: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": item_id, "type": "message", "role": role, "content": [part]}
