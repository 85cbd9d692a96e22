"""What a transcription session is set to, and how `session.update` changes it.

An update is a partial merge: an absent field keeps its value, null clears it, "" clears the prompt
and the language. It is checked as a whole first, so a refused update changes nothing. Tuning fields
that we do not have (noise_reduction, delay, keywords, languages, idle_timeout_ms, create_response,
interrupt_response, strength) are accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from engine.messages import ModelCard, TranscriptionSettings
from gateway.realtime.events import ProtocolError, Text, WireModel, invalid, shown
from media.pcm import AudioFormat, AudioFormatError
from media.vad import VadConfig

LOGPROBS = "item.input_audio_transcription.logprobs"

# Silence that ends a turn, per eagerness of semantic_vad. We detect turns by voice alone, so the
# eagerness sets how long a pause may be; OpenAI documents only its longest waits (8, 4 and 2 s).
EAGERNESS_SILENCE_MS = {"low": 1500, "medium": 900, "auto": 900, "high": 500}

Eagerness = Literal["low", "medium", "high", "auto"]
MAX_PROMPT = 8192  # characters; a model keeps the last few hundred tokens of it


class FormatPatch(WireModel):
    type: Text
    rate: int | None = None


class TranscriptionPatch(WireModel):
    model: Text | None = None
    language: Text | None = None
    prompt: Annotated[Text, Field(max_length=MAX_PROMPT)] | None = None


class TurnDetectionPatch(WireModel):
    type: Literal["server_vad", "semantic_vad"]
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    prefix_padding_ms: Annotated[int, Field(ge=0, le=10_000)] | None = None
    silence_duration_ms: Annotated[int, Field(ge=0, le=60_000)] | None = None
    eagerness: Eagerness | None = None


class InputPatch(WireModel):
    format: FormatPatch | None = None
    transcription: TranscriptionPatch | None = None
    turn_detection: TurnDetectionPatch | None = None


class AudioPatch(WireModel):
    input: InputPatch | None = None


class LookhearPatch(WireModel):
    provisional: bool | None = None
    words: bool | None = None


class SessionPatch(WireModel):
    type: Text
    audio: AudioPatch | None = None
    include: list[Text] | None = None
    lookhear: LookhearPatch | None = None


@dataclass(frozen=True, slots=True)
class TurnDetection:
    """Voice activity settings; eagerness only with semantic_vad."""

    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    eagerness: Eagerness = "auto"

    def merged(self, patch: TurnDetectionPatch) -> TurnDetection:
        """An update of the same type keeps what it does not name; another type begins anew."""
        old = self if patch.type == self.type else TurnDetection(type=patch.type)
        names = patch.model_fields_set - {"type"}
        defaults = TurnDetection(type=patch.type)
        changes: dict[str, Any] = {}
        for name in names:
            value = getattr(patch, name)
            changes[name] = getattr(defaults, name) if value is None else value
        return replace(old, **changes)

    def vad(self) -> VadConfig:
        if self.type == "semantic_vad":
            return VadConfig(silence_duration_ms=EAGERNESS_SILENCE_MS[self.eagerness])
        return VadConfig(
            threshold=self.threshold,
            prefix_padding_ms=self.prefix_padding_ms,
            silence_duration_ms=self.silence_duration_ms,
        )

    def on_wire(self) -> dict[str, Any]:
        if self.type == "semantic_vad":
            return {"type": self.type, "eagerness": self.eagerness}
        return {
            "type": self.type,
            "threshold": self.threshold,
            "prefix_padding_ms": self.prefix_padding_ms,
            "silence_duration_ms": self.silence_duration_ms,
        }


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The full effective configuration of a transcription session."""

    model: str
    language: str | None = None
    prompt: str = ""
    format: AudioFormat = AudioFormat()
    turn_detection: TurnDetection | None = TurnDetection()
    logprobs: bool = False
    provisional: bool = False
    words: bool = False
    extended: bool = False  # the client knows our extensions, so they are echoed

    def vad(self) -> VadConfig:
        """The detector also runs for manual turns, to tell speech from silence."""
        return (self.turn_detection or TurnDetection()).vad()

    def transcription(self) -> TranscriptionSettings:
        """What the engine is told with a new turn."""
        return TranscriptionSettings(
            model=self.model,
            language=self.language,
            prompt=self.prompt,
            logprobs=self.logprobs,
            provisional=self.provisional,
            words=self.words,
        )

    def merged(
        self, session: dict[str, Any], models: Sequence[ModelCard], event_id: str | None
    ) -> SessionSettings:
        """These settings after a `session.update`. Raises ProtocolError, naming the field."""
        try:
            patch = SessionPatch.model_validate(session)
        except ValidationError as error:
            raise invalid(error, prefix="session", event_id=event_id) from None
        if patch.type != "transcription":
            raise _unsupported_type(patch.type, event_id)
        new = self
        given = patch.model_fields_set
        if patch.audio is not None and patch.audio.input is not None:
            new = new._with_input(patch.audio.input, models, event_id)
        if "include" in given:
            new = replace(new, logprobs=_includes_logprobs(patch.include or [], event_id))
        if "lookhear" in given:
            wanted = patch.lookhear or LookhearPatch(provisional=False, words=False)
            new = replace(
                new,
                extended=patch.lookhear is not None,
                provisional=new.provisional if wanted.provisional is None else wanted.provisional,
                words=new.words if wanted.words is None else wanted.words,
            )
        if new.words:
            card = find_model(new.model, models, "session", event_id)
            if not card.has_word_times:
                raise ProtocolError(
                    f"session.lookhear.words: expected false, {shown(card.id)} has no word times;"
                    " got true",
                    code="invalid_words",
                    param="session.lookhear.words",
                    event_id=event_id,
                )
        return new

    def _with_input(
        self, patch: InputPatch, models: Sequence[ModelCard], event_id: str | None
    ) -> SessionSettings:
        new = self
        given = patch.model_fields_set
        if "format" in given:
            new = replace(new, format=_format(patch.format, event_id))
        if "transcription" in given:
            new = new._with_transcription(patch.transcription, models, event_id)
        if "turn_detection" in given:
            detection = patch.turn_detection
            merged = None
            if detection is not None:
                merged = (new.turn_detection or TurnDetection()).merged(detection)
            new = replace(new, turn_detection=merged)
        return new

    def _with_transcription(
        self, patch: TranscriptionPatch | None, models: Sequence[ModelCard], event_id: str | None
    ) -> SessionSettings:
        if patch is None:  # "off", which a transcription session cannot be: back to the defaults
            return replace(self, model=models[0].id, language=None, prompt="")
        new = self
        given = patch.model_fields_set
        path = "session.audio.input.transcription"
        if "model" in given:
            card = find_model(patch.model or models[0].id, models, f"{path}.model", event_id)
            new = replace(new, model=card.id)
        if "prompt" in given:
            new = replace(new, prompt=patch.prompt or "")
        if "language" in given:
            new = replace(new, language=language_code(patch.language))
        if new.language is not None and not given.isdisjoint({"language", "model"}):
            card = find_model(new.model, models, f"{path}.model", event_id)
            check_language(new.language, card, f"{path}.language", event_id)
        return new

    def on_wire(self, session_id: str, expires_at: int | None) -> dict[str, Any]:
        """The session object of `session.created` and `session.updated`."""
        format: dict[str, Any] = {"type": self.format.kind}
        if self.format.kind == "audio/pcm":
            format["rate"] = self.format.rate
        transcription: dict[str, Any] = {"model": self.model}
        if self.language is not None:
            transcription["language"] = self.language
        if self.prompt:
            transcription["prompt"] = self.prompt
        audio: dict[str, Any] = {"format": format, "transcription": transcription}
        if self.turn_detection is not None:
            audio["turn_detection"] = self.turn_detection.on_wire()
        session: dict[str, Any] = {
            "type": "transcription",
            "id": session_id,
            "object": "realtime.transcription_session",
            "audio": {"input": audio},
        }
        if self.logprobs:
            session["include"] = [LOGPROBS]
        if expires_at is not None:
            session["expires_at"] = expires_at
        if self.extended:
            session["lookhear"] = {"provisional": self.provisional, "words": self.words}
        return session


def find_model(
    name: str, models: Sequence[ModelCard], param: str, event_id: str | None
) -> ModelCard:
    for card in models:
        if card.id == name:
            return card
    served = ", ".join(shown(card.id) for card in models)
    raise ProtocolError(
        f"{param}: expected a served model ({served}), got {shown(name)}",
        code="model_not_found",
        param=param,
        event_id=event_id,
    )


def language_code(language: str | None) -> str | None:
    """ "en-US" and "EN" mean "en"; "" means "detect it"."""
    return (language or "").replace("_", "-").split("-")[0].lower() or None


def check_language(language: str, card: ModelCard, param: str, event_id: str | None) -> None:
    """A model that lists no languages has just one, and takes whatever the client calls it."""
    if card.languages and language not in card.languages:
        raise ProtocolError(
            f"{param}: expected one of {', '.join(card.languages)}; got {shown(language)}",
            code="invalid_language",
            param=param,
            event_id=event_id,
        )


def _format(patch: FormatPatch | None, event_id: str | None) -> AudioFormat:
    if patch is None:
        return AudioFormat()
    try:
        return AudioFormat.parse(patch.type, patch.rate)
    except AudioFormatError as error:
        param = f"session.audio.input.format.{error.field}"
        raise ProtocolError(
            f"{param}: expected {error.expected}; got {shown(error.got)}",
            code="invalid_value",
            param=param,
            event_id=event_id,
        ) from None


def _includes_logprobs(include: list[str], event_id: str | None) -> bool:
    for index, entry in enumerate(include):
        if entry != LOGPROBS:
            param = f"session.include.{index}"
            raise ProtocolError(
                f"{param}: expected {shown(LOGPROBS)}, got {shown(entry)}",
                code="invalid_value",
                param=param,
                event_id=event_id,
            )
    return bool(include)


def _unsupported_type(type: str, event_id: str | None) -> ProtocolError:
    if type == "realtime":
        return ProtocolError(
            'session.type: expected "transcription", got "realtime"; no served model answers yet, '
            "this server transcribes",
            code="unsupported_session_type",
            param="session.type",
            event_id=event_id,
        )
    return ProtocolError(
        f'session.type: expected "transcription", got {shown(type)}',
        code="invalid_value",
        param="session.type",
        event_id=event_id,
    )
