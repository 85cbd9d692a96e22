"""What a session is set to: how it hears, and with `converse` how it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lookhear.engine.messages import AnswerSettings, ModelCard, TranscriptionSettings
from lookhear.gateway.checks.answers import Sampling, answer_settings
from lookhear.gateway.checks.models import chat_models, speech_models
from lookhear.gateway.checks.tools import FunctionWire, ToolChoice
from lookhear.media.audio.pcm import AudioFormat
from lookhear.media.voice.vad import VadConfig

# Silence that ends a turn, per eagerness of semantic_vad. We detect turns by voice alone, so the
# eagerness sets how long a pause may be; OpenAI documents only its longest waits (8, 4 and 2 s).
EAGERNESS_SILENCE_MS = {"low": 1500, "medium": 900, "auto": 900, "high": 500}

Eagerness = Literal["low", "medium", "high", "auto"]
Truncation = Literal["auto", "disabled"]


@dataclass(frozen=True, slots=True)
class TurnDetection:
    """When a turn begins and ends, and what follows in a session that answers."""

    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    threshold: float = 0.5  # probability of speech from which on a window counts as speech
    prefix_padding_ms: int = 300  # of audio before the speech that is heard with it
    silence_duration_ms: int = 500  # without speech that ends a turn
    eagerness: Eagerness = "auto"  # to end a turn; instead of the three above with semantic_vad
    create_response: bool = True  # a turn is answered
    interrupt_response: bool = True  # speech ends the answer under way

    def vad(self) -> VadConfig:
        """What the voice detector is told."""
        if self.type == "semantic_vad":
            return VadConfig(silence_duration_ms=EAGERNESS_SILENCE_MS[self.eagerness])
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
            parallel_calls=self.parallel_calls,
            **self.tool_choice.settings([tool.tool() for tool in self.tools]),
        )


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The full effective configuration of a session."""

    model: str | None  # the one that transcribes, None if none is served
    language: str | None = None  # of the speech, None: detect it
    languages: tuple[str, ...] = ()  # the only ones it may be; empty: any
    prompt: str = ""  # what the speech is about, for the model
    format: AudioFormat = AudioFormat()  # of the audio that comes
    turn_detection: TurnDetection | None = TurnDetection()  # None: the client ends turns itself
    logprobs: bool = False  # transcripts come with log probabilities of their tokens
    provisional: bool = False  # text that may still change is wanted, too
    words: bool = False  # times of words are wanted, too
    extended: bool = False  # the client knows our extensions, so they are echoed
    converse: ConverseSettings | None = None  # how it answers, None: it transcribes only

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
            languages=self.languages,
            prompt=self.prompt,
            logprobs=self.logprobs,
            provisional=self.provisional,
            words=self.words,
        )


def default_settings(models: Sequence[ModelCard]) -> SessionSettings:
    """A session nobody asked anything of: it transcribes, or answers where no model can."""
    speech, chat = speech_models(models), chat_models(models)
    if speech:
        return SessionSettings(speech[0].id)
    return SessionSettings(None, converse=ConverseSettings(chat[0].id))
