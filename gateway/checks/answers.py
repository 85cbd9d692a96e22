"""What may be set about an answer, wherever it is asked for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from lookhear.engine.messages import AnswerSettings
from lookhear.gateway.checks.checks import Text, WireModel, check_json, shown

INT32 = 1 << 31
INT64 = 1 << 63
MAX_STOPS = 16
MAX_DEPTH = 16  # of chat_template_kwargs
TEMPLATE_OWN = ("messages", "add_generation_prompt", "self")  # not the client's to set
MAX_SCHEMA_BYTES = 64 * 1024  # of JSON without blanks
MAX_SCHEMA_DEPTH = 64
ANY_OBJECT = '{"type":"object"}'


# --- response_format: answers that are JSON, or JSON of a schema ---------------------------------


def checked_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is too large, too deep or no JSON. ValueError."""
    check_json(schema, MAX_SCHEMA_DEPTH)
    size = len(_written(schema).encode())
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"expected at most {MAX_SCHEMA_BYTES} bytes of JSON, got {size}")
    return schema


def _written(value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise ValueError("expected JSON, got a number that is not finite") from None


def schema_name(name: str) -> str:
    """Refuse what is no name of a schema. ValueError."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ValueError(f"expected 1 to 64 letters, digits, _ and -, got {shown(name)}")
    return name


class JsonSchema(WireModel):
    """name, description, strict: taken and not used; an answer keeps to its schema anyway."""

    name: Annotated[str, AfterValidator(schema_name)]
    description: Text | None = None
    content: Annotated[dict[str, Any], AfterValidator(checked_schema)] = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(WireModel):
    """How answers are to look; `CheckedFormat` is it with a schema where one belongs."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    def on_wire(self) -> dict[str, Any]:
        """As the client gave it."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    def schema_text(self) -> str | None:
        """The schema that the answer keeps to, as JSON text."""
        if self.type == "json_object":
            return ANY_OBJECT
        if self.type == "json_schema":
            assert self.json_schema is not None
            return _written(self.json_schema.content)
        return None


def _complete(format: ResponseFormat) -> ResponseFormat:
    if (format.type == "json_schema") != (format.json_schema is not None):
        expected = "json_schema with it" if format.json_schema is None else "no json_schema with it"
        raise ValueError(f"expected {expected}, got {shown(format.type)} for the type")
    return format


CheckedFormat = Annotated[ResponseFormat, AfterValidator(_complete)]


# --- sampling ------------------------------------------------------------------------------------


def _stops(value: Any) -> Any:
    if value is not None and not isinstance(value, str | list):
        raise ValueError(f"expected a text or a list of texts, got {shown(value)}")
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
    _written(values)
    return values


Stops = Annotated[list[Text], BeforeValidator(_stops), AfterValidator(_few_stops)]
"""Texts that end an answer, or just one."""

TemplateVariables = Annotated[dict[str, Any], AfterValidator(_variables)]
"""What a checkpoint's chat template is told beyond the messages."""


def thoughtless(effort: object) -> dict[str, Any]:
    """Variables of a template for an effort of reasoning, of which only "none" changes any."""
    return {"enable_thinking": False} if effort == "none" else {}


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


def answer_settings(
    asked: Sampling | SamplingFields, model: str, seed: int, **more: Any
) -> AnswerSettings:
    """What the engine is told. seed: if the client named none. more: other fields of it."""
    return AnswerSettings(
        model=model,
        temperature=asked.temperature,
        top_p=asked.top_p,
        top_k=None if asked.top_k is None else max(0, asked.top_k),  # -1 also is "off"
        min_p=asked.min_p,
        repetition_penalty=asked.repetition_penalty,
        presence_penalty=asked.presence_penalty or 0.0,
        frequency_penalty=asked.frequency_penalty or 0.0,
        seed=seed if asked.seed is None else asked.seed,
        stop=list(asked.stop or []),
        template=dict(asked.chat_template_kwargs or {}),
        schema=asked.response_format.schema_text() if asked.response_format else None,
        **more,
    )
