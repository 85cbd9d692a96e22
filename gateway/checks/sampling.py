"""What may be set about an answer, wherever it is asked for."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from lookhear.gateway.checks.checks import Text, WireModel, check_json, shown
from lookhear.gateway.checks.response_format import CheckedFormat

INT32 = 1 << 31
INT64 = 1 << 63
MAX_STOPS = 16
MAX_DEPTH = 16  # of chat_template_kwargs
TEMPLATE_OWN = ("messages", "add_generation_prompt", "self")  # not the client's to set


def _stops(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _few_stops(stops: list[str]) -> list[str]:
    if len(stops) > MAX_STOPS:
        raise ValueError(f"expected at most {MAX_STOPS} texts, got {len(stops)}")
    if not all(stops):
        raise ValueError('expected texts that are not empty, got ""')
    return stops


def _variables(values: dict[str, Any]) -> dict[str, Any]:
    for name in TEMPLATE_OWN:
        if name in values:
            raise ValueError(f"expected variables of the chat template, got {shown(name)}")
    check_json(values, MAX_DEPTH, bits=64)  # which is what goes between processes
    return values


Stops = Annotated[list[Text], BeforeValidator(_stops), AfterValidator(_few_stops)]
"""Texts that end an answer, or just one."""

TemplateVariables = Annotated[dict[str, Any], AfterValidator(_variables)]
"""What a checkpoint's chat template is told beyond the messages."""


def _number(low: float, high: float) -> Any:
    return Field(ge=low, le=high, allow_inf_nan=False)


class SamplingFields(WireModel):
    """What sessions and chat completions call alike; ranges as in OpenAI's and vLLM's APIs."""

    temperature: Annotated[float, _number(0, 2)] | None = None
    top_p: Annotated[float, _number(0, 1)] | None = None
    top_k: Annotated[int, Field(ge=-1, lt=INT32)] | None = None
    min_p: Annotated[float, _number(0, 1)] | None = None
    repetition_penalty: Annotated[float, _number(0.01, 100)] | None = None
    presence_penalty: Annotated[float, _number(-2, 2)] | None = None
    frequency_penalty: Annotated[float, _number(-2, 2)] | None = None
    seed: Annotated[int, Field(ge=-INT64, lt=INT64)] | None = None
    stop: Stops | None = None
    chat_template_kwargs: TemplateVariables | None = None
    response_format: CheckedFormat | None = None
