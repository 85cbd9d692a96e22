"""What gateway and engine say to each other: frozen messages and events, no behaviour.

A *session* is one client that stays (one WebSocket), or one request over HTTP. Nothing here imports
torch: the gateway reads this package.
"""

from __future__ import annotations

from lookhear.engine.messages.adapters import (
    AdapterFailed,
    AdapterLoaded,
    LoadAdapter,
    UnloadAdapter,
)
from lookhear.engine.messages.chat import (
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerSettings,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    AudioPart,
    CancelAnswer,
    ChatMessage,
    ChosenToken,
    DropPicture,
    DropRecording,
    EmbeddingsPart,
    HoldEmbeddings,
    HoldPicture,
    HoldRecording,
    ImagePart,
    Part,
    PromptTokens,
    ReadAhead,
    StartAnswer,
    TextPart,
    Tool,
    ToolCall,
    VideoPart,
)
from lookhear.engine.messages.control import (
    CloseSession,
    EngineFailed,
    ExpectSpeech,
    LiveLoad,
    ModelCard,
    Ping,
    Pong,
    Ready,
    RequestDone,
    Shutdown,
    Starting,
)
from lookhear.engine.messages.encoding import EncodeMedium, EncodingFailed, MediumEncoded
from lookhear.engine.messages.pooling import (
    Pooled,
    PoolingFailed,
    PoolingInput,
    PoolingSettings,
    StartPooling,
)
from lookhear.engine.messages.speakers import (
    DiariseFile,
    DiariseLive,
    DiarisingFailed,
    FileDiarised,
    SpeakersHeard,
    SpeakerTurn,
)
from lookhear.engine.messages.speech import (
    SAMPLE_RATE,
    AppendAudio,
    CancelFile,
    CancelTurn,
    Delay,
    EndTurn,
    FileFailed,
    FileProgress,
    FileTranscribed,
    RecallLanguage,
    RecallSegment,
    SaidSegment,
    Segment,
    StartTurn,
    TextCommitted,
    TextProvisional,
    TokenLogprob,
    TranscribeFile,
    TranscriptionSettings,
    TurnCompleted,
    TurnFailed,
    TurnSettled,
    TurnState,
    Word,
)

Message = (
    CloseSession
    | ExpectSpeech
    | RecallLanguage
    | RecallSegment
    | StartTurn
    | AppendAudio
    | EndTurn
    | CancelTurn
    | TranscribeFile
    | DiariseFile
    | DiariseLive
    | CancelFile
    | HoldPicture
    | DropPicture
    | HoldRecording
    | DropRecording
    | HoldEmbeddings
    | ReadAhead
    | StartAnswer
    | CancelAnswer
    | StartPooling
    | EncodeMedium
    | MediumEncoded
    | EncodingFailed
    | LoadAdapter
    | UnloadAdapter
    | Ping
    | Shutdown
)

# Of a session, for the engine of the model that they name.
ForModel = (
    HoldPicture
    | DropPicture
    | HoldRecording
    | DropRecording
    | HoldEmbeddings
    | ReadAhead
    | ExpectSpeech
    | DiariseLive
)

# Of no use to an engine that is gone.
Passing = DropPicture | DropRecording | DiariseLive

Event = (
    Starting
    | Ready
    | Pong
    | RequestDone
    | TextCommitted
    | TextProvisional
    | TurnSettled
    | TurnCompleted
    | TurnFailed
    | FileProgress
    | FileTranscribed
    | FileDiarised
    | SpeakersHeard
    | DiarisingFailed
    | FileFailed
    | AnswerStarted
    | AnswerText
    | AnswerCall
    | AnswerCompleted
    | AnswerFailed
    | Pooled
    | PoolingFailed
    | EncodeMedium
    | MediumEncoded
    | EncodingFailed
    | AdapterLoaded
    | AdapterFailed
    | EngineFailed
)
