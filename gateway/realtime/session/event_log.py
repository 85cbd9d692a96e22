"""The frames for one client, in order: those still to be sent, and the newest of those that were,
for a client that comes back and has not got them all. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """text: as it is sent. once: it is about the connection that it is sent on, and of no use to
    the next one."""

    text: str
    event_id: str | None
    once: bool = False


class EventLog:
    """kept: characters of frames that were sent, which `rewind` can send again."""

    def __init__(self, kept: int) -> None:
        self.unsent = 0  # characters
        self._kept = kept
        self._size = 0  # characters of `_sent`
        self._sent: deque[Frame] = deque()
        self._unsent: deque[Frame] = deque()
        self._forgotten: str | None = None  # the event right before `_sent`

    def put(self, text: str, event_id: str | None) -> None:
        """Behind all others."""
        self._unsent.append(Frame(text, event_id))
        self.unsent += len(text)

    def put_first(self, text: str, event_id: str | None) -> None:
        """Before all that is unsent, and for the present connection only."""
        self._unsent.appendleft(Frame(text, event_id, once=True))
        self.unsent += len(text)

    def take(self, most: int, count: int) -> list[str]:
        """The next frames, which are sent now: `count` at most, and `most` characters unless the
        first one alone is longer. None if there are none."""
        taken: list[str] = []
        total = 0
        while self._unsent and len(taken) < count:
            frame = self._unsent[0]
            total += len(frame.text)
            if taken and total > most:
                break
            taken.append(frame.text)
            self._sent.append(self._unsent.popleft())
            self._size += len(frame.text)
            self.unsent -= len(frame.text)
        while self._sent and self._size > self._kept:
            frame = self._sent.popleft()
            self._size -= len(frame.text)
            self._forgotten = frame.event_id
        return taken

    def rewind(self, after: str) -> bool:
        """Everything behind the event `after` is unsent again, but for what was said `once`.
        False, and nothing is changed: it was never sent, or so long ago that what follows it is
        not all here."""
        place = len(self._sent)
        while place and self._sent[place - 1].event_id != after:
            place -= 1
        if not place and self._forgotten != after:
            return False
        self._unsent = deque(frame for frame in self._unsent if not frame.once)
        while len(self._sent) > place:
            frame = self._sent.pop()
            self._size -= len(frame.text)
            if not frame.once:
                self._unsent.appendleft(frame)
        self.unsent = sum(len(frame.text) for frame in self._unsent)
        return True
