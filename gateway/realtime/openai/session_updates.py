"""How `session.update` changes a session, and how its URL lets it begin.

An update is a partial merge: an absent field keeps its value, null clears it, "" clears the prompt
and the language. It is checked as a whole first, so a refused update changes nothing. Fields that
we do not have (voices, tracing) are accepted, change nothing, and the echo names them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from lookhear.engine.messages import Delay, ModelCard
from lookhear.gateway.checks.checks import (
    MAX_PROMPT,
    ProtocolError,
    Text,
    WireModel,
    invalid,
    shown,
    wrong,
)
from lookhear.gateway.checks.languages import language_code
from lookhear.gateway.checks.models import (
    NO_WHO,
    NONE,
    chat_models,
    check_language,
    diariser,
    find_model,
    speech_models,
)
from lookhear.gateway.checks.unread import MOST, unread
from lookhear.gateway.realtime.openai.generation_updates import (
    ConversePatch,
    converse_updated,
    merged,
)
from lookhear.gateway.realtime.patience import Eagerness
from lookhear.gateway.realtime.settings import (
    ConverseSettings,
    NoiseReduction,
    SessionSettings,
    TurnDetection,
    default_settings,
)
from lookhear.media.audio.pcm import AudioFormat, AudioFormatError

# What a client may send back as it was told it.
ECHOED = ("id", "object", "expires_at", "client_secret")
_TRANSCRIPTION_MODEL = "audio.input.transcription.model"
_IDLE_TIMEOUT = "audio.input.turn_detection.idle_timeout_ms"
_SPEAKERS = "session.lookhear.speakers"
# Names of models that OpenAI's clients ask to transcribe, and no other.
_TRANSCRIBER = re.compile(r"whisper|transcribe|(?:^|[/_-])(?:asr|stt)(?:$|[_-])", re.IGNORECASE)
LOGPROBS = "item.input_audio_transcription.logprobs"
MAX_LANGUAGES = 100
MAX_KEYWORDS, MAX_KEYWORD = 100, 100  # of them, and characters of one


class FormatPatch(WireModel):
    """Of the audio that comes."""

    type: Text
    rate: int | None = None


class TranscriptionPatch(WireModel):
    """How speech is transcribed."""

    model: Text | None = None
    language: Text | None = None
    languages: Annotated[list[Text], Field(max_length=MAX_LANGUAGES)] | None = None
    prompt: Annotated[Text, Field(max_length=MAX_PROMPT)] | None = None
    keywords: (
        Annotated[
            list[Annotated[Text, Field(max_length=MAX_KEYWORD)]], Field(max_length=MAX_KEYWORDS)
        ]
        | None
    ) = None
    delay: Delay | None = None


class TurnDetectionPatch(WireModel):
    """When a turn begins and ends; fields of the other type are ignored."""

    type: Literal["server_vad", "semantic_vad"]
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    prefix_padding_ms: Annotated[int, Field(ge=0, le=10_000)] | None = None
    silence_duration_ms: Annotated[int, Field(ge=0, le=60_000)] | None = None
    eagerness: Eagerness | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None
    idle_timeout_ms: Annotated[int, Field(ge=5_000, le=30_000)] | None = None


class NoiseReductionPatch(WireModel):
    """How far from the microphone who speaks is."""

    type: NoiseReduction


class InputPatch(WireModel):
    """How the session hears."""

    format: FormatPatch | None = None
    noise_reduction: NoiseReductionPatch | None = None
    transcription: TranscriptionPatch | None = None
    turn_detection: TurnDetectionPatch | None = None


class AudioPatch(WireModel):
    """There is no output to set."""

    input: InputPatch | None = None


class LookhearPatch(WireModel):
    """Extensions: what may come besides."""

    provisional: bool | None = None
    words: bool | None = None
    speakers: bool | None = None
    eager: bool | None = None


class SessionPatch(WireModel):
    """What both types of session have."""

    type: Text
    audio: AudioPatch | None = None
    include: list[Text] | None = None
    lookhear: LookhearPatch | None = None


def first_settings(
    models: Sequence[ModelCard], requested: str | None, *, transcribes: bool
) -> tuple[SessionSettings, ProtocolError | None]:
    """How a session begins, and what is wrong with what its URL asked for.

    requested: the model in the URL; one that answers makes it a session of type `realtime`, and so
    does a name that no model has, unless it is that of a transcriber. transcribes: the URL says
    that it is to be a transcription session.
    """
    speech, settings = speech_models(models), default_settings(models)
    problem = None
    if transcribes and not speech:
        problem = _cannot_transcribe()
    if requested is None:
        return settings, problem
    is_known = any(card.is_called(requested) for card in models)
    ability = "transcribe" if transcribes else None
    if not is_known and not transcribes:
        hears = bool(_TRANSCRIBER.search(requested)) or not chat_models(models)
        ability = "transcribe" if hears and speech else "chat"
    try:
        card = find_model(requested, models, "model", ability)
    except ProtocolError as error:
        return settings, problem or error
    if card.can("transcribe") and (transcribes or not card.can("chat")):
        settings = replace(settings, model=card.id)
        return _asked(settings, _TRANSCRIPTION_MODEL, requested, card), problem
    settings = replace(settings, converse=ConverseSettings(card.id))
    return _asked(settings, "model", requested, card), problem


def _asked(
    settings: SessionSettings, field: str, name: str | None, card: ModelCard | None
) -> SessionSettings:
    """Remember that the client calls the model of this field otherwise, if it does."""
    others = tuple(entry for entry in settings.asked if entry[0] != field)
    own = ((field, name),) if name is not None and card is not None and name != card.id else ()
    return replace(settings, asked=(*others, *own))


def _with_unread(settings: SessionSettings, session: dict[str, Any]) -> SessionSettings:
    """Remember what was set and is not read; null takes it back."""
    readers: tuple[type[WireModel], ...] = (SessionPatch,)
    if settings.converse is not None:
        readers = (SessionPatch, ConversePatch)
    given = dict(islice(unread(session, *readers, harmless=ECHOED), MOST))
    if settings.converse is not None and "output_modalities" in session:
        given["output_modalities"] = session["output_modalities"] not in (None, ["text"])
    if settings.converse is not None and "truncation" in session:
        of_ratio = session["truncation"] if isinstance(session["truncation"], dict) else {}
        given["truncation.token_limits"] = of_ratio.get("token_limits") is not None
    kept = [path for path in settings.ignored if given.get(path, True)]
    asks = [path for path, is_asked in given.items() if is_asked and path not in kept]
    return replace(settings, ignored=(*kept, *asks)[:MOST])


def updated(
    settings: SessionSettings, models: Sequence[ModelCard], *, session: dict[str, Any]
) -> SessionSettings:
    """The settings after a `session.update`. Raises ProtocolError, naming the field."""
    try:
        patch = SessionPatch.model_validate(session)
    except ValidationError as error:
        raise invalid(error, "session") from None
    new = _with_unread(_typed(settings, patch.type, session, models), session)
    given = patch.model_fields_set
    if patch.audio is not None and patch.audio.input is not None:
        new = _with_input(new, patch.audio.input, models)
    if "include" in given:
        new = replace(new, logprobs=_includes_logprobs(patch.include or []))
    if "lookhear" in given:
        off = LookhearPatch(provisional=False, words=False, speakers=False, eager=None)
        wanted = patch.lookhear or off
        new = replace(
            new,
            extended=patch.lookhear is not None,
            provisional=new.provisional if wanted.provisional is None else wanted.provisional,
            words=new.words if wanted.words is None else wanted.words,
            diariser=new.diariser if wanted.speakers is None else _diariser(wanted, models),
            eager=wanted.eager if "eager" in wanted.model_fields_set else new.eager,
        )
    if new.times_words and new.model is not None:
        card = find_model(new.model, models, "session")
        if (reason := card.untimed(new.language)) is not None:
            param = "session.lookhear.words" if new.words else _SPEAKERS
            message = f"{param}: expected false, {reason}; got true"
            raise ProtocolError(message, code="invalid_words", param=param)
    return _with_idle_timeout(new)


def _with_idle_timeout(settings: SessionSettings) -> SessionSettings:
    """It is for `server_vad`, as with OpenAI, and for who answers: else it changes nothing."""
    others = tuple(path for path in settings.ignored if path != _IDLE_TIMEOUT)
    detection = settings.turn_detection
    if detection is None or detection.idle_timeout_ms is None or settings.idle_timeout_ms:
        return replace(settings, ignored=others)
    return replace(settings, ignored=(*others, _IDLE_TIMEOUT)[:MOST])


def _diariser(patch: LookhearPatch, models: Sequence[ModelCard]) -> str | None:
    """Who tells speakers apart, if that is wanted."""
    if not patch.speakers:
        return None
    if (card := diariser(models)) is None:
        raise wrong(_SPEAKERS, f"false{NONE}", "true", NO_WHO)
    return card.id


def _typed(
    settings: SessionSettings, type: str, session: dict[str, Any], models: Sequence[ModelCard]
) -> SessionSettings:
    if type == "transcription":
        if settings.model is None:
            raise _cannot_transcribe()
        return replace(settings, converse=None)
    if type != "realtime":
        raise wrong("session.type", '"transcription" or "realtime"', shown(type))
    cards = chat_models(models)
    if not cards:
        got = '"realtime"; no served model answers, this server transcribes'
        raise wrong("session.type", '"transcription"', got, "unsupported_session_type")
    converse = settings.converse or ConverseSettings(cards[0].id)
    new = replace(settings, converse=converse_updated(converse, session, models))
    if "model" in session:
        card = find_model(new.main_model, models, "session.model")
        new = _asked(new, "model", session["model"], card)
    return new


def _with_input(
    settings: SessionSettings, patch: InputPatch, models: Sequence[ModelCard]
) -> SessionSettings:
    new = settings
    given = patch.model_fields_set
    if "format" in given:
        new = replace(new, format=_format(patch.format))
    if "noise_reduction" in given:
        reduction = patch.noise_reduction
        new = replace(new, noise_reduction=None if reduction is None else reduction.type)
    if "transcription" in given:
        new = _with_transcription(new, patch.transcription, models)
    if "turn_detection" in given:
        detection = patch.turn_detection
        merged = None
        if detection is not None:
            merged = _detection(new.turn_detection or TurnDetection(), detection)
        new = replace(new, turn_detection=merged)
    return new


def _with_transcription(
    settings: SessionSettings, patch: TranscriptionPatch | None, models: Sequence[ModelCard]
) -> SessionSettings:
    speech = speech_models(models)
    if patch is None:  # "off", which no session can be: back to the defaults
        first = speech[0].id if speech else None
        new = replace(settings, model=first, language=None, languages=(), prompt="", keywords=())
        new = replace(new, delay=None)
        return _asked(new, _TRANSCRIPTION_MODEL, None, None)
    new = settings
    given = patch.model_fields_set
    path = "session.audio.input.transcription"
    if patch.model is not None:
        card = find_model(patch.model, models, f"{path}.model", "transcribe")
        new = _asked(replace(new, model=card.id), _TRANSCRIPTION_MODEL, patch.model, card)
    elif "model" in given:
        new = replace(new, model=speech[0].id if speech else None)
        new = _asked(new, _TRANSCRIPTION_MODEL, None, None)
    if "prompt" in given:
        new = replace(new, prompt=patch.prompt or "")
    if "keywords" in given:
        new = replace(new, keywords=tuple(filter(None, patch.keywords or ())))
    if "delay" in given:
        new = replace(new, delay=patch.delay)
    if "language" in given:
        new = replace(new, language=language_code(patch.language))
    if "languages" in given:
        codes = [language_code(language) for language in patch.languages or ()]
        new = replace(new, languages=tuple(code for code in codes if code))
    if new.model is not None and not given.isdisjoint({"language", "languages", "model"}):
        card = find_model(new.model, speech, f"{path}.model")
        if new.language is not None:
            check_language(new.language, card, f"{path}.language")
        for code in new.languages:
            check_language(code, card, f"{path}.languages")
    return new


def _detection(settings: TurnDetection, patch: TurnDetectionPatch) -> TurnDetection:
    """An update of the same type keeps what it does not name; another type begins anew."""
    default = TurnDetection(type=patch.type)
    return merged(settings if patch.type == settings.type else default, default, patch)


def _format(patch: FormatPatch | None) -> AudioFormat:
    if patch is None:
        return AudioFormat()
    try:
        return AudioFormat.parse(patch.type, patch.rate)
    except AudioFormatError as error:
        param = f"session.audio.input.format.{error.field}"
        message = f"{param}: expected {error.expected}; got {shown(error.got)}"
        raise ProtocolError(message, code="invalid_value", param=param) from None


def _includes_logprobs(include: list[str]) -> bool:
    for index, entry in enumerate(include):
        if entry != LOGPROBS:
            raise wrong(f"session.include[{index}]", shown(LOGPROBS), shown(entry))
    return bool(include)


def _cannot_transcribe() -> ProtocolError:
    got = '"transcription"; no served model transcribes, this server answers'
    return wrong("session.type", '"realtime"', got, "unsupported_session_type")
