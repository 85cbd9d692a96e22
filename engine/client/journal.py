"""What one session has under way at one model, so that another engine can go on with it. Pure.

Data flow: every message of the session passes `sent`, every event `heard`. The engine says with its
text how far a turn is settled (`TurnState`): audio from there on is kept, and that of the segments
that are heard again in front of what follows. `replay` is what a fresh engine must be told; what
was said is never said again, since committed words are a forced prefix there. A question is asked
again from its beginning: its answer is the same, seed for seed, and what the client has of it is
left out; an answer that takes another course fails, alone.

Positions are samples from the beginning of a turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import (
    SAMPLE_RATE,
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    AnswerText,
    AppendAudio,
    CancelAnswer,
    CancelTurn,
    DropPicture,
    DropRecording,
    EndTurn,
    Event,
    ExpectSpeech,
    HoldEmbeddings,
    HoldPicture,
    HoldRecording,
    Message,
    RecallLanguage,
    RecallSegment,
    StartAnswer,
    StartTurn,
    TextCommitted,
    TurnCompleted,
    TurnFailed,
    TurnSettled,
    TurnState,
)

Hold = HoldPicture | HoldRecording | HoldEmbeddings

# Of audio and pictures: of one session at one model, and of all. Beyond it nothing of a session is
# kept, and it does not outlive its engine.
MOST_BYTES, MOST_BYTES_IN_ALL = 128 << 20, 2 << 30


@dataclass(slots=True)
class Held:
    """What all journals hold, in bytes, and the audio that some forgot, in seconds."""

    limit: int = MOST_BYTES_IN_ALL
    bytes: int = 0
    forgotten_seconds: float = 0.0


@dataclass(slots=True)
class _Turn:
    """One that is open. audio: pieces from `state.start` on, each with its position."""

    start: StartTurn
    state: TurnState = TurnState()
    text: list[str] = field(default_factory=list)
    audio: deque[tuple[int, AppendAudio]] = field(default_factory=deque)
    num_samples: int = 0
    num_said: int = 0  # segments that it has left to the next
    has_ended: bool = False

    def samples(self, begin: int, end: int) -> NDArray[np.float32]:
        """What is kept of [begin, end), in one piece."""
        pieces = [m.samples[max(0, begin - at) : max(0, end - at)] for at, m in self.audio]
        return np.concatenate([np.zeros(0, np.float32), *pieces])

    def forget(self, end: int) -> int:
        """Pieces before a position; returns their bytes."""
        freed = 0
        while self.audio and self.audio[0][0] + len(self.audio[0][1].samples) <= end:
            freed += self.audio.popleft()[1].samples.nbytes
        return freed

    def replay(self) -> Iterator[Message]:
        start = self.state.start
        text = "".join(self.text)
        resume = replace(self.state, text=text, said=[], num_own=self.num_said)
        yield replace(self.start, resume=resume)
        for at, message in self.audio:
            yield replace(message, samples=message.samples[max(0, start - at) :])
        if self.has_ended:
            yield EndTurn(self.start.session, self.start.turn)


@dataclass(slots=True)
class _Answer:
    """One that is being written. told: text and calls that the client has, piece by piece;
    num_again: pieces of it that were written again."""

    question: StartAnswer
    has_started: bool = False
    told: list[AnswerText | AnswerCall] = field(default_factory=list)
    num_again: int = 0


class Journal:
    """held: what this and all others hold."""

    def __init__(self, session: str, model: str, held: Held) -> None:
        self._session = session
        self._model = model
        self._held = held
        self._bytes = 0
        self.is_whole = True  # else too much was under way, and nothing is kept
        self._is_expected = False  # it has a place to speak
        self._candidates: tuple[str, ...] = ()
        self._belief: dict[str, float] = {}
        self._spoken: dict[str, tuple[int, float]] = {}
        self._is_solid = False
        self._earlier: deque[RecallSegment] = deque()
        self._turns: dict[str, _Turn] = {}  # in their order
        self._media: dict[tuple[str, str], Hold] = {}  # by kind and name
        self._answers: dict[str, _Answer] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a turn is open or an answer being written."""
        return bool(self._turns or self._answers)

    def sent(self, message: Message) -> Message:
        """To the engine, now or when there is one. Returns what it is to be told."""
        match message:
            case StartTurn(_, name):
                message = replace(message, tells_state=True)
                self._is_expected = True
                self._turns[name] = _Turn(message)
            case AppendAudio(_, name, samples) if name in self._turns:
                turn = self._turns[name]
                if samples.base is not None:  # of something larger, that is not wanted any more
                    message = replace(message, samples=samples.copy())
                if self._keep(samples.nbytes):
                    turn.audio.append((turn.num_samples, message))
                else:
                    self._held.forgotten_seconds += len(samples) / SAMPLE_RATE
                turn.num_samples += len(samples)
            case EndTurn(_, name) if name in self._turns:
                self._turns[name].has_ended = True
            case CancelTurn(_, name):
                self._take_back(name)
                self._end_turn(name)
            case ExpectSpeech():
                self._is_expected = True
            case HoldPicture(_, _, name, values):
                self._hold(("picture", name), message, values.nbytes)
            case HoldRecording(_, _, name, values):
                self._hold(("recording", name), message, values.nbytes)
            case HoldEmbeddings(_, _, name, values):
                self._hold(("embeddings", name), message, values.nbytes)
            case DropPicture(_, _, name):
                self._drop(("picture", name))
            case DropRecording(_, _, name):
                self._drop(("recording", name))
            case StartAnswer(_, answer):
                self._answers[answer] = _Answer(message)
            case CancelAnswer(_, answer):
                self._answers.pop(answer, None)
        return message

    def heard(self, event: Event) -> Event | None:
        """From the engine. Returns what the session is to hear of it."""
        match event:
            case TextCommitted(_, name, text, state=state):
                if name in self._turns:
                    self._turns[name].text.append(text)
                    self._settle(self._turns[name], state)
                return replace(event, state=None)
            case TurnSettled(_, name, state):
                if name in self._turns:
                    self._settle(self._turns[name], state)
                return None
            case TurnCompleted(_, name, state=state):
                if (turn := self._turns.get(name)) is not None:
                    self._settle(turn, state)
                    if state is not None and state.belief is not None:
                        self._candidates = turn.start.settings.languages
                        self._belief, self._spoken = state.belief, state.spoken or {}
                        self._is_solid = state.is_solid
                    self._end_turn(name)
                return replace(event, state=None)
            case TurnFailed(_, name):
                self._end_turn(name)
            case (
                AnswerStarted(_, name)
                | AnswerText(_, name)
                | AnswerCall(_, name)
                | AnswerCompleted(_, name)
            ):
                if (answer := self._answers.get(name)) is not None:
                    return self._follow(answer, event)
            case AnswerFailed(_, name):
                self._answers.pop(name, None)
        return event

    def replay(self) -> list[Message]:
        """What an engine that knows nothing of the session must be told, in this order."""
        assert self.is_whole
        messages: list[Message] = []
        if self._is_expected:
            messages.append(ExpectSpeech(self._session, self._model))
        if self._belief:
            messages.append(
                RecallLanguage(
                    self._session, self._candidates, self._belief, self._spoken, self._is_solid
                )
            )
        messages += self._earlier
        for turn in self._turns.values():
            messages += turn.replay()
        messages += self._media.values()
        for answer in self._answers.values():
            answer.num_again = 0
            messages.append(answer.question)
        return messages

    def close(self) -> None:
        """The session is over: nothing is kept of it."""
        self._held.bytes -= self._bytes
        self._bytes = 0
        self._turns, self._media, self._answers = {}, {}, {}
        self._earlier.clear()

    # --- speech ----------------------------------------------------------------------------------

    def _settle(self, turn: _Turn, state: TurnState | None) -> None:
        if state is None or not self.is_whole:
            return
        for said in state.said:
            samples = turn.samples(said.begin, said.end)
            assert len(samples) == said.end - said.begin, (said, len(samples))
            if self._keep(samples.nbytes):
                self._earlier.append(RecallSegment(self._session, said, samples))
                turn.num_said += 1
        while len(self._earlier) > state.num_earlier:
            self._free(self._earlier.popleft().samples.nbytes)
        turn.state = state
        self._free(turn.forget(state.start))

    def _take_back(self, name: str) -> None:
        """What a turn has said for those that follow: see `EarlierSpeech`."""
        if (turn := self._turns.get(name)) is not None:
            for _ in range(min(turn.num_said, len(self._earlier))):
                self._free(self._earlier.pop().samples.nbytes)

    def _end_turn(self, name: str) -> None:
        if (turn := self._turns.pop(name, None)) is not None:
            self._free(turn.forget(turn.num_samples))

    # --- chat ------------------------------------------------------------------------------------

    def _follow(self, answer: _Answer, event: Event) -> Event | None:
        """What is new of an answer, the first time or again."""
        is_again = answer.num_again < len(answer.told)
        match event:
            case AnswerStarted():
                was_started, answer.has_started = answer.has_started, True
                return None if was_started else event
            case AnswerText() | AnswerCall():
                answer.num_again += 1
                # Another batch may change the last digits of probabilities, not the words.
                piece = replace(event, tokens=None) if isinstance(event, AnswerText) else event
                if not is_again:
                    answer.told.append(piece)
                    return event
                if answer.told[answer.num_again - 1] == piece:
                    return None
        if is_again:  # another text, or the end before all was said
            event = AnswerFailed(
                self._session,
                answer.question.answer,
                "engine_died",
                "the engine ended unexpectedly, and another one goes on in other words; ask again",
            )
        del self._answers[answer.question.answer]
        return event

    def _hold(self, key: tuple[str, str], message: Hold, count: int) -> None:
        self._drop(key)
        if self._keep(count):
            self._media[key] = message

    def _drop(self, key: tuple[str, str]) -> None:
        match self._media.pop(key, None):
            case (
                HoldPicture(_, _, _, values)
                | HoldRecording(_, _, _, values)
                | HoldEmbeddings(_, _, _, values)
            ):
                self._free(values.nbytes)

    # --- bounds ----------------------------------------------------------------------------------

    def _keep(self, count: int) -> bool:
        """Whether there is room for so many bytes more; else all is forgotten."""
        if not self.is_whole:
            return False
        if self._bytes + count <= MOST_BYTES and self._held.bytes + count <= self._held.limit:
            self._bytes += count
            self._held.bytes += count
            return True
        self.is_whole = False
        pieces = [m.samples for turn in self._turns.values() for _, m in turn.audio]
        pieces += [segment.samples for segment in self._earlier]
        self._held.forgotten_seconds += sum(map(len, pieces)) / SAMPLE_RATE
        for turn in self._turns.values():
            turn.audio.clear()
        self._earlier.clear()
        self._media.clear()
        self._held.bytes -= self._bytes
        self._bytes = 0
        return False

    def _free(self, count: int) -> None:
        if self.is_whole:
            self._bytes -= count
            self._held.bytes -= count
