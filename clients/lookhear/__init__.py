"""lookhear's client: live transcription over the OpenAI Realtime protocol.

from lookhear import AsyncClient, TextDelta

async for event in AsyncClient("http://127.0.0.1:8000").transcribe("talk.wav"):
    if isinstance(event, TextDelta):
        print(event.text, end="")
"""

from lookhear.audio import Microphone
from lookhear.client import AsyncClient, Client
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
from lookhear.results import Model, Transcript
from lookhear.stream import Retry
from lookhear.turns import ServerVad

__all__ = [
    "AddressError",
    "AsyncClient",
    "AuthenticationError",
    "Client",
    "ConnectionFailed",
    "Event",
    "InvalidRequest",
    "LookhearError",
    "Microphone",
    "Model",
    "ModelNotFound",
    "NotInstalled",
    "ProtocolError",
    "Provisional",
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
    "Word",
    "Words",
]
