"""lookhear's client: live transcription over the OpenAI Realtime protocol, and chat.

from lookhear import AsyncClient, TextDelta

client = AsyncClient("http://127.0.0.1:8000")
async for event in client.transcribe("talk.wav"):
    if isinstance(event, TextDelta):
        print(event.text, end="")

async for text in client.chat("What is on the picture?", images=["street.jpg"]):
    print(text, end="")
"""

from lookhear.answers import (
    Answer,
    AnswerCompleted,
    AnswerDelta,
    AnswerEvent,
    AnswerRestarted,
    BlockingAnswer,
    QuestionHeard,
    ReasoningDelta,
    Usage,
)
from lookhear.blocking import BlockingConversation, Client
from lookhear.client import AsyncClient
from lookhear.content import message
from lookhear.conversation import Conversation
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
from lookhear.events import (
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
from lookhear.microphone import Microphone
from lookhear.results import Model, Transcript
from lookhear.stream import Retry
from lookhear.turns import ServerVad

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
    "BlockingAnswer",
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
