"""Who says the words of a turn: in its words, in its `completed`, and, where more is known only
later, in an event of its own. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from lookhear.engine.messages import Segment, Word
from lookhear.gateway.realtime.openai.rendering import EXTENSION
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.dialect import Json
from lookhear.gateway.realtime.protocol.events import SessionEvent
from lookhear.gateway.who_speaks import KEPT_SECONDS, LiveSpeakers, label, parts


@dataclass(slots=True)
class _Turn:
    """start: on the session's clock, in seconds. settled: of its words, whose speakers no later
    audio changes. text: None until all is said."""

    item: str
    part: int
    start: float
    words: list[Word] = field(default_factory=list)
    settled: int = 0
    text: str | None = None

    def name(self, known: LiveSpeakers) -> None:
        """The words that are not settled, by what is known now."""
        self.words[self.settled :] = known.named(self.words[self.settled :], self.start)
        while not self.is_settled and self.start + self.words[self.settled].end <= known.seconds:
            self.settled += 1

    @property
    def is_said(self) -> bool:
        """Whether all of its text is known."""
        return self.text is not None

    @property
    def is_settled(self) -> bool:
        """Whether no speaker of it changes any more."""
        return self.settled == len(self.words)

    @property
    def end(self) -> float:
        """Of its last word, on the session's clock."""
        return self.start + self.words[-1].end

    def segments(self) -> list[Json]:
        """The text, cut where another speaker begins."""
        assert self.text is not None
        whole = Segment(self.text, self.words[0].start, self.words[-1].end, [], 0.0, 0.0)
        return [
            {
                "speaker": label(part.speaker),
                "start": round(part.start, 3),
                "end": round(part.end, 3),
                "text": part.text,
            }
            for part in parts([whole], self.words)
        ]

    def speakers(self) -> Json:
        """The event that tells them."""
        place = {"item_id": self.item, "content_index": self.part}
        return {"type": f"{EXTENSION}.speakers", **place, "segments": self.segments()}


class WhoSpeaks:
    """Of one session: adds to the frames that tell its events."""

    def __init__(self) -> None:
        self._known = LiveSpeakers()
        self._turns: dict[str, _Turn] = {}  # by item: those whose speakers are not all told
        self._committed: set[str] = set()  # items whose text is still to come
        self._is_lost = False

    def told(self, event: SessionEvent, frames: list[Json]) -> list[Json]:
        """The frames that tell the event, with who speaks where that is wanted."""
        match event:
            case events.TranscriptWords(named_from=start) if start is not None:
                self._name(event, start, frames[0])
            case events.TurnCommitted(item):
                self._committed.add(item.id)
            case events.AudioCleared():
                kept = [i for i in self._turns if i in self._committed or self._turns[i].is_said]
                self._turns = {item: self._turns[item] for item in kept}
            case events.TranscriptDone():
                self._committed.discard(event.item)
                return [*frames, *self._done(event, frames[0])]
            case events.TranscriptFailed(item):
                self._committed.discard(item)
                self._turns.pop(item, None)
            case events.SpeakersKnown(heard):
                self._known.hear(heard)
                for turn in self._turns.values():
                    turn.name(self._known)
                return [*frames, *self._later()]
            case events.SpeakersLost():
                self._turns.clear()
                self._is_lost = True
            case _:
                pass
        return frames

    def _name(self, event: events.TranscriptWords, start: float, frame: Json) -> None:
        if self._is_lost:
            return
        turn = self._turns.setdefault(event.item, _Turn(event.item, event.part, start))
        first = len(turn.words)
        turn.words += event.words
        turn.name(self._known)
        for told, word in zip(frame["words"], turn.words[first:], strict=True):
            assert word.speaker is not None
            told["speaker"] = label(word.speaker)

    def _done(self, event: events.TranscriptDone, frame: Json) -> list[Json]:
        turn = self._turns.get(event.item)
        if turn is None:  # nothing was said, or nobody wants to know by whom
            return []
        turn.text = event.text
        frame["lookhear"] = {"segments": turn.segments(), "settled": turn.is_settled}
        if turn.is_settled:
            del self._turns[event.item]
        return self._later(turn.start - KEPT_SECONDS)

    def _later(self, forgotten: float = 0.0) -> list[Json]:
        """Of turns that were completed before it was known who spoke, and now it is; or nobody
        remembers. forgotten: on the session's clock, in seconds."""
        said = [turn for turn in self._turns.values() if turn.is_said]
        told = [turn for turn in said if turn.is_settled or turn.end < forgotten]
        for turn in told:
            del self._turns[turn.item]
        return [turn.speakers() for turn in told]
