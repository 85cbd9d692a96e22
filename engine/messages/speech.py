"""Speech: turns of live listeners and whole recordings.

A *turn* is one utterance or one committed buffer of a session, named by its conversation item id.
Audio is always mono float32 at 16 kHz. Times are seconds from the first sample of the turn.

Order per turn, gateway to engine: `StartTurn`, `AppendAudio`*, then `EndTurn` or `CancelTurn`.
Engine to gateway: (`TextCommitted` | `TextProvisional`)*, then exactly one of `TurnCompleted`,
`TurnFailed`; after `CancelTurn` nothing more. Joined `TextCommitted.text` equals
`TurnCompleted.text`, character for character.

An engine may die. Of a turn that is to outlive it, each event that settles something brings a
`TurnState`, or `TurnSettled` does; with the audio from there on another engine goes on: see
`engine.client.journal`. Before such a turn come `RecallLanguage` and `RecallSegment`*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Delay = Literal["minimal", "low", "medium", "high", "xhigh"]

SAMPLE_RATE = 16_000  # samples per second of every waveform that reaches the engine


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One emitted token: its text, natural-log probability and UTF-8 bytes."""

    token: str
    logprob: float
    bytes: list[int]


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its place in the turn, in seconds. speaker: as in `SpeakerTurn`, if one was asked
    who speaks."""

    word: str
    start: float
    end: float
    probability: float
    speaker: int | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of text with its place in the turn or file, in seconds. temperature: at which it
    was sampled. speaker: as of a word. language: ISO code, None if that is not known."""

    text: str
    start: float
    end: float
    tokens: list[int]
    avg_logprob: float
    no_speech_prob: float
    temperature: float = 0.0
    speaker: int | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class TranscriptionSettings:
    """How a session's speech is to be turned into text.

    language: ISO-639-1 code, or None to detect it. languages: the only ones that may be detected;
    empty: any. task: "transcribe" or "translate" (into English). prompt: text given to the model as
    what was said before. keywords: words that are expected, to be heard more readily. delay: how
    long live text may wait to be surer; None: as long as the server thinks best.
    """

    model: str
    language: str | None = None
    languages: tuple[str, ...] = ()
    task: str = "transcribe"
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    delay: Delay | None = None
    logprobs: bool = False
    provisional: bool = False
    words: bool = False

    @property
    def context(self) -> str:
        """Prompt and keywords as one text, for a model that reads both as one."""
        return " ".join(filter(None, (self.prompt, ", ".join(self.keywords))))


@dataclass(frozen=True, slots=True)
class SaidSegment:
    """A segment that is said for good, and heard again in front of what follows.

    begin, end: its audio in the turn, in samples. lead: samples of silence in front of it. voiced:
    where its speech ends, counted from the beginning of that silence. tokens: of its text, but
    for improbable words. language, task: as in `TranscriptionSettings`.
    """

    begin: int
    end: int
    lead: int
    voiced: int
    tokens: list[int]
    language: str | None
    task: str


@dataclass(frozen=True, slots=True)
class TurnState:
    """What is settled of a turn: with its audio from `start` on, all that it takes to go on.

    start: where the open segment begins. voiced_until: of the audio before it. commit_end: where
    the audio ended in which words were committed last. All in samples from the turn's beginning.
    committed, closed: tokens of the open segment; the latest before it. improbable: places of the
    open segment's that were. text: all that was said so far (the engine leaves it out, whoever
    keeps the state has it). language: settled, or None. ended: how probably a sentence ends behind
    the text. heard: of each language, its log-probability by the last tick. language_checks: how
    often it was asked for alone. num_tokens: committed in all. unfinished: bytes of a character
    that is not complete; untold: their tokens. is_apart: the next text wants a space in front.
    timed: seconds up to the end of the last word that was told with its times. is_alone: the open
    segment is heard without those before it. said: segments closed since the last state.
    num_earlier: how many of the session's last segments are heard again; num_own: of the last ones
    that are recalled in front of it, how many the turn itself has said. belief, spoken, is_solid:
    of the session, once the turn is over: see `SessionLanguage`.
    """

    start: int = 0
    voiced_until: int = 0
    commit_end: int = 0
    committed: list[int] = field(default_factory=list)
    improbable: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    text: str = ""
    language: str | None = None
    ended: float = 0.0
    heard: dict[str, float] = field(default_factory=dict)
    language_checks: int = 0
    num_tokens: int = 0
    unfinished: bytes = b""
    untold: list[TokenLogprob] = field(default_factory=list)
    is_apart: bool = False
    timed: float = 0.0
    is_alone: bool = False
    said: list[SaidSegment] = field(default_factory=list)
    num_earlier: int = 0
    num_own: int = 0
    belief: dict[str, float] | None = None
    spoken: dict[str, tuple[int, float]] | None = None
    is_solid: bool = False


@dataclass(frozen=True, slots=True)
class RecallLanguage:
    """What the session was in, after its last turn. candidates: the `languages` of its settings.
    belief, spoken, is_solid: as in `TurnState`."""

    session: str
    candidates: tuple[str, ...]
    belief: dict[str, float]
    spoken: dict[str, tuple[int, float]]
    is_solid: bool = False


@dataclass(frozen=True, slots=True)
class RecallSegment:
    """What the session said before, oldest first. samples: from `said.begin` to `said.end`."""

    session: str
    said: SaidSegment
    samples: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StartTurn:
    """A turn begins; its audio follows. tells_state: its events say what is settled. resume: an
    engine that is gone has heard it up to there; the audio from there on follows."""

    session: str
    turn: str
    settings: TranscriptionSettings
    tells_state: bool = False
    resume: TurnState | None = None


@dataclass(frozen=True, slots=True)
class AppendAudio:
    """More samples of a turn. voiced_until: samples of the turn up to the end of the last window
    in which the voice detector heard speech (0: none yet); beyond it there is only silence."""

    session: str
    turn: str
    samples: NDArray[np.float32]
    voiced_until: int


@dataclass(frozen=True, slots=True)
class EndTurn:
    """No more audio will come for the turn: transcribe what is there and complete it."""

    session: str
    turn: str


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """Forget the turn. The engine sends nothing more about it."""

    session: str
    turn: str


@dataclass(frozen=True, slots=True)
class TranscribeFile:
    """A whole recording at once (the HTTP endpoint): answered by `FileTranscribed` or `FileFailed`.
    The work is of class `batch`: live turns go first.

    speech: where a voice detector heard somebody, as (first sample, end), in order and apart; what
    is far from all of it is not transcribed. None: nobody listened for voices, so all of it is.
    temperature: 0 for the likeliest text, and sampling where that fails. tells_progress: wants
    `FileProgress`, too. continues: another one said what was in front of it, so its text begins as
    that of a later segment does. language_before: ISO code of that, where nobody named a language.
    """

    request: str
    settings: TranscriptionSettings
    samples: NDArray[np.float32]
    timestamps: bool = False
    temperature: float = 0.0
    speech: list[tuple[int, int]] | None = None
    tells_progress: bool = False
    continues: bool = False
    language_before: str | None = None


@dataclass(frozen=True, slots=True)
class CancelFile:
    """Nobody wants the transcript any more. The engine sends nothing more about it."""

    request: str


@dataclass(frozen=True, slots=True)
class TextCommitted:
    """Text that will never change; it follows all text committed for this turn before."""

    session: str
    turn: str
    text: str
    logprobs: list[TokenLogprob] | None = None
    words: list[Word] | None = None
    state: TurnState | None = None


@dataclass(frozen=True, slots=True)
class TurnSettled:
    """Something is settled without a text: a segment was closed, or silence went by."""

    session: str
    turn: str
    state: TurnState


@dataclass(frozen=True, slots=True)
class TextProvisional:
    """The model's present guess of what follows the committed text; replaces the last one.

    heard: samples of the turn that it is of. ended: how probably a sentence ends behind all that
    was said, by the model's choice of its last sign. closing: how probable it was behind the last
    word that no other comes; None: not known.
    """

    session: str
    turn: str
    text: str
    heard: int = 0
    ended: float = 0.0
    closing: float | None = None


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """The whole turn. language: ISO code detected or given, None if the model has just one.
    duration: seconds of its audio. num_tokens: of the text. state: as it was told last, where
    `StartTurn` asked for it."""

    session: str
    turn: str
    text: str
    language: str | None
    duration: float
    num_tokens: int
    state: TurnState | None = None


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """code: machine word such as `server_error`, `model_not_found`, `audio_too_long`."""

    session: str
    turn: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class FileProgress:
    """More of a recording was heard: `seconds` of its `duration` are done with. segments: the next
    ones; joined, all that come are those of `FileTranscribed`. duration: 0: not known yet."""

    request: str
    segments: list[Segment]
    seconds: float
    duration: float


@dataclass(frozen=True, slots=True)
class FileTranscribed:
    """The whole recording. language, duration, num_tokens: as in `TurnCompleted`. logprobs: of the
    text's tokens, if they were asked for. num_audio_tokens, num_text_tokens: that the model read in
    all: places of the encoder's output, and of prompts."""

    request: str
    text: str
    language: str | None
    duration: float
    segments: list[Segment] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    num_tokens: int = 0
    logprobs: list[TokenLogprob] | None = None
    num_audio_tokens: int = 0
    num_text_tokens: int = 0


@dataclass(frozen=True, slots=True)
class FileFailed:
    """code: machine word, as in `TurnFailed`."""

    request: str
    code: str
    message: str
