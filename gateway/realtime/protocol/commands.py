"""What a client asks of a session, whatever words its dialect has for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from lookhear.engine.messages import ModelCard
from lookhear.gateway.realtime.settings import ConverseSettings, SessionSettings

Detail = Literal["auto", "low", "high"]


@dataclass(frozen=True, slots=True)
class NewText:
    """A part of an item: something written. path: of it in the frame, for errors."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class NewImage:
    """A part of an item: a picture. path: of its URL in the frame, for errors and to find what was
    loaded from it."""

    url: str
    detail: Detail
    path: str


@dataclass(frozen=True, slots=True)
class NewAudio:
    """A part of an item: speech. audio: bytes in the session's format, to be transcribed; None:
    `transcript` says it all."""

    audio: bytes | None
    transcript: str | None
    path: str


@dataclass(frozen=True, slots=True)
class NewCall:
    """All of an item: a call of a tool, as a conversation before had it."""

    call_id: str | None
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class NewOutput:
    """All of an item: what came of a call. path: of the output, for errors."""

    call_id: str
    output: str
    path: str


NewPart = NewText | NewImage | NewAudio | NewCall | NewOutput


@dataclass(frozen=True, slots=True)
class NewItem:
    """What an item will be. id: the client's, if it chose one. path: in the frame, like "item"."""

    id: str | None
    role: Literal["user", "system", "assistant", "tool"]
    parts: tuple[NewPart, ...]
    path: str


@dataclass(frozen=True, slots=True)
class ItemReference:
    """An item that is in the conversation already."""

    id: str
    path: str


@dataclass(frozen=True, slots=True)
class ResponsePlan:
    """How one response is made. in_conversation: its item joins the conversation."""

    settings: ConverseSettings
    in_conversation: bool
    metadata: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class Append:
    """The next audio. audio: bytes in the session's audio format."""

    audio: bytes
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Base of the others. event_id: the client's name of this one, echoed in errors about it.
    name: what the dialect calls such a command, for errors."""

    event_id: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Configure(Command):
    """change: the present settings and the served models -> the settings from now on. It raises
    ProtocolError, and then nothing is changed."""

    change: Callable[[SessionSettings, Sequence[ModelCard]], SessionSettings]


@dataclass(frozen=True, slots=True)
class Commit(Command):
    """The turn ends here."""


@dataclass(frozen=True, slots=True)
class Clear(Command):
    """Forget the audio since the last commit."""


@dataclass(frozen=True, slots=True)
class Finish(Command):
    """No more will come: commit what there is, say what is still to be said, then hang up."""


@dataclass(frozen=True, slots=True)
class CreateItem(Command):
    """after: the id of the item that it follows, `ROOT` for the beginning, None for the end."""

    item: NewItem
    after: str | None


@dataclass(frozen=True, slots=True)
class RetrieveItem(Command):
    """Say what an item is."""

    item_id: str


@dataclass(frozen=True, slots=True)
class DeleteItem(Command):
    """Take an item out of the conversation."""

    item_id: str


@dataclass(frozen=True, slots=True)
class TruncateItem(Command):
    """Cut an answer. milliseconds: of its audio, which there is not. characters: of its text that
    are kept, None if nothing is said of them."""

    item_id: str
    content_index: int
    milliseconds: int
    characters: int | None


@dataclass(frozen=True, slots=True)
class CreateResponse(Command):
    """plan: the session's settings -> those of this response; it raises ProtocolError. context:
    what it answers instead of the conversation."""

    plan: Callable[[ConverseSettings], ResponsePlan]
    context: Sequence[NewItem | ItemReference] | None


@dataclass(frozen=True, slots=True)
class CancelResponse(Command):
    """response_id: None for the one that writes to the conversation."""

    response_id: str | None


@dataclass(frozen=True, slots=True)
class ClearOutput(Command):
    """Stop what is played. Nothing ever is."""


@dataclass(frozen=True, slots=True)
class AppendFrame(Command):
    """A picture of a live camera. url: data: only. timestamp_ms: on the client's clock."""

    url: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ClearFrames(Command):
    """Forget what the camera showed."""


RareCommand = (
    Configure
    | Commit
    | Clear
    | Finish
    | CreateItem
    | RetrieveItem
    | DeleteItem
    | TruncateItem
    | CreateResponse
    | CancelResponse
    | ClearOutput
    | AppendFrame
    | ClearFrames
)
ClientCommand = Append | RareCommand
