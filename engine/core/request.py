"""What all requests have in common: their class, their cost, their progress, their result. Pure.

What is decoded, and how a prompt is laid out, belongs to the kind of model: see
`engine.whisper.request` (fixed rows and slots) and `engine.paged.request` (blocks of a cache).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

UNREAD = -1  # among tokens to feed: the one sampled last, which the host does not know yet


class Priority(Enum):
    """live: somebody is speaking, deadlines matter. batch: a file, whenever there is room."""

    LIVE = 0
    BATCH = 1


class RequestError(Exception):
    """This one request cannot be carried out; everything else goes on. code: for the client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Beginning:
    """Audio that several requests begin with: the same one for the same audio. What is kept of it
    goes when nobody holds it any more."""

    __slots__ = ("__weakref__",)


class Cost(NamedTuple):
    """What a request will take. encoder: samples of audio, or tokens of pictures, that the encoder
    may have to read. tokens: places in the paged cache, prompt and answer together; 0 where rows
    are fixed."""

    encoder: int
    tokens: int = 0


class Demand(NamedTuple):
    """What a running request could be fed next. known: tokens of its context that are not in the
    cache yet. draft: tokens to verify behind them. divisible: may be fed in chunks. waiting:
    somebody else is computing what it needs, so nothing is to be fed now."""

    known: int
    draft: int = 0
    divisible: bool = True
    waiting: bool = False


class StopReason(StrEnum):
    """Why a text is over."""

    END = "end"  # the model's own end token
    LENGTH = "length"  # as many tokens as were allowed
    REPETITION = "repetition"  # it said one phrase over and over
    STOPPED = "stop"  # its owner had what it wanted


@dataclass(frozen=True, slots=True)
class Result:
    """tokens: text (and timestamp) tokens after the forced prefix, without the end token.

    logprobs: natural log-probability per token. num_accepted: draft tokens that verification kept.
    num_passes: decoder passes it took. language: token id of a checkpoint with language tokens.
    no_speech_prob: probability of <|nospeech|> at the start token. token_times: (start, end) in
    seconds of the window per prefix+tokens token, if asked for. languages: of a checkpoint with
    language tokens, the log-probability of each, whatever was told or chosen. closings: in front of
    each token, and of the end, the log-probability of all that is no word, if asked for.
    """

    key: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    num_accepted: int
    stop: StopReason
    num_passes: int = 0
    language: int | None = None
    languages: Mapping[int, float] = field(default_factory=dict)
    no_speech_prob: float = 0.0
    token_times: tuple[tuple[float, float], ...] | None = None
    closings: tuple[float, ...] = ()


class Phase(Enum):
    """What a running request does next."""

    DETECT = "detect"  # head fed, waiting for the language
    PREFILL = "prefill"  # prompt, forced prefix and draft
    DECODE = "decode"  # one token at a time
    ALIGN = "align"  # the text is complete, when its tokens were said is wanted
    DONE = "done"


def is_looping(tokens: Sequence[int], room: int = 0) -> bool:
    """Whether the tail of tokens is one phrase said over and over (a decoder stuck in a loop).

    A phrase of n tokens must come 4 times, a single token 8 times, and all together be more than
    `room` tokens, so that a spoken "no no no no" passes.
    """
    count = len(tokens)
    for n in range(1, min(24, count // 4) + 1):
        repeats = max(8 if n == 1 else 4, room // n + 1)
        if tokens[-1 - n] != tokens[-1] or count < n * repeats:
            continue
        phrase = tokens[-n:]
        if all(tokens[-n * (r + 1) : -n * r] == phrase for r in range(1, repeats)):
            return True
    return False


@dataclass(slots=True, kw_only=True)
class GeneratedTokens:
    """The tokens sampled for one request so far, and whether there will be more.

    end_tokens: ids that end it. max_tokens: at most so many. loop_room: it stops when it repeats
    itself in more tokens than these (`is_looping`); None: never for that. tops: (token, log
    probability) of alternatives per token, if asked for. num_accepted, num_passes: as in `Result`.
    """

    end_tokens: frozenset[int]
    max_tokens: int
    loop_room: int | None = 0
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    tops: list[list[tuple[int, float]]] = field(default_factory=list)
    num_accepted: int = 0
    num_passes: int = 0
    stop: StopReason | None = None

    @property
    def room(self) -> int:
        """For a guess; behind it there is a place for another token."""
        return self.max_tokens - len(self.tokens) - 1

    def take(
        self,
        sampled: Sequence[int],
        logprobs: Sequence[float],
        draft: Sequence[int],
        tops: Sequence[list[tuple[int, float]]] | None = None,
    ) -> list[int]:
        """Take the tokens sampled behind the draft's positions; returns those that were appended.

        sampled[i] is the model's choice given the draft up to i; it counts only while all draft
        tokens before it were the model's own choice. So the outcome is the one of plain decoding,
        and of the appended tokens all but the last are draft tokens that were accepted.
        """
        assert len(sampled) == len(draft) + 1 and not self.stop, (len(sampled), len(draft))
        self.num_passes += 1
        appended: list[int] = []
        for i, (token, logprob) in enumerate(zip(sampled, logprobs, strict=True)):
            if token in self.end_tokens:
                self.stop = StopReason.END
                break
            appended.append(token)
            self.tokens.append(token)
            self.logprobs.append(logprob)
            if tops is not None:
                self.tops.append(tops[i])
            if self.loop_room is not None and is_looping(self.tokens, self.loop_room):
                self.stop = StopReason.REPETITION
            elif len(self.tokens) >= self.max_tokens:
                self.stop = StopReason.LENGTH
            accepted = i < len(draft) and draft[i] == token
            self.num_accepted += accepted
            if self.stop or not accepted:
                break
        return appended

    def cut(self, count: int) -> None:
        """Keep so many of the first tokens; there will be more."""
        del self.tokens[count:], self.logprobs[count:], self.tops[count:]
        self.num_accepted = min(self.num_accepted, count)
        self.stop = None


class AnyRequest(Protocol):
    """What requests of all kinds of model have."""

    @property
    def key(self) -> str:
        """Its owner's."""

    @property
    def draft(self) -> tuple[int, ...]:
        """What it is guessed to become."""


Q = TypeVar("Q", bound=AnyRequest)


@dataclass(slots=True)
class RequestProgress(Generic[Q]):
    """How far a running request is. context: its tokens so far, as the host knows them.

    fed counts the context tokens whose keys and values are in the cache, or will be when what was
    launched is done; rejected drafts are simply overwritten, because fed does not count them.
    unread counts tokens that were sampled in what was launched, and not read. A request whose next
    step depends on them is held until they are.
    """

    request: Q
    phase: Phase = field(default=Phase.PREFILL, kw_only=True)
    fed: int = field(default=0, kw_only=True)
    unread: int = field(default=0, kw_only=True)
    context: list[int] = field(init=False)
    generated: GeneratedTokens = field(init=False)
    _depends: bool = field(init=False, default=False)  # on what was launched

    @property
    def key(self) -> str:
        """The owner's."""
        return self.request.key

    @property
    def num_drafted(self) -> int:
        """Tokens that were guessed, verified or not."""
        return len(self.request.draft)

    @property
    def num_known(self) -> int:
        """Tokens to feed that are not guesses."""
        return len(self.context) + self.unread - self.fed

    @property
    def _is_held(self) -> bool:
        # Whether the text may go on is known before the token that makes it as long as allowed.
        is_full = len(self.generated.tokens) + self.unread >= self.generated.max_tokens
        return self._depends or is_full

    def _take(
        self,
        sampled: Sequence[int],
        logprobs: Sequence[float],
        draft: Sequence[int],
        tops: Sequence[list[tuple[int, float]]] | None = None,
    ) -> list[int]:
        """What was sampled in the step that was launched first of those not read: see
        `GeneratedTokens.take`."""
        taken = self.generated.take(sampled, logprobs, draft, tops)
        self.context += taken
        if self.unread:
            self.unread -= 1
        else:
            self.fed = len(self.context) - 1
        self._depends = False
        return taken

    def result(self) -> Result:
        """What came of the request. Only when done."""
        generated = self.generated
        assert self.phase is Phase.DONE and generated.stop is not None
        return Result(
            key=self.key,
            tokens=tuple(generated.tokens),
            logprobs=tuple(generated.logprobs),
            num_accepted=generated.num_accepted,
            stop=generated.stop,
            num_passes=generated.num_passes,
        )
