"""lookhear's client: live transcription over the OpenAI Realtime protocol, and chat.

from lookhear import AsyncClient, TextDelta

client = AsyncClient("http://127.0.0.1:8000")
async for event in client.transcribe("talk.wav"):
    if isinstance(event, TextDelta):
        print(event.text, end="")

async for text in client.chat("What is on the picture?", images=["street.jpg"]):
    print(text, end="")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lookhear.blocking import BlockingAnswer, BlockingConversation, Client
    from lookhear.chat.answers import (
        Answer,
        AnswerCompleted,
        AnswerDelta,
        AnswerEvent,
        AnswerRestarted,
        QuestionHeard,
        ReasoningDelta,
        Usage,
    )
    from lookhear.chat.content import message
    from lookhear.chat.conversation import Conversation
    from lookhear.client import AsyncClient
    from lookhear.errors import (
        AddressError,
        AuthenticationError,
        ConnectionFailed,
        InvalidRequest,
        LookhearError,
        ModelNotFound,
        NotInstalled,
        ProtocolError,
        ServerError,
        SourceError,
    )
    from lookhear.live.events import (
        Event,
        Provisional,
        Reconnecting,
        SessionReady,
        SpeechStarted,
        SpeechStopped,
        TextDelta,
        TurnCompleted,
        TurnFailed,
        Word,
        Words,
    )
    from lookhear.live.turns import ServerVad
    from lookhear.results import Model, Transcript
    from lookhear.sources.microphone import Microphone
    from lookhear.transport.retry import Retry

__version__: str
# Where each name is. They are loaded when they are used: who imports `lookhear.engine` on a bare
# GPU box, or asks for `lookhear --version`, has no use for sockets and sound files.
_HOMES = {
    "blocking": (
        "BlockingAnswer",
        "BlockingConversation",
        "Client",
    ),
    "chat.answers": (
        "Answer",
        "AnswerCompleted",
        "AnswerDelta",
        "AnswerEvent",
        "AnswerRestarted",
        "QuestionHeard",
        "ReasoningDelta",
        "Usage",
    ),
    "chat.content": ("message",),
    "chat.conversation": ("Conversation",),
    "client": ("AsyncClient",),
    "errors": (
        "AddressError",
        "AuthenticationError",
        "ConnectionFailed",
        "InvalidRequest",
        "LookhearError",
        "ModelNotFound",
        "NotInstalled",
        "ProtocolError",
        "ServerError",
        "SourceError",
    ),
    "live.events": (
        "Event",
        "Provisional",
        "Reconnecting",
        "SessionReady",
        "SpeechStarted",
        "SpeechStopped",
        "TextDelta",
        "TurnCompleted",
        "TurnFailed",
        "Word",
        "Words",
    ),
    "live.turns": ("ServerVad",),
    "results": (
        "Model",
        "Transcript",
    ),
    "sources.microphone": ("Microphone",),
    "transport.retry": ("Retry",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AddressError",
    "Answer",
    "AnswerCompleted",
    "AnswerDelta",
    "AnswerEvent",
    "AnswerRestarted",
    "AsyncClient",
    "AuthenticationError",
    "BlockingAnswer",
    "BlockingConversation",
    "Client",
    "ConnectionFailed",
    "Conversation",
    "Event",
    "InvalidRequest",
    "LookhearError",
    "Microphone",
    "Model",
    "ModelNotFound",
    "NotInstalled",
    "ProtocolError",
    "Provisional",
    "QuestionHeard",
    "ReasoningDelta",
    "Reconnecting",
    "Retry",
    "ServerError",
    "ServerVad",
    "SessionReady",
    "SourceError",
    "SpeechStarted",
    "SpeechStopped",
    "TextDelta",
    "Transcript",
    "TurnCompleted",
    "TurnFailed",
    "Usage",
    "Word",
    "Words",
    "message",
]


def __getattr__(name: str) -> Any:
    """Loads a public name when it is first used (PEP 562). AttributeError for any other."""
    if name == "__version__":
        return _version()
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def _version() -> str:
    """Of the installed distribution: pyproject.toml alone says it."""
    from importlib import metadata  # takes longer than the rest of this module

    try:
        return metadata.version("lookhear")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "(not installed)"


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__, "__version__"})
