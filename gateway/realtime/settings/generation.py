"""How a `realtime` session answers: its settings, and what one response may change of them.

As everywhere in a session, a field that is absent keeps its value and null sets it back. What
OpenAI's format has no field for (temperature, top_p, seed, ...) is in the extension object
`lookhear`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from lookhear.engine.messages import AnswerSettings, ModelCard
from lookhear.gateway.checks.checks import Text, WireModel, invalid, shown
from lookhear.gateway.checks.models import chat_model
from lookhear.gateway.checks.response_format import CheckedFormat, ResponseFormat
from lookhear.gateway.checks.sampling import INT32, Stops, TemplateVariables
from lookhear.gateway.realtime.pictures.camera import CameraSettings

MAX_INSTRUCTIONS = 1_000_000  # characters

Truncation = Literal["auto", "disabled"]


def _length(value: Any) -> int | None:
    """None: as many as fit."""
    if value is None or value == "inf":
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < INT32:
        return value
    raise ValueError(f'expected a whole number from 1 to {INT32 - 1} or "inf", got {shown(value)}')


def _text_only(value: list[str]) -> list[str]:
    """Clients that always ask for audio, as the agents SDKs do, are told and given text."""
    if not value or not all(kind in ("text", "audio") for kind in value):
        raise ValueError(f'expected ["text"] or ["audio"], got {shown(value)}')
    return ["text"]


def _no_tools(value: Any) -> Any:
    if value not in (None, []):
        raise ValueError(f"expected no tools, models here cannot call any yet; got {shown(value)}")
    return value


def _no_tool_choice(value: Any) -> Any:
    if value not in (None, "auto", "none"):
        raise ValueError(f'expected "auto" or "none", there are no tools yet; got {shown(value)}')
    return value


def _no_template(value: Any) -> Any:
    if value is not None:
        raise ValueError(
            "expected null, prompt templates are not stored here (use instructions); "
            f"got {shown(value)}"
        )
    return value


def _truncation(value: Any) -> Truncation:
    if value is None or value == "auto" or isinstance(value, dict):
        return "auto"  # with a retention ratio too: what is dropped then is up to us
    if value == "disabled":
        return "disabled"
    raise ValueError(f'expected "auto" or "disabled", got {shown(value)}')


class SamplingPatch(WireModel):
    """The part of `lookhear` that is about decoding; ranges as in OpenAI's and vLLM's APIs."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, lt=INT32)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: Stops | None = None
    chat_template_kwargs: TemplateVariables | None = None
    response_format: CheckedFormat | None = None
    reasoning: bool | None = None


class CameraPatch(WireModel):
    max_frames: Annotated[int, Field(ge=1, le=128)] | None = None
    min_change: Annotated[float, Field(ge=0, le=1)] | None = None
    max_pixels: Annotated[int, Field(ge=1024, le=1 << 22)] | None = None
    max_fps: Annotated[float, Field(gt=0, le=60)] | None = None
    report: bool | None = None


class GenerationPatch(WireModel):
    """What sessions and single responses have in common."""

    instructions: Annotated[Text, Field(max_length=MAX_INSTRUCTIONS)] | None = None
    output_modalities: Annotated[list[Any], AfterValidator(_text_only)] | None = None
    max_output_tokens: Annotated[Any, AfterValidator(_length)] = None
    tools: Annotated[Any, AfterValidator(_no_tools)] = None
    tool_choice: Annotated[Any, AfterValidator(_no_tool_choice)] = None
    prompt: Annotated[Any, AfterValidator(_no_template)] = None
    lookhear: SamplingPatch | None = None


class ConversePatch(GenerationPatch):
    """What a session of type `realtime` has beyond a transcription session."""

    model: Text | None = None
    truncation: Annotated[Any, AfterValidator(_truncation)] = "auto"


class CameraHolder(WireModel):
    camera: CameraPatch | None = None


class CameraOfSession(WireModel):
    lookhear: CameraHolder | None = None


class ResponsePatch(GenerationPatch):
    """`response` of `response.create`, apart from its input."""

    conversation: Literal["auto", "none"] | None = None
    metadata: (
        Annotated[
            dict[
                Annotated[Text, Field(max_length=64)],
                Annotated[Text, Field(max_length=512)],
            ],
            Field(max_length=16),
        ]
        | None
    ) = None


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

    def merged(self, patch: SamplingPatch) -> Sampling:
        default = Sampling()
        changes = {}
        for name in patch.model_fields_set:
            value = getattr(patch, name)
            changes[name] = getattr(default, name) if value is None else value
        return replace(self, **changes)

    def on_wire(self) -> dict[str, Any]:
        """What differs from the defaults."""
        default = Sampling()
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        changed = {name: v for name, v in values.items() if v != getattr(default, name)}
        if "response_format" in changed:
            changed["response_format"] = self.response_format.on_wire()
        return changed


@dataclass(frozen=True, slots=True)
class ConverseSettings:
    """model: the one that answers. max_output_tokens: None for as many as fit."""

    model: str
    instructions: str = ""
    max_output_tokens: int | None = None
    truncation: Truncation = "auto"
    sampling: Sampling = Sampling()
    camera: CameraSettings = CameraSettings()

    def merged(
        self, session: dict[str, Any], models: Sequence[ModelCard], event_id: str | None
    ) -> ConverseSettings:
        """These settings after a `session.update`. Raises ProtocolError."""
        try:
            patch = ConversePatch.model_validate(session)
            camera = CameraOfSession.model_validate(session).lookhear
        except ValidationError as error:
            raise invalid(error, prefix="session", event_id=event_id) from None
        new = self._with(patch)
        given = patch.model_fields_set
        if "model" in given:
            new = replace(new, model=chat_model(patch.model, models, event_id).id)
        if "truncation" in given:
            new = replace(new, truncation=patch.truncation)
        if "lookhear" in given and patch.lookhear is None:
            new = replace(new, camera=CameraSettings())
        if camera is not None and "camera" in camera.model_fields_set:
            new = replace(new, camera=_camera(new.camera, camera.camera))
        return new

    def for_response(
        self, response: dict[str, Any], event_id: str | None
    ) -> tuple[ConverseSettings, ResponsePatch]:
        """These settings for one response that changes them. Raises ProtocolError."""
        try:
            patch = ResponsePatch.model_validate(response)
        except ValidationError as error:
            raise invalid(error, prefix="response", event_id=event_id) from None
        return self._with(patch), patch

    def _with(self, patch: GenerationPatch) -> ConverseSettings:
        new = self
        given = patch.model_fields_set
        if "instructions" in given:
            new = replace(new, instructions=patch.instructions or "")
        if "max_output_tokens" in given:
            new = replace(new, max_output_tokens=patch.max_output_tokens)
        if "lookhear" in given:
            sampling = Sampling() if patch.lookhear is None else new.sampling
            new = replace(new, sampling=sampling.merged(patch.lookhear or SamplingPatch()))
        return new

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

    def on_wire(self) -> dict[str, Any]:
        """The fields of the session object that a transcription session has not."""
        return {
            "model": self.model,
            "output_modalities": ["text"],
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens or "inf",
            "tools": [],
            "tool_choice": "auto",
            "truncation": self.truncation,
        }


def _camera(camera: CameraSettings, patch: CameraPatch | None) -> CameraSettings:
    if patch is None:
        return CameraSettings()
    default = CameraSettings()
    changes = {}
    for name in patch.model_fields_set:
        value = getattr(patch, name)
        changes[name] = getattr(default, name) if value is None else value
    return replace(camera, **changes)
