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

if TYPE_CHECKING:  # `as`: so a type checker knows that they are for everybody
    from lookhear.blocking import BlockingAnswer as BlockingAnswer
    from lookhear.blocking import BlockingConversation as BlockingConversation
    from lookhear.blocking import Client as Client
    from lookhear.chat.answers import Answer as Answer
    from lookhear.chat.answers import AnswerCompleted as AnswerCompleted
    from lookhear.chat.answers import AnswerDelta as AnswerDelta
    from lookhear.chat.answers import AnswerEvent as AnswerEvent
    from lookhear.chat.answers import AnswerRestarted as AnswerRestarted
    from lookhear.chat.answers import QuestionHeard as QuestionHeard
    from lookhear.chat.answers import ReasoningDelta as ReasoningDelta
    from lookhear.chat.answers import Usage as Usage
    from lookhear.chat.content import message as message
    from lookhear.chat.conversation import Conversation as Conversation
    from lookhear.client import AsyncClient as AsyncClient
    from lookhear.errors import AddressError as AddressError
    from lookhear.errors import AuthenticationError as AuthenticationError
    from lookhear.errors import ConnectionFailed as ConnectionFailed
    from lookhear.errors import InvalidRequest as InvalidRequest
    from lookhear.errors import LookhearError as LookhearError
    from lookhear.errors import ModelNotFound as ModelNotFound
    from lookhear.errors import NotInstalled as NotInstalled
    from lookhear.errors import ProtocolError as ProtocolError
    from lookhear.errors import ServerError as ServerError
    from lookhear.errors import SourceError as SourceError
    from lookhear.live.events import Event as Event
    from lookhear.live.events import Provisional as Provisional
    from lookhear.live.events import Reconnecting as Reconnecting
    from lookhear.live.events import Said as Said
    from lookhear.live.events import SessionReady as SessionReady
    from lookhear.live.events import Speakers as Speakers
    from lookhear.live.events import SpeechStarted as SpeechStarted
    from lookhear.live.events import SpeechStopped as SpeechStopped
    from lookhear.live.events import TextDelta as TextDelta
    from lookhear.live.events import TurnCompleted as TurnCompleted
    from lookhear.live.events import TurnFailed as TurnFailed
    from lookhear.live.events import Word as Word
    from lookhear.live.events import Words as Words
    from lookhear.live.turns import ServerVad as ServerVad
    from lookhear.results import Model as Model
    from lookhear.results import Transcript as Transcript
    from lookhear.sources.microphone import Microphone as Microphone
    from lookhear.transport.retry import Retry as Retry

__version__: str
# Where each name is. They are loaded when they are used: who imports `lookhear.engine` on a bare
# GPU box, or asks for `lookhear --version`, has no use for sockets and sound files.
_HOMES = {
    "blocking": "BlockingAnswer BlockingConversation Client",
    "chat.answers": (
        "Answer AnswerCompleted AnswerDelta AnswerEvent AnswerRestarted QuestionHeard "
        "ReasoningDelta Usage"
    ),
    "chat.content": "message",
    "chat.conversation": "Conversation",
    "client": "AsyncClient",
    "errors": (
        "AddressError AuthenticationError ConnectionFailed InvalidRequest LookhearError "
        "ModelNotFound NotInstalled ProtocolError ServerError SourceError"
    ),
    "live.events": (
        "Event Provisional Reconnecting Said SessionReady Speakers SpeechStarted SpeechStopped "
        "TextDelta TurnCompleted TurnFailed Word Words"
    ),
    "live.turns": "ServerVad",
    "results": "Model Transcript",
    "sources.microphone": "Microphone",
    "transport.retry": "Retry",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


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
