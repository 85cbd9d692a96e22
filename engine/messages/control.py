"""What is neither speech nor chat: sessions, and the engine's own life."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CloseSession:
    """The client is gone: its turns, answers and pictures are dropped, rows and blocks freed."""

    session: str


@dataclass(frozen=True, slots=True)
class ExpectSpeech:
    """The session was let in and may begin to speak at any moment: it has a place from now on.
    Who was not announced asks for one with its first turn, and may be refused."""

    session: str
    model: str


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for a `Pong` of the same number."""

    number: int


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End now; whatever is under way is dropped."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A served model. languages: ISO codes it can detect and transcribe (empty: one that
    it does not name, or those it finds out without naming them).
    has_word_times: whether it can say when each word was spoken; see `untimed`. timed_languages:
    ISO codes in which it can; empty: in all of its. takes_aligner: whether it has none because its
    server has no --aligner. abilities: among "transcribe", "diarise", "chat", "image", "video",
    "audio" (of one that chats: it hears recordings), "embed", "score", "adapters", "prompt_embeds"
    (it reads embeddings that clients made). context_tokens: of one answer with its prompt; 0 if it
    does not chat. max_answers: that one engine writes at once; 0: as many as are asked for. toy: it
    knows a small closed world, and what it writes of anything else means nothing. checkpoint: what
    was loaded, as `EngineConfig.model` takes it. reason: why that, in words, if the engine had to
    choose. parent: of one with an adapter, the model's own name.
    aliases: other names that it is asked by. stands_in: it is also asked by names that no served
    model has. The gateway fills these two in.
    """

    id: str
    architecture: str
    languages: list[str]
    created: int
    parameters: int
    has_word_times: bool = True
    timed_languages: list[str] = field(default_factory=list)
    takes_aligner: bool = False
    abilities: list[str] = field(default_factory=lambda: ["transcribe"])
    context_tokens: int = 0
    max_answers: int = 0
    toy: bool = False
    checkpoint: str = ""
    reason: str = ""
    parent: str = ""
    aliases: list[str] = field(default_factory=list)
    stands_in: bool = False

    def can(self, ability: str) -> bool:
        """Whether it has the ability."""
        return ability in self.abilities

    def untimed(self, language: str | None) -> str | None:
        """Why it cannot say when the words of a language were spoken; None if it can, or could.
        language: ISO code; None: it will be found out."""
        if not self.has_word_times:
            wanted = " (its server wants an aligner for that: --aligner)"
            return f"{self.id} has no word times{wanted if self.takes_aligner else ''}"
        if language is None or not self.timed_languages or language in self.timed_languages:
            return None
        return f"{self.id} has word times in {', '.join(self.timed_languages)}"

    def is_called(self, name: str) -> bool:
        """Whether that is its name or an alias of it."""
        return name == self.id or name in self.aliases


@dataclass(frozen=True, slots=True)
class Ready:
    """First event of an engine process: what it serves and how much of it."""

    models: list[ModelCard]
    max_live_turns: int
    device: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Starting:
    """Progress while the engine loads: a stage in words and the share done, 0 to 1."""

    stage: str
    fraction: float


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """Sessions that have a place to speak, and what more of them would do; see
    `engine.admission.admission`. Times in seconds.

    speakers: with a place. places: how many more may have one. lag: p95 of the commit lag that the
    load would make with one speaker more; lag_beyond: with one more than there are places for.
    bound: what it should keep within. come_back: when somebody will probably have gone. tick: what
    one speaker's takes the engine now, alone; 0.0 if that was never measured.
    """

    speakers: int
    places: int
    lag: float
    lag_beyond: float
    bound: float
    come_back: float
    tick: float = 0.0

    @property
    def refusal(self) -> str:
        """To one for whom there is no place: what was expected, what came, when to come back."""
        return (
            f"expected a place among those whose words are text within {self.bound:g} s (p95); with"
            f" one speaker more it would take {self.lag_beyond:.1f} s, so all are taken; come back"
            f" in {self.retry_after} s"
        )

    @property
    def retry_after(self) -> int:
        """Whole seconds."""
        return math.ceil(self.come_back)


@dataclass(frozen=True, slots=True)
class Pong:
    """Answer to `Ping`, sent by the thread that steps the engine: proof that the loop is alive.

    counters: numbers by name, see `EngineCore.stats`; busy_seconds: time spent in steps. All since
    the engine's start, apart from those that say how it is now. load: of an engine that transcribes
    and bounds the lag. longest_step: since the engine's start, in seconds.
    """

    number: int
    counters: dict[str, int] = field(default_factory=dict)
    busy_seconds: float = 0.0
    load: LiveLoad | None = None
    longest_step: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestDone:
    """A tick, a window of a file or an answer was computed; what comes of it follows. work: the
    turn or answer; or the file, which has no session; or a section of a long one, whose session is
    the file. priority: `live` or `batch`. waited: seconds from the moment at which it was wanted to
    its first step. took: seconds from there, which steps for others are part of.
    """

    session: str
    work: str
    priority: str
    waited: float
    took: float


@dataclass(frozen=True, slots=True)
class EngineFailed:
    """The engine could not start or is about to stop; what every session must be told."""

    code: str
    message: str
