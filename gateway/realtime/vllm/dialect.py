"""vLLM's realtime wire, on the URL of OpenAI's: told by the first frame of its clients.

    session.update {model} -> commit -> append* -> commit {final: true}
                           -> transcription.delta* -> transcription.done, and so on

An utterance is a turn that is committed by hand: the first commit of one announces it, the final
one ends it. Errors never close the connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, ValidationError

from lookhear.engine.messages import ModelCard, TokenLogprob
from lookhear.gateway.checks.checks import (
    MAX_PROMPT,
    ProtocolError,
    Text,
    WireModel,
    check_json,
    decode_audio,
    describe,
    shown,
)
from lookhear.gateway.checks.languages import language_code
from lookhear.gateway.checks.models import check_language, find_model
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.commands import Append, ClientCommand, Commit, Configure
from lookhear.gateway.realtime.protocol.dialect import Dialect, Json
from lookhear.gateway.realtime.protocol.refusals import EMPTY_COMMIT
from lookhear.gateway.realtime.settings import SessionSettings, default_settings
from lookhear.gateway.sockets.cutting import WireFrame
from lookhear.gateway.telemetry.ids import IdFactory
from lookhear.media.audio.pcm import AudioFormat

RATE = 16_000  # Hz, of PCM with 16 bits; there is no other
# Characters of first frames that can be recognised: the longest prompt, in the two escapes of six
# characters that JSON may write for one, and all else.
SHORT = 12 * MAX_PROMPT + 4096
DEPTH = 16  # levels of nesting
LOWEST = -9999.0  # of a log probability: JSON has no infinity
UPDATE, APPEND, COMMIT = (
    "session.update",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
)
LOGPROBS = "item.input_audio_transcription.logprobs"


class SessionUpdate(WireModel):
    """What is None, or an empty text, leaves it as it was. language: a code. prompt: what the
    speech is about."""

    model: str
    language: Text | None = None
    prompt: Annotated[Text, Field(max_length=MAX_PROMPT)] | None = None
    include: list[Literal["item.input_audio_transcription.logprobs"]] | None = None


class AudioAppend(WireModel):
    """audio: base64."""

    audio: str


class AudioCommit(WireModel):
    """final: it ends what is being said; else something is going to be said."""

    final: bool = False


M = TypeVar("M", bound=WireModel)


@dataclass(slots=True)
class _Utterance:
    """frames: those that wait for the end of the utterances before it."""

    item: str
    frames: list[Json] = field(default_factory=list)
    is_over: bool = False


class VllmDialect(Dialect):
    """See `Dialect`."""

    path: ClassVar[str] = "/v1/realtime"

    def __init__(self, query: Mapping[str, str], ids: IdFactory) -> None:
        self.requested_model = query.get("model") or None
        self._is_validated = False  # a model that is served was named
        self._models: Sequence[ModelCard] = ()
        self._language: str | None = None
        self._utterances: list[_Utterance] = []  # not told to their end, in their order

    @staticmethod
    def recognises(frame: WireFrame) -> bool:
        """The model stands at the top, not in a session; or a commit says whether it is final."""
        if isinstance(frame, bytes) or len(frame) > SHORT:
            return False
        try:
            message = json.loads(frame)
        except (ValueError, RecursionError):
            return False
        if not isinstance(message, dict):
            return False
        if message.get("type") == UPDATE:
            return "model" in message and "session" not in message
        return message.get("type") == COMMIT and "final" in message

    def first_settings(
        self, models: Sequence[ModelCard]
    ) -> tuple[SessionSettings, ProtocolError | None]:
        """What is said ends where the client says so. Where no model transcribes, the session is
        one that answers, and is never asked: its client is refused every model."""
        self._models = models
        default = default_settings(models)
        settings = replace(
            default,
            converse=None if default.model is not None else default.converse,
            format=AudioFormat("audio/pcm", RATE),
            turn_detection=None,
        )
        return settings, None

    # --- what comes ------------------------------------------------------------------------------

    def parse(self, frame: WireFrame) -> Sequence[ClientCommand]:
        """Raises ProtocolError, with their codes."""
        message = _read(frame)
        match message.get("type"):
            case "session.update":
                return (self._update(_checked(SessionUpdate, message, "invalid_event")),)
            case "input_audio_buffer.append":
                text = _checked(AudioAppend, message, "processing_error").audio
                return (Append(_audio(text)),)
            case "input_audio_buffer.commit":
                is_final = _checked(AudioCommit, message, "invalid_event").final
                if not self._is_validated:
                    text = f"Model not validated: expected {UPDATE} with a model first"
                    raise ProtocolError(text, code="model_not_validated")
                return (Commit(name=COMMIT),) if is_final else ()
            case other:
                expected = f"type: expected {UPDATE}, {APPEND} or {COMMIT}"
                raise ProtocolError(f"{expected}, got {shown(other)}", code="unknown_event")

    def _update(self, update: SessionUpdate) -> Configure:
        try:
            card = find_model(update.model, self._models, "model", "transcribe")
        except ProtocolError as problem:
            text = f"The model `{update.model}` does not exist. {problem.message}"
            raise ProtocolError(text, code="model_not_found") from None
        language = language_code(update.language) or self._language
        if language is not None:
            try:
                check_language(language, card, "language")
            except ProtocolError as problem:
                raise ProtocolError(problem.message, code="invalid_event") from None
        self._language = language
        # Known before it is carried out: what comes with it is parsed with it.
        self._is_validated = True

        def change(settings: SessionSettings, _: Sequence[ModelCard]) -> SessionSettings:
            has = settings.logprobs if update.include is None else LOGPROBS in update.include
            return replace(
                settings,
                model=card.id,
                logprobs=has,
                language=language,
                prompt=update.prompt or settings.prompt,
            )

        return Configure(change, name=UPDATE)

    # --- what is told ----------------------------------------------------------------------------

    def render(self, event: events.SessionEvent) -> Sequence[Json]:
        """Of what there are no words for here, nothing is told."""
        match event:
            case events.SessionUpdated(session, settings):
                return [{"type": "session.updated", "id": session, "model": settings.model}]
            case events.TranscriptDelta(item, _, text, logprobs):
                return self._tell(item, _delta(text, logprobs))
            case events.TurnCommitted(item):
                return self._tell(item.id)
            case events.TranscriptDone(item, text=text):
                return self._tell(item, _done(text), is_over=True)
            case events.TranscriptFailed(item, problem=problem):
                error = _error(problem.message, "processing_error")
                return self._tell(item, error, is_over=True)
            case events.Refused(problem):
                if problem.code == EMPTY_COMMIT:  # told all the same: clients count them
                    return self._tell("", _done(""), is_over=True)
                return [_error(problem.message, problem.code)]
            case _:
                return []

    def _tell(self, item: str, *frames: Json, is_over: bool = False) -> list[Json]:
        """More of an utterance, which is new if it is not known. -> what is its turn to be told:
        frames name no utterance, so they come in the order of these, also where a model hears the
        later one sooner than another the one before. item: empty where nothing was said."""
        utterance = next((u for u in self._utterances if item and u.item == item), None)
        if utterance is None:
            utterance = _Utterance(item)
            self._utterances.append(utterance)
        utterance.frames += frames
        utterance.is_over = is_over
        told: list[Json] = []
        while self._utterances:
            first = self._utterances[0]
            told += first.frames
            first.frames.clear()
            if not first.is_over:
                break
            del self._utterances[0]
        return told


def _read(frame: WireFrame) -> dict[str, Any]:
    if isinstance(frame, bytes):
        text = f"expected a text frame, got {len(frame)} bytes"
        raise ProtocolError(text, code="invalid_frame")
    try:
        message = json.loads(frame)
        check_json(message, DEPTH)
    except (ValueError, RecursionError):
        text = f"expected a JSON object, got {shown(frame[:80])}"
        raise ProtocolError(text, code="invalid_json") from None
    if not isinstance(message, dict):
        text = f"expected a JSON object, got {shown(message)}"
        raise ProtocolError(text, code="processing_error")
    return message


def _checked(model: type[M], message: dict[str, Any], code: str) -> M:
    try:
        return model.model_validate(message)
    except ValidationError as error:
        text, path = describe(error)
        is_missing = error.errors(include_url=False)[0]["type"] == "missing"
        text = f"Missing required field: {path}" if is_missing else text
        raise ProtocolError(text, code=code) from None


def _audio(text: str) -> bytes:
    try:
        audio = decode_audio(text)
    except ProtocolError as problem:
        raise _invalid_audio(problem.message) from None
    if not audio or len(audio) % 2:
        raise _invalid_audio(f"expected samples of 16 bits, got {len(audio)} bytes")
    return audio


def _invalid_audio(why: str) -> ProtocolError:
    return ProtocolError(f"Invalid audio data: {why}", code="invalid_audio")


def _logprobs(tokens: Sequence[TokenLogprob] | None) -> list[Json] | None:
    if tokens is None:
        return None
    return [{"token": t.token, "logprob": max(t.logprob, LOWEST), "bytes": t.bytes} for t in tokens]


def _delta(text: str, logprobs: Sequence[TokenLogprob] | None) -> Json:
    return {"type": "transcription.delta", "delta": text, "logprobs": _logprobs(logprobs)}


def _done(text: str) -> Json:
    return {"type": "transcription.done", "text": text, "usage": None}


def _error(text: str, code: str) -> Json:
    return {"type": "error", "error": text, "code": code}
