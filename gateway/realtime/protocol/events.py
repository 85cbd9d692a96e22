"""What a session tells its client, whatever words the client's dialect has for it.

Items are the session's own and change later: an event is to be read at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lookhear.engine.messages import AnswerUsage, SpeakersHeard, TokenLogprob, Word
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.protocol.conversation import Item
from lookhear.gateway.realtime.settings import ConverseSettings, SessionSettings


@dataclass(frozen=True, slots=True)
class ResumeOffer:
    """With this token a client whose socket was cut may come back, for so many seconds."""

    token: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SessionCreated:
    """The socket is open. expires_at: Unix seconds, None: it does not. created_at: Unix seconds.
    toys: those of its models that know a small closed world alone. resume: None: it ends with its
    socket."""

    session: str
    settings: SessionSettings
    expires_at: int | None
    created_at: float = 0.0
    toys: tuple[str, ...] = ()
    resume: ResumeOffer | None = None


@dataclass(frozen=True, slots=True)
class SessionUpdated(SessionCreated):
    """The client changed the settings; these are all of them."""


@dataclass(frozen=True, slots=True)
class SessionResumed:
    """The client came back. What it sent and is not counted here, it is to send again. messages:
    of its messages, all together; audio_bytes: of the audio in its appends, decoded."""

    messages: int
    audio_bytes: int


@dataclass(frozen=True, slots=True)
class AudioUnpacked:
    """Of a client whose audio comes in a container: so many seconds of it, up to now."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SessionFinished:
    """All is said, after `Finish`; the socket closes next. seconds: of audio heard."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GoingAway:
    """The server ends in so many seconds at the latest, and this session before it, as soon as
    nothing of it is under way. Only to those who know our extensions."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """Something is wrong; the session goes on unless it closes next."""

    problem: ProtocolError


@dataclass(frozen=True, slots=True)
class SpeakingStarted:
    """Somebody speaks. item: what the turn will be; milliseconds: on the session's clock."""

    item: str
    milliseconds: int


@dataclass(frozen=True, slots=True)
class SpeakingStopped:
    """The speech of the turn has ended; milliseconds: on the session's clock."""

    item: str
    milliseconds: int


@dataclass(frozen=True, slots=True)
class EagerEnd:
    """The turn is probably over. text: what it is thought to say. over: how probably it is; None:
    nobody judged its sound."""

    item: str
    text: str
    over: float | None = None


@dataclass(frozen=True, slots=True)
class EagerResumed:
    """It was not over."""

    item: str


@dataclass(frozen=True, slots=True)
class FellSilent:
    """Nobody has spoken for `silence_ms` of the settings. milliseconds: where on the session's
    clock the last speech ended. Only on request."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class TurnCommitted:
    """A turn became an item of the conversation. start, seconds: where on the session's clock it
    begins and how long it is, in seconds. by_voice: a pause ended it, no command. over: how
    probably all was said, None: nobody judged its sound. was_judged: that ended it, before the
    silence was as long as it may be."""

    item: Item
    previous: str | None
    start: float
    seconds: float
    by_voice: bool = False
    over: float | None = None
    was_judged: bool = False


@dataclass(frozen=True, slots=True)
class NobodySpoke:
    """For `idle_timeout_ms` of the settings, behind an answer: the silence became an item, and is
    answered. start_ms, end_ms: of it, on the session's clock."""

    item: Item
    previous: str | None
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class AudioCleared:
    """The open turn was forgotten."""


@dataclass(frozen=True, slots=True)
class TranscriptEvent:
    """Base of what is about the speech in an item. part: the place of the audio in the item."""

    item: str
    part: int


@dataclass(frozen=True, slots=True)
class TranscriptDelta(TranscriptEvent):
    """Text that is never taken back. logprobs: None if not asked for, here and below."""

    text: str
    logprobs: Sequence[TokenLogprob] | None


@dataclass(frozen=True, slots=True)
class TranscriptProvisional(TranscriptEvent):
    """Text behind all deltas that may still change; replaces the last provisional text. Only on
    request."""

    text: str


@dataclass(frozen=True, slots=True)
class SpeakersKnown:
    """More is known of who speaks in the session. Only on request."""

    heard: SpeakersHeard


@dataclass(frozen=True, slots=True)
class SpeakersLost:
    """Nothing more will be known of who speaks in the session."""

    problem: ProtocolError


@dataclass(frozen=True, slots=True)
class TranscriptWords(TranscriptEvent):
    """When the words of the delta before were said, from the start of the turn. Only on request.
    named_from: where that is on the session's clock, in seconds, if it is wanted who says them."""

    words: Sequence[Word]
    named_from: float | None = None


@dataclass(frozen=True, slots=True)
class TranscriptDone(TranscriptEvent):
    """The whole text of a turn, its deltas joined. seconds: of its audio."""

    text: str
    seconds: float
    language: str | None
    logprobs: Sequence[TokenLogprob] | None


@dataclass(frozen=True, slots=True)
class TranscriptFailed(TranscriptEvent):
    """A turn could not be transcribed. problem: its param is the setting to blame, if one is, by
    its name in SessionSettings."""

    problem: ProtocolError


@dataclass(frozen=True, slots=True)
class ItemAdded:
    """An item of the client's is in the conversation, behind the item `previous`."""

    item: Item
    previous: str | None


@dataclass(frozen=True, slots=True)
class ItemRetrieved:
    """The item that was asked for."""

    item: Item


@dataclass(frozen=True, slots=True)
class ItemDeleted:
    """The item is gone."""

    item_id: str


@dataclass(frozen=True, slots=True)
class ItemTruncated:
    """An answer was cut, as the command said."""

    item_id: str
    content_index: int
    milliseconds: int


class ResponseStatus(StrEnum):
    """How a response ended."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What does not change of a response. conversation: the one that it writes to, if any."""

    id: str
    settings: ConverseSettings
    conversation: str | None
    metadata: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class ResponseCreated:
    """An answer is on its way."""

    head: ResponseHead


@dataclass(frozen=True, slots=True)
class ResponseOutput:
    """What the events about an item of a response have in common. index: which of its items."""

    head: ResponseHead
    item: Item
    index: int


@dataclass(frozen=True, slots=True)
class OutputStarted(ResponseOutput):
    """The item, still empty, follows the item `previous`."""

    previous: str | None


@dataclass(frozen=True, slots=True)
class OutputDelta(ResponseOutput):
    """More text of the answer, or of the thinking before it; of a call, more of its arguments."""

    text: str
    is_reasoning: bool = False


@dataclass(frozen=True, slots=True)
class OutputDone(ResponseOutput):
    """Nothing more comes of the item. is_there: it is in the conversation, and was not deleted."""

    previous: str | None
    is_there: bool


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """The one end of every response. items: all that it said. reason: of a status that is
    neither completed nor failed; problem: of a failure."""

    head: ResponseHead
    items: Sequence[Item]
    status: ResponseStatus
    usage: AnswerUsage
    reason: str | None = None
    problem: ProtocolError | None = None


@dataclass(frozen=True, slots=True)
class FrameKept:
    """A frame differed enough from the one before; so many are held now. Only on request."""

    timestamp_ms: int
    frames: int


@dataclass(frozen=True, slots=True)
class FramesCleared:
    """What the camera showed is forgotten."""


SessionEvent = (
    SessionCreated
    | SessionResumed
    | AudioUnpacked
    | SessionFinished
    | GoingAway
    | Refused
    | SpeakingStarted
    | SpeakingStopped
    | EagerEnd
    | EagerResumed
    | FellSilent
    | TurnCommitted
    | NobodySpoke
    | AudioCleared
    | TranscriptDelta
    | TranscriptProvisional
    | TranscriptWords
    | SpeakersKnown
    | SpeakersLost
    | TranscriptDone
    | TranscriptFailed
    | ItemAdded
    | ItemRetrieved
    | ItemDeleted
    | ItemTruncated
    | ResponseCreated
    | OutputStarted
    | OutputDelta
    | OutputDone
    | ResponseDone
    | FrameKept
    | FramesCleared
)
