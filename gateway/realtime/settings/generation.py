"""How a session that converses answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from lookhear.engine.messages import AnswerSettings
from lookhear.gateway.checks.response_format import ResponseFormat

Truncation = Literal["auto", "disabled"]


@dataclass(frozen=True, slots=True)
class CameraSettings:
    """Which frames of a live camera are kept."""

    max_frames: int = 16  # the newest are kept in full; as many older ones, thinned, at most
    min_change: float = 0.01  # what differs less from the last kept one is not, see `difference`
    max_pixels: int = 640 * 480  # of a frame; larger ones are scaled down
    max_fps: float = 4.0  # what comes faster, by its timestamps, is not even decoded
    report: bool = False  # the client wants to hear what was kept


@dataclass(frozen=True, slots=True)
class Sampling:
    """None: as the checkpoint says. Names and meanings are those of AnswerSettings."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: list[str] = field(default_factory=list)
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    response_format: ResponseFormat = ResponseFormat(type="text")
    reasoning: bool = False  # the client wants to see the model's thinking


@dataclass(frozen=True, slots=True)
class ConverseSettings:
    """How a session answers."""

    model: str  # the one that answers
    instructions: str = ""  # what the model is told before the conversation
    max_output_tokens: int | None = None  # None: as many as fit
    truncation: Truncation = "auto"  # disabled: rather no answer than one that forgot something
    sampling: Sampling = Sampling()
    camera: CameraSettings = CameraSettings()

    def answer(self, seed: int) -> AnswerSettings:
        """What the engine is told. seed: if the client named none."""
        sampling = self.sampling
        return AnswerSettings(
            model=self.model,
            max_tokens=self.max_output_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=None if sampling.top_k is None else max(0, sampling.top_k),  # -1 also is "off"
            min_p=sampling.min_p,
            repetition_penalty=sampling.repetition_penalty,
            presence_penalty=sampling.presence_penalty or 0.0,
            frequency_penalty=sampling.frequency_penalty or 0.0,
            seed=seed if sampling.seed is None else sampling.seed,
            stop=list(sampling.stop),
            template=dict(sampling.chat_template_kwargs),
            schema=sampling.response_format.schema_text(),
        )
