"""One turn: an utterance on its way from the first sample to its transcript."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import SAMPLE_RATE, TextProvisional, TokenLogprob, TurnFailed
from lookhear.gateway.realtime.patience import Words
from lookhear.gateway.realtime.protocol.conversation import AudioContent, Item, Spoken
from lookhear.gateway.realtime.settings import SessionSettings

Samples = NDArray[np.float32]
# Silence behind speech that the engine must have heard to know its last words.
HEARD = SAMPLE_RATE * 3 // 20
MOST_SPOKEN = 300.0  # seconds of a turn that a model hears as they sound
_NOTHING: Samples = np.zeros(0, dtype=np.float32)


@dataclass(slots=True)
class Turn:
    """item: the conversation item it becomes, with content_index the part. start: its first
    sample on the session's clock. name: what the engine calls it; `item` unless set.

    Open until it is committed; then it waits for the engine, and is forgotten once it completed
    or failed. A failure before the commit is kept and told after it.
    """

    item: str
    start: int
    settings: SessionSettings
    content_index: int = 0
    name: str = ""
    length: int = 0  # samples given to the engine
    voiced_until: int = 0  # samples from `start`
    announced: bool = False  # speech_started was sent, speech_stopped not yet
    overflowed: bool = False  # audio beyond the limit was refused, and the client told
    committed_at: float | None = None  # seconds, on the caller's clock
    wants_answer: bool = False  # a realtime session's: answer it once it is transcribed
    is_asked: bool = False  # a response of the client's, or of another turn, is to answer it
    part: AudioContent | None = None  # gets its transcript, wherever it is then; None: it is open
    failure: TurnFailed | None = None
    text: list[str] = field(default_factory=list)
    characters: int = 0  # of it
    provisional: str = ""  # what the engine guesses behind it
    heard: int = 0  # samples that the guess is of
    words: Words = Words(0.0)  # how probably a sentence ends behind it
    shown: str = ""  # the guess as the client has it
    logprobs: list[TokenLogprob] = field(default_factory=list)
    sound: float | None = None  # how probably it is over by it, if somebody said so
    kept: list[Samples] | None = None  # its audio, if the session's model hears; None: not kept
    guess: str | None = None  # all that it says, if it is probably over; kept when it is committed
    over: float | None = None  # how probably it is, when that was guessed

    def __post_init__(self) -> None:
        self.name = self.name or self.item

    @property
    def place(self) -> tuple[str, int]:
        """The item and the part whose transcript it becomes."""
        return self.item, self.content_index

    @property
    def named_from(self) -> float | None:
        """Where it begins, in seconds, if it is wanted who says its words. That of an item that
        the client made is on no clock of the session."""
        is_spoken = self.name == self.item and self.settings.diariser is not None
        return self.start / SAMPLE_RATE if is_spoken else None

    @property
    def end(self) -> int:
        """The session sample after its last one."""
        return self.start + self.length

    @property
    def hypothesis(self) -> str:
        """All that it is thought to say, as far as the engine has heard it."""
        return self.committed_text + self.provisional

    @property
    def committed_text(self) -> str:
        """What it says for sure."""
        return "".join(self.text)

    def keep(self, samples: Samples) -> None:
        """The next samples, where they are kept. What is too long to be heard is only read."""
        if self.kept is not None:
            self.kept.append(samples)
            if self.seconds > MOST_SPOKEN:
                self.kept = None

    @property
    def spoken(self) -> Spoken | None:
        """All of it, as it sounds."""
        return Spoken(f"{self.name}.sound", np.concatenate(self.kept)) if self.kept else None

    def hear(self, guess: TextProvisional) -> None:
        """The engine's present guess."""
        self.provisional, self.heard = guess.text, guess.heard
        self.words = Words(guess.ended, guess.closing)

    def is_heard(self, voiced_until: int) -> bool:
        """Whether the guess is of all the speech so far. voiced_until: on the session's clock."""
        return self.start + self.heard >= voiced_until + HEARD

    @property
    def seconds(self) -> float:
        """Of audio given to the engine."""
        return self.length / SAMPLE_RATE


class Listener(Protocol):
    """Who wants to know what becomes of turns."""

    def add_item(self, item: Item) -> None:
        """A turn was committed."""

    @property
    def keeps_sound(self) -> bool:
        """Whether it wants what is said as it sounds, too."""

    def on_speech(self) -> None:
        """Somebody begins to speak."""

    def on_settled(self, turn: Turn) -> None:
        """A committed turn has its transcript, or has failed, and the client knows."""


def milliseconds(samples: int) -> int:
    """How long they last, rounded down."""
    return samples * 1000 // SAMPLE_RATE


class RecentAudio:
    """The samples up to now, as far back as a turn may still begin."""

    def __init__(self, start: int = 0) -> None:
        self.start = self.end = start  # the session's clock: samples heard so far
        self._chunks: deque[Samples] = deque()  # as they came; the first may begin before `start`

    def append(self, samples: Samples) -> None:
        """The next samples."""
        self._chunks.append(samples)
        self.end += len(samples)

    def slice(self, start: int, end: int) -> Samples:
        """Session samples [start, end), which must still be here."""
        assert self.start <= start <= end <= self.end, (self.start, start, end, self.end)
        found: list[Samples] = []
        last = self.end
        for chunk in reversed(self._chunks):  # usually the newest is all that is wanted
            first = last - len(chunk)
            if first < end:
                found.append(chunk[max(start - first, 0) : end - first])
            if first <= start:
                break
            last = first
        return found[0] if len(found) == 1 else np.concatenate([_NOTHING, *reversed(found)])

    def keep_from(self, start: int) -> None:
        """Forget what came before session sample `start`."""
        self.start = max(self.start, min(start, self.end))
        held = sum(len(chunk) for chunk in self._chunks)
        while self._chunks and self.end - held + len(self._chunks[0]) <= self.start:
            held -= len(self._chunks.popleft())
