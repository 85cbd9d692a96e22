"""How a `realtime` session answers, as clients set it: for good, or for one response.

As everywhere in a session, a field that is absent keeps its value and null sets it back; but for
the fields of one response, where null is the session's value: so SDKs write what is not set. What
OpenAI's format has no field for (temperature, top_p, seed, ...) is in the extension object
`lookhear`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from lookhear.engine.messages import ModelCard, Tool
from lookhear.gateway.checks.answers import INT32, Sampling, SamplingFields
from lookhear.gateway.checks.checks import ProtocolError, Text, WireModel, invalid, shown
from lookhear.gateway.checks.models import chat_model
from lookhear.gateway.checks.tools import CheckedChoice, FunctionWire, ToolChoice, few_tools
from lookhear.gateway.realtime.protocol.commands import ResponsePlan
from lookhear.gateway.realtime.settings import (
    CameraSettings,
    ConverseSettings,
    Truncation,
    TurnDetection,
)

T = TypeVar("T", Sampling, CameraSettings, TurnDetection)

MAX_INSTRUCTIONS = 1_000_000  # characters


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


def _only(harmless: Sequence[Any], expected: str) -> AfterValidator:
    """What a field that is not there yet may hold all the same."""

    def check(value: Any) -> Any:
        if value not in harmless:
            raise ValueError(f"expected {expected}; got {shown(value)}")
        return value

    return AfterValidator(check)


NO_TEMPLATE = _only((None,), "null, prompt templates are not stored here (use instructions)")


def _truncation(value: Any) -> tuple[Truncation, float | None]:
    """Whether to forget what no longer fits, and how much of it to keep then, if that is said."""
    match value:
        case None | "auto":
            return "auto", None
        case "disabled":
            return "disabled", None
        case {"type": "retention_ratio", "retention_ratio": int() | float() as ratio} if (
            not isinstance(ratio, bool) and 0 <= ratio <= 1
        ):
            return "auto", float(ratio)
    share = '{"type": "retention_ratio", "retention_ratio": a number from 0 to 1}'
    raise ValueError(f'expected "auto", "disabled" or {share}, got {shown(value)}')


class SamplingPatch(SamplingFields):
    """The part of `lookhear` that is about answers."""

    reasoning: bool | None = None


class CameraPatch(WireModel):
    """What may be set of the camera."""

    max_frames: Annotated[int, Field(ge=1, le=128)] | None = None
    min_change: Annotated[float, Field(ge=0, le=1)] | None = None
    max_pixels: Annotated[int, Field(ge=1024, le=1 << 22)] | None = None
    max_fps: Annotated[float, Field(gt=0, le=60)] | None = None
    report: bool | None = None


class RealtimeTool(FunctionWire):
    """A function of the client's. Tools of other servers (mcp) are not there."""

    type: Literal["function"]


class GenerationPatch(WireModel):
    """What sessions and single responses have in common."""

    instructions: Annotated[Text, Field(max_length=MAX_INSTRUCTIONS)] | None = None
    output_modalities: Annotated[list[Any], AfterValidator(_text_only)] | None = None
    max_output_tokens: Annotated[Any, AfterValidator(_length)] = None
    tools: list[RealtimeTool] | None = None
    tool_choice: CheckedChoice = ToolChoice()
    parallel_tool_calls: bool | None = None
    prompt: Annotated[Any, NO_TEMPLATE] = None
    lookhear: SamplingPatch | None = None


class SessionExtensions(SamplingPatch):
    """`lookhear` of a session: only there is a camera."""

    camera: CameraPatch | None = None


class ConversePatch(GenerationPatch):
    """What a session of type `realtime` has beyond a transcription session."""

    lookhear: SessionExtensions | None = None
    model: Text | None = None
    truncation: Annotated[Any, AfterValidator(_truncation)] = None


class ResponsePatch(GenerationPatch):
    """`response` of `response.create`, apart from its input."""

    conversation: Literal["auto", "none"] | None = None
    metadata: (
        Annotated[
            dict[Annotated[Text, Field(max_length=64)], Annotated[Text, Field(max_length=512)]],
            Field(max_length=16),
        ]
        | None
    ) = None


def converse_updated(
    settings: ConverseSettings, session: dict[str, Any], models: Sequence[ModelCard]
) -> ConverseSettings:
    """The settings after a `session.update`. Raises ProtocolError."""
    try:
        patch = ConversePatch.model_validate(session)
    except ValidationError as error:
        raise invalid(error, "session") from None
    new = _with(settings, patch, "session")
    given = patch.model_fields_set
    if "model" in given:
        new = replace(new, model=chat_model(patch.model, models).id)
    if "truncation" in given:
        truncation, retention = patch.truncation
        new = replace(new, truncation=truncation, retention=retention)
    extensions = patch.lookhear
    if "lookhear" in given and extensions is None:
        new = replace(new, camera=CameraSettings())
    if extensions is not None and "camera" in extensions.model_fields_set:
        new = replace(new, camera=merged(new.camera, CameraSettings(), extensions.camera))
    return new


def response_plan(settings: ConverseSettings, response: dict[str, Any]) -> ResponsePlan:
    """The settings for one `response.create` that changes them. Raises ProtocolError."""
    try:
        given = {name: value for name, value in response.items() if value is not None}
        patch = ResponsePatch.model_validate(given)
    except ValidationError as error:
        raise invalid(error, "response") from None
    new = _with(settings, patch, "response")
    return ResponsePlan(new, patch.conversation != "none", patch.metadata)


def _with(settings: ConverseSettings, patch: GenerationPatch, path: str) -> ConverseSettings:
    new = settings
    given = patch.model_fields_set
    if "instructions" in given:
        new = replace(new, instructions=patch.instructions or "")
    if "max_output_tokens" in given:
        new = replace(new, max_output_tokens=patch.max_output_tokens)
    if "lookhear" in given:
        new = replace(new, sampling=merged(new.sampling, Sampling(), patch.lookhear))
    if "parallel_tool_calls" in given:
        new = replace(new, parallel_calls=patch.parallel_tool_calls is not False)
    if not given.isdisjoint({"tools", "tool_choice"}):
        if "tools" in given:
            new = replace(new, tools=tuple(patch.tools or ()))
        if "tool_choice" in given:
            new = replace(new, tool_choice=patch.tool_choice)
        _check_tools(new, path, is_chosen="tool_choice" in given and path == "response")
    return new


def _check_tools(settings: ConverseSettings, path: str, *, is_chosen: bool) -> None:
    """is_chosen: for this very response. A session may say what must be called before it says what
    there is: agents do. Without tools that forces nothing."""
    tools = [tool.tool() for tool in settings.tools]
    checks: list[tuple[str, Callable[[list[Tool]], object]]] = [("tools", few_tools)]
    if tools or is_chosen:
        checks.append(("tool_choice", settings.tool_choice.check))
    for name, check in checks:
        try:
            check(tools)
        except ValueError as error:
            param = f"{path}.{name}"
            message = f"{param}: {error}"
            raise ProtocolError(message, code="invalid_value", param=param) from None


def merged(settings: T, default: T, patch: WireModel | None) -> T:
    """What the patch names is changed, and to the default where it names null; None: all is."""
    if patch is None:
        return default
    changes = {}
    for name in patch.model_fields_set & {field.name for field in fields(settings)}:
        value = getattr(patch, name)
        changes[name] = getattr(default, name) if value is None else value
    return replace(settings, **changes)
