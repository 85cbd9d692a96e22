"""What a transcription session is set to, and how `session.update` changes it.

An update is a partial merge: an absent field keeps its value, null clears it, "" clears the prompt
and the language. It is checked as a whole first, so a refused update changes nothing. Tuning fields
that we do not have (noise_reduction, delay, keywords, languages, idle_timeout_ms, strength) are
accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from lookhear.engine.messages import ModelCard, TranscriptionSettings
from lookhear.gateway.checks.checks import ProtocolError, Text, WireModel, invalid, shown
from lookhear.gateway.checks.models import (
    chat_model,
    chat_models,
    check_language,
    find_model,
    language_code,
    speech_models,
)
from lookhear.gateway.realtime.settings.generation import ConverseSettings
from lookhear.media.audio.pcm import AudioFormat, AudioFormatError
from lookhear.media.voice.vad import VadConfig

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
    create_response: bool | None = None
    interrupt_response: bool | None = None


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
    """Voice activity settings; eagerness only with semantic_vad. create_response: a turn is
    answered; interrupt_response: speech ends the answer under way; both in realtime sessions."""

    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    eagerness: Eagerness = "auto"
    create_response: bool = True
    interrupt_response: bool = True

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

    def on_wire(self, *, answers: bool) -> dict[str, Any]:
        """answers: whether it is that of a realtime session."""
        detection: dict[str, Any] = {"type": self.type}
        if self.type == "semantic_vad":
            detection["eagerness"] = self.eagerness
        else:
            detection["threshold"] = self.threshold
            detection["prefix_padding_ms"] = self.prefix_padding_ms
            detection["silence_duration_ms"] = self.silence_duration_ms
        if answers:
            detection["create_response"] = self.create_response
            detection["interrupt_response"] = self.interrupt_response
        return detection


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The full effective configuration of a session.

    model: the one that transcribes, None if none is served. converse: of a session of type
    `realtime`, None: it transcribes only.
    """

    model: str | None
    language: str | None = None
    prompt: str = ""
    format: AudioFormat = AudioFormat()
    turn_detection: TurnDetection | None = TurnDetection()
    logprobs: bool = False
    provisional: bool = False
    words: bool = False
    extended: bool = False  # the client knows our extensions, so they are echoed
    converse: ConverseSettings | None = None

    @property
    def main_model(self) -> str:
        """The one whose engine is the session's to lose."""
        model = self.converse.model if self.converse else self.model
        assert model is not None, "a session that does not answer transcribes"
        return model

    def vad(self) -> VadConfig:
        """The detector also runs for manual turns, to tell speech from silence."""
        return (self.turn_detection or TurnDetection()).vad()

    def transcription(self) -> TranscriptionSettings:
        """What the engine is told with a new turn."""
        assert self.model is not None, "no served model transcribes"
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
        new = self._typed(patch.type, session, models, event_id)
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
        if new.words and new.model is not None:
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

    def _typed(
        self, type: str, session: dict[str, Any], models: Sequence[ModelCard], event_id: str | None
    ) -> SessionSettings:
        if type == "transcription":
            if self.model is None:
                raise _unsupported_type(
                    type, "realtime", "no served model transcribes, this server answers", event_id
                )
            return replace(self, converse=None)
        if type != "realtime":
            raise ProtocolError(
                f'session.type: expected "transcription" or "realtime", got {shown(type)}',
                code="invalid_value",
                param="session.type",
                event_id=event_id,
            )
        cards = chat_models(models)
        if not cards:
            raise _unsupported_type(
                type, "transcription", "no served model answers, this server transcribes", event_id
            )
        converse = self.converse or ConverseSettings(chat_model(None, cards, event_id).id)
        return replace(self, converse=converse.merged(session, models, event_id))

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
        speech = speech_models(models)
        if patch is None:  # "off", which no session can be: back to the defaults
            first = speech[0].id if speech else None
            return replace(self, model=first, language=None, prompt="")
        new = self
        given = patch.model_fields_set
        path = "session.audio.input.transcription"
        if patch.model is not None:
            card = find_model(patch.model, speech, f"{path}.model", event_id)
            new = replace(new, model=card.id)
        elif "model" in given:
            new = replace(new, model=speech[0].id if speech else None)
        if "prompt" in given:
            new = replace(new, prompt=patch.prompt or "")
        if "language" in given:
            new = replace(new, language=language_code(patch.language))
        if new.model is not None and new.language is not None:
            if not given.isdisjoint({"language", "model"}):
                card = find_model(new.model, speech, f"{path}.model", event_id)
                check_language(new.language, card, f"{path}.language", event_id)
        return new

    def on_wire(self, session_id: str, expires_at: int | None) -> dict[str, Any]:
        """The session object of `session.created` and `session.updated`."""
        format: dict[str, Any] = {"type": self.format.kind}
        if self.format.kind == "audio/pcm":
            format["rate"] = self.format.rate
        audio: dict[str, Any] = {"format": format}
        if self.model is not None:
            transcription: dict[str, Any] = {"model": self.model}
            if self.language is not None:
                transcription["language"] = self.language
            if self.prompt:
                transcription["prompt"] = self.prompt
            audio["transcription"] = transcription
        if self.turn_detection is not None:
            answers = self.converse is not None
            audio["turn_detection"] = self.turn_detection.on_wire(answers=answers)
        session: dict[str, Any] = {
            "type": "transcription",
            "id": session_id,
            "object": "realtime.transcription_session",
            "audio": {"input": audio},
        }
        if self.converse is not None:
            session |= {"type": "realtime", "object": "realtime.session"}
            session |= self.converse.on_wire()
        if self.logprobs:
            session["include"] = [LOGPROBS]
        if expires_at is not None:
            session["expires_at"] = expires_at
        if self.extended:
            extensions: dict[str, Any] = {"provisional": self.provisional, "words": self.words}
            if self.converse is not None:
                extensions |= self.converse.sampling.on_wire()
                extensions["camera"] = self.converse.camera.on_wire()
            session["lookhear"] = extensions
        return session


def first_settings(
    models: Sequence[ModelCard], requested: str | None, *, transcribes: bool
) -> tuple[SessionSettings, ProtocolError | None]:
    """How a session begins, and what is wrong with what its URL asked for.

    requested: the model in the URL; one that answers makes it a session of type `realtime`.
    transcribes: the URL says that it is to be a transcription session.
    """
    speech, chat = speech_models(models), chat_models(models)
    settings = SessionSettings(model=speech[0].id if speech else None)
    problem = None
    if not speech:
        settings = replace(settings, converse=ConverseSettings(chat[0].id))
        if transcribes:
            why = "no served model transcribes, this server answers"
            problem = _unsupported_type("transcription", "realtime", why, None)
    if requested is None:
        return settings, problem
    try:
        card = find_model(requested, speech if transcribes else models, "model", None)
    except ProtocolError as error:
        return settings, problem or error
    if card.can("transcribe"):
        return replace(settings, model=card.id), problem
    return replace(settings, converse=ConverseSettings(card.id)), problem


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
            param = f"session.include[{index}]"
            raise ProtocolError(
                f"{param}: expected {shown(LOGPROBS)}, got {shown(entry)}",
                code="invalid_value",
                param=param,
                event_id=event_id,
            )
    return bool(include)


def _unsupported_type(type: str, expected: str, why: str, event_id: str | None) -> ProtocolError:
    return ProtocolError(
        f"session.type: expected {shown(expected)}, got {shown(type)}; {why}",
        code="unsupported_session_type",
        param="session.type",
        event_id=event_id,
    )
