"""What a live transcription yields. Times are seconds from the first sample of the source.

A *turn* is one utterance, named by its item id. Per turn, in order: `SpeechStarted` (voice
detection only), `TextDelta`*, `SpeechStopped`, then exactly one of `TurnCompleted`, `TurnFailed`;
deltas may come before and after `SpeechStopped`. Joined deltas equal `TurnCompleted.text`.
Only `Provisional` is ever taken back (the next one of the turn replaces it), and, when the
connection breaks, whole unfinished turns: `Reconnecting.superseded` names them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionReady:
    """The server accepted the session; comes again after a reconnect. model: None if not said."""

    session_id: str
    model: str | None


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """A turn began; `start` counts the padding before its first sound."""

    item_id: str
    start: float


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """Nobody speaks any more; the end of the turn, its silence included."""

    item_id: str
    end: float


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text that follows all earlier deltas of the turn and is never taken back."""

    item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Provisional:
    """The present guess of what follows the turn's committed text; replaces the last guess."""

    item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """One word and its times. probability: of its text, 0 to 1, as the model sees it. speaker: A,
    B, ..., as far as was known when it was told; None: nobody asked."""

    word: str
    start: float
    end: float
    probability: float
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """Times of words whose text has been committed."""

    item_id: str
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """A part of a turn that one speaker says: A, B, ..."""

    speaker: str
    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """The whole turn. start and end: its place in the source; language: None if not said. said: who
    said what of it, if that was asked for, as far as is known; `Speakers` tells what is known only
    later."""

    item_id: str
    text: str
    start: float
    end: float
    language: str | None = None
    said: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class Speakers:
    """Who said what of a turn that was completed before. For good."""

    item_id: str
    said: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The server gave this turn up; the session goes on."""

    item_id: str
    code: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Reconnecting:
    """The connection was lost. Text of the `superseded` turns is void: their audio is sent again
    and comes back under new item ids. There are none while the server may have kept the session;
    where it turns out that it has not, another `Reconnecting` names them.

    resume: where in the source the replay starts; lost: seconds that had to be given up because
    the replay buffer is bounded (0.0 unless a turn was longer than the buffer). patience: seconds
    for which the server is still sought; what is said meanwhile is kept.
    """

    attempt: int
    delay: float
    reason: str
    superseded: tuple[str, ...]
    resume: float
    lost: float = 0.0
    patience: float = 0.0


Event = (
    SessionReady
    | SpeechStarted
    | SpeechStopped
    | TextDelta
    | Provisional
    | Words
    | TurnCompleted
    | Speakers
    | TurnFailed
    | Reconnecting
)
