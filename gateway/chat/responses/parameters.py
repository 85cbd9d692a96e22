"""The body of a response but for its input: what may be set, and what cannot mean anything here.

What cannot be used is an `ApiError` (400) that names the field. Unknown fields change nothing and
are named in the answer's headers.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError

from lookhear.engine.messages import AnswerSettings, Tool
from lookhear.gateway.chat.answers import TOOL_SCHEMA
from lookhear.gateway.chat.refusals import Absent, check_absent, invalid
from lookhear.gateway.chat.responses.tools import ResponseTool, Told, told_of
from lookhear.gateway.checks.answers import (
    INT32,
    JsonSchema,
    ResponseFormat,
    SamplingFields,
    answer_settings,
    checked_schema,
    schema_name,
    thoughtless,
)
from lookhear.gateway.checks.checks import Text, WireModel, shown
from lookhear.gateway.checks.tools import CheckedChoice, ToolChoice, few_tools
from lookhear.gateway.checks.unread import MOST, unread
from lookhear.gateway.http.errors import ApiError, wrong

MAX_PAIRS, MAX_NAME, MAX_VALUE = 16, 64, 512  # of metadata; characters
MAX_SALT = 1024  # characters
LOGPROBS = "message.output_text.logprobs"
ENCRYPTED = "reasoning.encrypted_content"
# What there is to include: the second changes nothing (thinking comes in plain text), the others
# are about what never is in a response of ours, or is in it anyway.
INCLUDABLE = (
    *(LOGPROBS, ENCRYPTED, "message.input_image.image_url", "file_search_call.results"),
    *("web_search_call.results", "web_search_call.action.sources"),
    *("computer_call_output.output.image_url", "code_interpreter_call.outputs"),
)

ABSENT: Absent = {
    "background": ((None, False), "a response is made while its request lasts"),
    "conversation": ((None,), "a conversation goes on by previous_response_id"),
    "prompt": ((None,), "no prompts are stored here"),
    "context_management": ((None, []), "nothing is compacted here"),
    "moderation": ((None,), "nothing is moderated here"),
    "messages": ((None,), "in this API they are input"),
    "response_format": ((None,), "in this API it is text.format"),
    "max_tokens": ((None,), "in this API it is max_output_tokens"),
    "max_completion_tokens": ((None,), "in this API it is max_output_tokens"),
    "n": ((None, 1), "a response is one answer"),
    "logprobs": ((None, False), f"in this API they are included: {LOGPROBS}"),
    "functions": ((None, []), "functions are tools now"),
    "function_call": ((None, "none"), "functions are tools now, say tool_choice"),
    "modalities": ((None, [], ["text"]), "this server answers in text only"),
    "audio": ((None,), "this server answers in text only"),
}
# Read elsewhere, or about who asks, how the answer is billed, and tools that are not there.
HARMLESS = {
    *ABSENT,
    *("input", "user", "metadata", "service_tier", "safety_identifier", "max_tool_calls"),
    *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
}
# The field of the body for each setting that an engine's refusal may begin with.
FIELDS = {
    **{field.name: field.name for field in fields(AnswerSettings)},
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "logprobs": "top_logprobs",
    "template": "chat_template_kwargs",
    "schema": "text.format",
    TOOL_SCHEMA: ".parameters",
}


class TextFormat(WireModel):
    """How the answer is to look. name, content: of `json_schema` alone."""

    type: Literal["text", "json_object", "json_schema"]
    name: Annotated[str, AfterValidator(schema_name)] | None = None
    description: Text | None = None
    content: Annotated[dict[str, Any], AfterValidator(checked_schema)] | None = Field(
        None, alias="schema"
    )
    strict: bool | None = None

    def format(self) -> ResponseFormat:
        """As chat completions have it."""
        if self.type != "json_schema":
            return ResponseFormat(type=self.type)
        assert self.name is not None and self.content is not None
        schema = JsonSchema(name=self.name, schema=self.content)
        return ResponseFormat(type=self.type, json_schema=schema)

    def as_given(self) -> dict[str, Any]:
        """As a response shows it."""
        return self.model_dump(by_alias=True, exclude_none=True)


def _complete(format: TextFormat) -> TextFormat:
    if format.type == "json_schema" and (format.name is None or format.content is None):
        raise ValueError("expected a name and a schema with it, got json_schema without")
    return format


class TextConfig(WireModel):
    """About the text of an answer."""

    format: Annotated[TextFormat, AfterValidator(_complete)] | None = None


def _few_pairs(metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata) > MAX_PAIRS:
        raise ValueError(f"expected at most {MAX_PAIRS} pairs, got {len(metadata)}")
    for name, value in metadata.items():
        if len(name) > MAX_NAME or len(value) > MAX_VALUE:
            most = f"names of at most {MAX_NAME} characters and values of {MAX_VALUE}"
            raise ValueError(f"expected {most}, got {shown({name: value})}")
    return metadata


class Parameters(SamplingFields):
    """The fields that are read, by their names on the wire. input: checked by `items.py`."""

    model: Text | None = None
    instructions: Text | None = None
    stream: bool | None = None
    store: bool | None = None
    previous_response_id: Text | None = None
    max_output_tokens: Annotated[int, Field(ge=1, lt=INT32)] | None = None
    text: TextConfig | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: CheckedChoice = ToolChoice()
    parallel_tool_calls: bool | None = None
    include: list[Text] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    metadata: Annotated[dict[Text, Text], AfterValidator(_few_pairs)] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    cache_salt: Annotated[Text, Field(max_length=MAX_SALT)] | None = None
    _ignored: tuple[str, ...] = PrivateAttr(default=())
    _told: Told = PrivateAttr(default_factory=Told)
    _effort: object = PrivateAttr(default=None)

    @property
    def ignored(self) -> tuple[str, ...]:
        """What was set and changes nothing."""
        return self._ignored

    @property
    def fields(self) -> Mapping[str, str]:
        """`FIELDS`, with the client's own places of tools."""
        origins = enumerate(self._told.origins)
        return FIELDS | {f"tools[{place}]": origin.path for place, origin in origins}

    @property
    def called(self) -> Mapping[str, dict[str, Any]]:
        """See `Told.called`."""
        return self._told.called(self.tools or ())

    @property
    def given_tools(self) -> list[Tool]:
        """In the engine's words."""
        return [tool.tool() for tool in self.tools or ()]

    @property
    def format(self) -> TextFormat:
        """How the answer is to look."""
        given = None if self.text is None else self.text.format
        return given or TextFormat(type="text", schema=None)

    @property
    def wants_logprobs(self) -> bool:
        """Of the tokens of the answer's text."""
        return bool(self.top_logprobs) or LOGPROBS in (self.include or ())

    def settings(self) -> AnswerSettings:
        """In the engine's words, but for the model."""
        settings = answer_settings(
            self,
            "",
            secrets.randbits(63),
            max_tokens=self.max_output_tokens,
            cache_salt=self.cache_salt or "",
            logprobs=(self.top_logprobs or 0) if self.wants_logprobs else None,
            parallel_calls=self.parallel_tool_calls is not False and not self.tool_choice.is_once,
            **self.tool_choice.settings(self.given_tools),
        )
        settings.template.update(thoughtless(self._effort) | settings.template)
        return replace(settings, schema=self.format.format().schema_text())

    def as_given(self) -> dict[str, Any]:
        """What a response shows of them."""
        choice = self.tool_choice.on_wire
        if isinstance(choice, dict):
            named = [{"type": "function", "name": name} for name in self.tool_choice.names]
            is_one = choice["type"] == "function"
            some = {"type": "allowed_tools", "mode": self.tool_choice.mode, "tools": named}
            choice = named[0] if is_one else some
        return {
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens,
            "metadata": self.metadata or {},
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "previous_response_id": self.previous_response_id,
            "reasoning": {"effort": "none" if thoughtless(self._effort) else None, "summary": None},
            "temperature": self.temperature,
            "text": {"format": self.format.as_given()},
            "tool_choice": choice,
            "tools": self._told.shown(self.tools or ()),
            "top_logprobs": self.top_logprobs or 0,
            "top_p": self.top_p,
            "truncation": self.truncation or "disabled",
        }


def parse_parameters(body: Mapping[str, Any]) -> Parameters:
    """Raises ApiError, naming the field."""
    check_absent(body, ABSENT)
    told = told_of(body.get("tools"))
    if told.functions is not None:
        body = {**body, "tools": told.functions}
    try:
        checked = Parameters.model_validate(body)
    except ValidationError as error:
        raise told.own(invalid(error)) from None
    checked._told = told
    for index, name in enumerate(checked.include or ()):
        if name not in INCLUDABLE:
            raise wrong(f"include[{index}]", f"one of {', '.join(INCLUDABLE)}", shown(name))
    for name, check in (("tools", few_tools), ("tool_choice", checked.tool_choice.check)):
        try:
            check(checked.given_tools)
        except ValueError as error:
            message = f"{name}: {error}"
            raise ApiError(400, message, code="invalid_value", param=name) from None
    reasoning = body.get("reasoning")
    checked._effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    checked._ignored = (*_ignored(body, checked), *told.left_out[:MOST])
    return checked


def _ignored(body: Mapping[str, Any], checked: Parameters) -> tuple[str, ...]:
    # Without obfuscation is how a stream is here.
    is_usual = body.get("stream_options") == {"include_obfuscation": False}
    usual = {*HARMLESS, "stream_options"} if is_usual else set(HARMLESS)
    if body.get("reasoning") in ({"effort": "none"}, {"effort": "none", "summary": None}):
        usual.add("reasoning")  # which is read
    found = unread(body, Parameters, harmless=usual)
    named = tuple(islice((path for path, asks in found if asks), MOST))
    return (*named, "include") if ENCRYPTED in (checked.include or ()) else named
