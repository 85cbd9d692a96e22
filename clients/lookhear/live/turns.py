"""One live transcription as a pure state machine: server events in, client events out.

It also answers the only hard question of a reconnect: which audio must be said again? A connection
starts at some sample of the source, its *base*; the server's times count from there. What the
server has told so far cuts the source into pieces:

- a turn that is completed (or failed) is done: its text was given out once, its audio must never
  reach a recogniser again;
- a turn that was started and is not done: all its audio must be sent again, its text so far is
  void, because a new connection gives it a new item id;
- between turns the server's voice detector heard silence: nothing to send;
- after the last thing the server told, anything may be there: all of it must be sent again.

So a replay starts at `needed_from`, the start of the oldest unfinished turn, or else the end of the
last turn; finished turns that lie behind it (turns may complete out of order) are blanked to
silence in the buffer, which keeps every position what it was. A turn that the voice detector closed
ends with its hangover, silence by definition; a little of it is kept, so that a soft onset of the
next word right behind it is heard whole again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lookhear.errors import ProtocolError
from lookhear.live.events import (
    Event,
    Provisional,
    Said,
    SessionReady,
    Speakers,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    Word,
    Words,
)
from lookhear.sources.pcm import RATE

_TRANSCRIPTION = "conversation.item.input_audio_transcription."
_EXTENSION = "lookhear.input_audio_transcription."


@dataclass(frozen=True, slots=True)
class ServerVad:
    """The server finds the turns by voice detection. Times in milliseconds, as on the wire."""

    threshold: float = 0.5  # 0 to 1: how sure the detector must be that somebody speaks
    prefix_padding_ms: int = 300  # of audio before the detected start that belong to the turn
    silence_duration_ms: int = 500  # after which the turn is over

    def payload(self) -> dict[str, Any]:
        """The `turn_detection` object of a session."""
        return {"type": "server_vad", **asdict(self)}


@dataclass(slots=True)
class _Turn:
    item_id: str
    start: int  # source samples
    origin: int  # where the server's own clock of the turn starts, before any clamping
    end: int | None = None  # None: still open
    safe_end: int | None = None  # up to here it may be blanked: end less the kept hangover
    done: bool = False


class TurnTracker:
    """Follows one source over any number of connections. Positions are samples of the source."""

    def __init__(self, detection: ServerVad | None) -> None:
        self._kept_hangover = 0
        if detection is not None:
            kept_ms = min(detection.prefix_padding_ms, detection.silence_duration_ms)
            self._kept_hangover = kept_ms * RATE // 1000
        self._base = 0
        self._turns: dict[str, _Turn] = {}
        self._recently_done: deque[str] = deque(maxlen=256)  # ids, to tell a late event from a turn
        self._unnamed: dict[str, int] = {}  # origins of done turns whose speakers are to come
        self._boundary = 0  # everything before belongs to a known turn or is silence
        self._committed_at: int | None = None  # where the source's end was committed
        self._flushed = False  # the server has answered everything up to that commit

    @property
    def needed_from(self) -> int:
        """The first sample that a new connection must hear."""
        return min((t.start for t in self._turns.values() if not t.done), default=self._boundary)

    @property
    def speaking(self) -> bool:
        """Whether some turn is not done."""
        return any(not t.done for t in self._turns.values())

    @property
    def finished(self) -> bool:
        """The source was committed to its end, and every turn is done."""
        return self._flushed and not self.speaking

    def connected(self, base: int) -> None:
        """A new connection, whose first sample is sample `base` of the source."""
        assert not self._turns, "disconnected() comes before connected()"
        self._base = base

    def end_committed(self, position: int) -> None:
        """The whole source, `position` samples, was sent and committed on this connection."""
        self._committed_at = position

    def disconnected(self) -> tuple[str, ...]:
        """The connection is lost: the ids of the turns that are void and will be said again."""
        self._boundary = self.needed_from
        void = tuple(t.item_id for t in self._turns.values() if not t.done)
        self._turns.clear()
        self._committed_at = None
        self._flushed = False
        self._recently_done.clear()
        self._unnamed.clear()
        return void

    def skipped_to(self, position: int) -> None:
        """Audio before `position` is gone from the replay buffer: do not ask for it again."""
        self._boundary = max(self._boundary, position)

    def blanks(self) -> list[tuple[int, int]]:
        """Stretches of done turns that lie behind the oldest unfinished one."""
        oldest = self.needed_from
        return [
            (t.start, t.safe_end)
            for t in self._turns.values()
            if t.done and t.safe_end is not None and t.safe_end > oldest
        ]

    def receive(self, message: Mapping[str, Any]) -> list[Event]:
        """Take one server event (`error` excepted) and say what it means to the user.

        ProtocolError if a known event lacks what it must have. Unknown events mean nothing.
        """
        kind = str(message.get("type", ""))
        try:
            return self._receive(kind, message)
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"server event {kind!r} is not well formed: {error!r}") from error

    def _receive(self, kind: str, message: Mapping[str, Any]) -> list[Event]:
        if kind == "session.updated":
            return [_ready(message["session"])]
        if kind == "input_audio_buffer.cleared":
            self._flushed = self._committed_at is not None
            return []
        if kind == "input_audio_buffer.speech_started":
            start = self._base + int(message["audio_start_ms"]) * RATE // 1000
            turn = self._turn(message["item_id"], start)
            return [SpeechStarted(turn.item_id, turn.start / RATE)]
        if kind == "input_audio_buffer.speech_stopped":
            turn = self._turn(message["item_id"])
            end = self._base + int(message["audio_end_ms"]) * RATE // 1000
            self._close(turn, end, end - self._kept_hangover)
            return [SpeechStopped(turn.item_id, end / RATE)]
        if kind == "input_audio_buffer.committed":
            turn = self._turn(message["item_id"])
            if turn.end is None and self._committed_at is not None:
                self._close(turn, self._committed_at, self._committed_at)
            return []
        if kind.startswith((_TRANSCRIPTION, _EXTENSION)):
            return self._transcription(kind.rpartition(".")[2], message)
        return []

    def _transcription(self, kind: str, message: Mapping[str, Any]) -> list[Event]:
        if kind == "speakers":
            origin = self._unnamed.pop(message["item_id"], None)
            said = () if origin is None else _said(message["segments"], origin)
            return [Speakers(message["item_id"], said)] if said else []
        if message["item_id"] in self._recently_done:
            raise ProtocolError(f"{kind} for item {message['item_id']!r}, which was already done")
        turn = self._turn(message["item_id"])
        if kind == "delta":
            return [TextDelta(turn.item_id, str(message["delta"]))] if message["delta"] else []
        if kind == "provisional":
            return [Provisional(turn.item_id, str(message["text"]))]
        if kind == "words":
            words = tuple(
                Word(
                    str(w["word"]),
                    turn.origin / RATE + float(w["start"]),
                    turn.origin / RATE + float(w["end"]),
                    float(w["probability"]),
                    w.get("speaker"),
                )
                for w in message["words"]
            )
            return [Words(turn.item_id, words)]
        if kind == "completed":
            self._done(turn)
            start = turn.start / RATE
            end = start if turn.end is None else turn.end / RATE
            text, language = str(message["transcript"]), _language(message)
            said = self._speakers(turn, message.get("lookhear") or {})
            return [TurnCompleted(turn.item_id, text, start, end, language, said)]
        if kind == "failed":
            self._done(turn)
            error = message["error"]
            return [TurnFailed(turn.item_id, error.get("code"), str(error.get("message", "")))]
        return []

    def _speakers(self, turn: _Turn, told: Mapping[str, Any]) -> tuple[Said, ...]:
        """Of a turn that is done. Those that the server never tells must not pile up."""
        if told.get("settled") is False:
            self._unnamed[turn.item_id] = turn.origin
            for old in list(self._unnamed)[:-256]:
                del self._unnamed[old]
        return _said(told.get("segments", ()), turn.origin)

    def _turn(self, item_id: str, start: int | None = None) -> _Turn:
        """The turn of that id; a new one starts at `start`, or where the last one ended."""
        if item_id not in self._turns:
            origin = self._boundary if start is None else start
            # The prefix padding may reach back over the end of the turn before.
            self._turns[item_id] = _Turn(item_id, max(origin, self._boundary), origin)
        return self._turns[item_id]

    def _close(self, turn: _Turn, end: int, safe_end: int) -> None:
        turn.end = end
        turn.safe_end = max(turn.start, safe_end)
        self._boundary = max(self._boundary, turn.safe_end)

    def _done(self, turn: _Turn) -> None:
        turn.done = True
        self._recently_done.append(turn.item_id)
        # Forget done turns at the front, so that an hour of talk costs what a minute costs.
        oldest = self.needed_from
        for old in list(self._turns.values()):
            if old.done and (old.safe_end is None or old.safe_end <= oldest):
                del self._turns[old.item_id]


def _ready(session: Mapping[str, Any]) -> SessionReady:
    transcription = session.get("audio", {}).get("input", {}).get("transcription") or {}
    model = transcription.get("model")
    return SessionReady(str(session.get("id", "")), None if model is None else str(model))


def _said(segments: Iterable[Mapping[str, Any]], origin: int) -> tuple[Said, ...]:
    at = origin / RATE
    return tuple(
        Said(str(s["speaker"]), str(s["text"]), at + float(s["start"]), at + float(s["end"]))
        for s in segments
    )


def _language(message: Mapping[str, Any]) -> str | None:
    languages = message.get("languages")
    return str(languages[0]["code"]) if languages else None
