"""Every server frame against what Deepgram's SDKs expect; where the Python SDK is installed,
against its own models, too."""

from __future__ import annotations

import importlib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

# The SDK's models allow more fields than they name: what they do not name, nobody reads.
Seconds = Annotated[float, Field(ge=0)]


class Frame(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Spoken(Frame):
    word: str
    start: Seconds
    end: Seconds
    confidence: Annotated[float, Field(ge=0, le=1)]
    punctuated_word: str
    speaker: int | None = None


class Alternative(Frame):
    transcript: str
    confidence: Annotated[float, Field(ge=0, le=1)]
    words: list[Spoken]
    languages: list[str] | None = None


class Channel(Frame):
    alternatives: Annotated[list[Alternative], Field(min_length=1, max_length=1)]


class ModelInfo(Frame):
    name: str
    version: str
    arch: str


class ResultsMetadata(Frame):
    request_id: str
    model_info: ModelInfo
    model_uuid: str


class Results(Frame):
    type: Literal["Results"]
    channel_index: tuple[int, int] = Field(strict=False)
    duration: Seconds
    start: Seconds
    is_final: bool
    speech_final: bool
    from_finalize: bool
    channel: Channel
    metadata: ResultsMetadata


class Metadata(Frame):
    type: Literal["Metadata"]
    transaction_key: str
    request_id: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    created: str
    duration: Seconds
    channels: Annotated[int, Field(ge=1)]
    models: list[str]
    model_info: dict[str, ModelInfo]


class UtteranceEnd(Frame):
    type: Literal["UtteranceEnd"]
    channel: list[int]
    last_word_end: Seconds


class SpeechStarted(Frame):
    type: Literal["SpeechStarted"]
    channel: list[int]
    timestamp: Seconds


class Error(Frame):
    type: Literal["Error"]
    variant: str
    description: str


class ConfigureSuccess(Frame):
    type: Literal["ConfigureSuccess"]
    request_id: str
    keyterms: list[str]


class ConfigureFailure(Frame):
    type: Literal["ConfigureFailure"]
    request_id: str
    code: str
    description: str


class Sentence(Frame):
    text: str
    start: Seconds
    end: Seconds


class Paragraph(Frame):
    sentences: Annotated[list[Sentence], Field(min_length=1)]
    speaker: int | None = None
    num_words: int
    start: Seconds
    end: Seconds


class Paragraphs(Frame):
    transcript: str
    paragraphs: list[Paragraph]


class FileAlternative(Alternative):
    paragraphs: Paragraphs | None = None


class FileChannel(Frame):
    alternatives: Annotated[list[FileAlternative], Field(min_length=1, max_length=1)]
    detected_language: str | None = None


class Utterance(Frame):
    start: Seconds
    end: Seconds
    confidence: Annotated[float, Field(ge=0, le=1)]
    channel: int
    transcript: str
    words: list[Spoken]
    id: str
    speaker: int | None = None


class FileResults(Frame):
    channels: Annotated[list[FileChannel], Field(min_length=1)]
    utterances: list[Utterance] | None = None


class FileMetadata(Metadata):
    type: None = None  # type: ignore[assignment]


class Transcript(Frame):
    """The answer to a recording."""

    metadata: FileMetadata
    results: FileResults


OURS = (Results, Metadata, UtteranceEnd, SpeechStarted, Error, ConfigureSuccess, ConfigureFailure)
MODELS = {model.__name__: TypeAdapter[Any](model) for model in OURS}


def _theirs() -> dict[str, TypeAdapter[Any]]:
    """Of the SDK."""
    try:
        types = importlib.import_module("deepgram.listen.v1.types")
    except ImportError:
        return {}
    found = {}
    for name in MODELS:
        found[name] = TypeAdapter[Any](getattr(types, f"ListenV1{name}"))
    return found


def _their_transcript() -> TypeAdapter[Any] | None:
    try:
        types = importlib.import_module("deepgram.types")
    except ImportError:
        return None
    return TypeAdapter[Any](types.ListenV1Response)


THEIRS = _theirs()
THEIR_TRANSCRIPT = _their_transcript()


def check(frame: dict[str, Any]) -> dict[str, Any]:
    """The frame, if it is valid; raises pydantic.ValidationError otherwise."""
    MODELS[frame["type"]].validate_python(frame)
    if THEIRS:
        THEIRS[frame["type"]].validate_python(frame)
    return frame


def check_transcript(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer to a recording, if it is valid; raises pydantic.ValidationError otherwise."""
    Transcript.model_validate(answer)
    if THEIR_TRANSCRIPT is not None:
        THEIR_TRANSCRIPT.validate_python(answer)
    return answer


def text_of(frame: dict[str, Any]) -> str:
    """Of a result."""
    return str(frame["channel"]["alternatives"][0]["transcript"])
