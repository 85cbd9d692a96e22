"""What a session is set to: how it hears, and with `converse` how it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lookhear.engine.messages import AnswerSettings, Delay, ModelCard, TranscriptionSettings
from lookhear.gateway.checks.answers import Sampling, answer_settings
from lookhear.gateway.checks.models import chat_models, speech_models
from lookhear.gateway.checks.tools import FunctionWire, ToolChoice
from lookhear.gateway.realtime.patience import PATIENCE, Eagerness, Patience
from lookhear.media.audio.pcm import AudioFormat, Packing
from lookhear.media.voice.vad import VadConfig

Truncation = Literal["auto", "disabled"]
NoiseReduction = Literal["near_field", "far_field"]


@dataclass(frozen=True, slots=True)
class TurnDetection:
    """When a turn begins and ends, and what follows in a session that answers."""

    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    threshold: float = 0.5  # probability of speech from which on a window counts as speech
    prefix_padding_ms: int = 300  # of audio before the speech that is heard with it
    silence_duration_ms: int = 500  # without speech that ends a turn
    eagerness: Eagerness = "auto"  # to end a turn; instead of the three above with semantic_vad
    own_patience: Patience | None = None  # instead of the eagerness's
    create_response: bool = True  # a turn is answered
    interrupt_response: bool = True  # speech ends the answer under way
    idle_timeout_ms: int | None = None  # without speech behind an answer, till the next comes

    @property
    def patience(self) -> Patience:
        """How long pauses may last with semantic_vad; when a guess is made, with either."""
        return self.own_patience or PATIENCE[self.eagerness]

    def vad(self, *, hears_ends: bool = False) -> VadConfig:
        """What the voice detector is told. hears_ends: there is who can tell them by sound."""
        if self.type == "semantic_vad":
            patience = self.patience
            if hears_ends:
                pauses = patience.pauses_ms
                return VadConfig(silence_duration_ms=patience.cap_ms, pauses_ms=pauses)
            return VadConfig(silence_duration_ms=patience.silence_ms)
        return VadConfig(
            threshold=self.threshold,
            prefix_padding_ms=self.prefix_padding_ms,
            silence_duration_ms=self.silence_duration_ms,
        )


@dataclass(frozen=True, slots=True)
class CameraSettings:
    """Which frames of a live camera are kept."""

    max_frames: int = 16  # the newest are kept in full; as many older ones, thinned, at most
    min_change: float = 0.01  # what differs less from the last kept one is not, see `difference`
    max_pixels: int = 640 * 480  # of a frame; larger ones are scaled down
    max_fps: float = 4.0  # what comes faster, by its timestamps, is not even decoded
    report: bool = False  # the client wants to hear what was kept


@dataclass(frozen=True, slots=True)
class ConverseSettings:
    """How a session answers."""

    model: str  # the one that answers
    instructions: str = ""  # what the model is told before the conversation
    max_output_tokens: int | None = None  # None: as many as fit
    truncation: Truncation = "auto"  # disabled: rather no answer than one that forgot something
    retention: float | None = None  # share of the past that is kept if there is no room for all
    sampling: Sampling = Sampling()
    camera: CameraSettings = CameraSettings()
    tools: tuple[FunctionWire, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_calls: bool = True

    def answer(self, seed: int) -> AnswerSettings:
        """What the engine is told. seed: if the client named none."""
        return answer_settings(
            self.sampling,
            self.model,
            seed,
            max_tokens=self.max_output_tokens,
            may_shrink=True,
            parallel_calls=self.parallel_calls and not self.tool_choice.is_once,
            **self.tool_choice.settings([tool.tool() for tool in self.tools]),
        )


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The full effective configuration of a session."""

    model: str | None  # the one that transcribes, None if none is served
    language: str | None = None  # of the speech, None: detect it
    languages: tuple[str, ...] = ()  # the only ones it may be; empty: any
    prompt: str = ""  # what the speech is about, for the model
    keywords: tuple[str, ...] = ()  # words of it, to be heard more readily
    delay: Delay | None = None  # how long text may wait to be surer; None: as is thought best
    format: AudioFormat = AudioFormat()  # of the audio that comes
    packing: Packing | None = None  # in which it comes; `format` is what is made of it
    turn_detection: TurnDetection | None = TurnDetection()  # None: the client ends turns itself
    noise_reduction: NoiseReduction | None = None  # near_field: voices in the background are none
    logprobs: bool = False  # transcripts come with log probabilities of their tokens
    provisional: bool = False  # text that may still change is wanted, too
    words: bool = False  # times of words are wanted, too
    diariser: str | None = None  # tells speakers apart; None: nobody is asked to
    silence_ms: int | None = None  # without speech after which the client is told, once
    eager: bool | None = None  # True: the client wants to hear of eager answers, False: wants none
    extended: bool = False  # the client knows our extensions, so they are echoed
    converse: ConverseSettings | None = None  # how it answers, None: it transcribes only
    ignored: tuple[str, ...] = ()  # fields that the client has set and that change nothing
    asked: tuple[tuple[str, str], ...] = ()  # (field, name) of models that are called otherwise
    hears_ends: bool = False  # the server can tell by its sound whether a turn is over

    @property
    def main_model(self) -> str:
        """The one whose engine is the session's to lose."""
        model = self.converse.model if self.converse else self.model
        assert model is not None, "a session that does not answer transcribes"
        return model

    @property
    def patience(self) -> Patience:
        """How long pauses may last; those of manual turns as usual."""
        return (self.turn_detection or TurnDetection()).patience

    def vad(self) -> VadConfig:
        """The detector also runs for manual turns, to tell speech from silence."""
        config = (self.turn_detection or TurnDetection()).vad(hears_ends=self.hears_ends)
        return replace(config, near_field=self.noise_reduction == "near_field")

    @property
    def turn_end(self) -> Literal["sound", "silence"] | None:
        """What ends turns; None: the client."""
        if self.turn_detection is None:
            return None
        is_semantic = self.turn_detection.type == "semantic_vad"
        return "sound" if is_semantic and self.hears_ends else "silence"

    @property
    def idle_timeout_ms(self) -> int | None:
        """How long nobody may speak behind an answer, before the next one comes unasked."""
        detection = self.turn_detection
        if self.converse is None or detection is None or detection.type != "server_vad":
            return None
        return detection.idle_timeout_ms

    @property
    def is_eager(self) -> bool:
        """Whether answers are begun before the turns that they answer are surely over."""
        detection = self.turn_detection
        is_asked = detection is not None and detection.create_response
        return self.converse is not None and is_asked and self.eager is not False

    @property
    def times_words(self) -> bool:
        """Whether words are told with their times: those have who says them, too."""
        return self.words or self.diariser is not None

    def transcription(self) -> TranscriptionSettings:
        """What the engine is told with a new turn."""
        assert self.model is not None, "no served model transcribes"
        return TranscriptionSettings(
            model=self.model,
            language=self.language,
            languages=self.languages,
            prompt=self.prompt,
            keywords=self.keywords,
            delay=self.delay,
            logprobs=self.logprobs,
            provisional=self.provisional or self.turn_end == "sound" or self.is_eager,
            words=self.times_words,
        )


def default_settings(models: Sequence[ModelCard]) -> SessionSettings:
    """A session nobody asked anything of: it transcribes, or answers where no model can."""
    speech, chat = speech_models(models), chat_models(models)
    if speech:
        return SessionSettings(speech[0].id)
    return SessionSettings(None, converse=ConverseSettings(chat[0].id))
