"""The body of a chat completion but for its messages: what may be set, and what is not there yet.

What cannot be used is an `ApiError` (400) that names the field, says what was expected and what
came. Unknown fields change nothing and are named in the answer's headers; those that only describe
who asks, or ask for nothing, are not.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationError

from lookhear.engine.messages import AnswerSettings, Tool
from lookhear.gateway.chat.refusals import Absent, check_absent, invalid, unsupported
from lookhear.gateway.checks.answers import (
    INT32,
    JsonSchema,
    ResponseFormat,
    SamplingFields,
    answer_settings,
    checked_schema,
    thoughtless,
)
from lookhear.gateway.checks.checks import Text, WireModel, shown
from lookhear.gateway.checks.tools import CheckedChoice, FunctionWire, ToolChoice, few_tools
from lookhear.gateway.checks.unread import MOST, unread
from lookhear.gateway.http.errors import ApiError, wrong

MAX_CHOICES = 8
MAX_SALT = 1024  # characters
MAX_TEXTS = 256  # of which an answer may be one
MAX_PATTERN = 4096  # characters
MAX_TOKENS = 1024  # that logit_bias, or stop_token_ids, may name
FORMS = ("choice", "regex", "json", "json_object")  # of structured_outputs
ONLY_SCHEMAS = "this server constrains answers by response_format and structured_outputs"

ABSENT: Absent = {
    "functions": ((None, []), "functions are tools now"),
    "function_call": ((None, "none"), "functions are tools now, say tool_choice"),
    "guided_json": ((None,), ONLY_SCHEMAS),
    "guided_regex": ((None,), ONLY_SCHEMAS),
    "guided_choice": ((None,), ONLY_SCHEMAS),
    "guided_grammar": ((None,), ONLY_SCHEMAS),
    "modalities": ((None, [], ["text"]), "this server answers in text only"),
    "audio": ((None,), "this server answers in text only"),
    "prediction": ((None,), "this server takes no predicted outputs"),
    "web_search_options": ((None,), "this server does not search the web"),
    "prompt_embeds": ((None,), "embeddings are parts of messages: type prompt_embeds with data"),
    "prompt_logprobs": ((None,), "this server has log probabilities of answers only"),
    "use_beam_search": ((None, False), "this server samples, it has no beams"),
}
# Read elsewhere, or about who asks and how the answer is kept and billed.
HARMLESS = {
    *ABSENT,
    *("messages", "user", "store", "metadata", "service_tier", "safety_identifier"),
    *("prompt_cache_key", "prompt_cache_retention", "request_id"),
}
# What some servers have, with the values that are ours already.
USUAL: dict[str, tuple[Any, ...]] = {
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True, False),
    "add_generation_prompt": (True,),
    "include_stop_str_in_output": (False,),
    "best_of": (1,),
    "reasoning_effort": ("none",),  # which is read
    "mm_processor_kwargs": (),
}
# The field of the body for each setting that an engine's refusal may begin with.
FIELDS = {
    **{field.name: field.name for field in fields(AnswerSettings)},
    "messages": "messages",
    "max_tokens": "max_completion_tokens",
    "stop_tokens": "stop_token_ids",
    "ignore_end": "ignore_eos",
    "logprobs": "top_logprobs",
    "template": "chat_template_kwargs",
    "schema": "response_format",
    "tool_choice": "tool_choice",
    "pattern": "structured_outputs",
    "choices": "structured_outputs",
}


def _token_ids(bias: dict[str, float]) -> dict[str, float]:
    for token in bias:
        if not (token.isascii() and token.isdecimal() and int(token[:11]) < INT32):
            raise ValueError(f"expected token ids as names, got {shown(token)}")
    return {str(int(token)): value for token, value in bias.items()}


def _schema(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError(f"expected a JSON Schema, got {shown(value)}") from None


Choice = Annotated[Text, Field(min_length=1, max_length=MAX_PATTERN)]
TokenId = Annotated[int, Field(ge=0, lt=INT32)]
LogitBias = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]


class StreamOptions(WireModel):
    """Of an answer in chunks."""

    include_usage: bool | None = None


class StructuredOutputs(WireModel):
    """What answers keep to, as vLLM names it. content: JSON Schema, or the text of it."""

    choice: Annotated[list[Choice], Field(min_length=1, max_length=MAX_TEXTS)] | None = None
    regex: Annotated[Text, Field(min_length=1, max_length=MAX_PATTERN)] | None = None
    content: Annotated[dict[str, Any], BeforeValidator(_schema), AfterValidator(checked_schema)] | (
        None
    ) = Field(None, alias="json")
    json_object: bool | None = None

    @property
    def forms(self) -> list[str]:
        """Those that are given, by their names."""
        given = (self.choice, self.regex, self.content, self.json_object or None)
        return [name for name, form in zip(FORMS, given, strict=True) if form is not None]

    def format(self) -> ResponseFormat | None:
        """The same as a `response_format`; None: it is no JSON."""
        if self.content is not None:
            schema = JsonSchema(name="answer", schema=self.content)
            return ResponseFormat(type="json_schema", json_schema=schema)
        return ResponseFormat(type="json_object") if self.json_object else None


def _one_form(given: StructuredOutputs) -> StructuredOutputs:
    if len(given.forms) > 1:
        raise ValueError(f"expected one of {', '.join(FORMS)}, got {' and '.join(given.forms)}")
    return given


class ChatTool(WireModel):
    """A tool, of which there is one kind."""

    type: Literal["function"]
    function: FunctionWire


class CompletionFields(SamplingFields):
    """What is read of chats and of plain texts, by the names on the wire."""

    model: Text | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1, lt=INT32)] | None = None
    min_tokens: Annotated[int, Field(ge=0, lt=INT32)] | None = None
    logit_bias: (
        Annotated[dict[Text, LogitBias], Field(max_length=MAX_TOKENS), AfterValidator(_token_ids)]
        | None
    ) = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=MAX_TOKENS)] | None = None
    ignore_eos: bool | None = None
    cache_salt: Annotated[Text, Field(max_length=MAX_SALT)] | None = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the counts."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def settings_with(self, **more: Any) -> AnswerSettings:
        """Of the first choice, in the engine's words, but for the model. more: what is not of
        both."""
        return answer_settings(
            self,
            "",
            secrets.randbits(63),
            min_tokens=self.min_tokens or 0,
            logit_bias=dict(self.logit_bias or {}),
            stop_tokens=sorted(set(self.stop_token_ids or [])),
            ignore_end=bool(self.ignore_eos),
            cache_salt=self.cache_salt or "",
            **more,
        )

    def check(self, most: int | None) -> None:
        """most: tokens of an answer. Raises ApiError where fields do not go together."""
        if self.stream_options is not None and not self.stream:
            raise wrong("stream_options", "stream true with it", shown(self.stream))
        if most is not None and (self.min_tokens or 0) > most:
            raise wrong("min_tokens", f"at most the {most} tokens allowed", str(self.min_tokens))


class Parameters(CompletionFields):
    """The fields that are read, by their names on the wire. messages: checked by `messages.py`."""

    max_completion_tokens: Annotated[int, Field(ge=1, lt=INT32)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    continue_final_message: bool | None = None
    structured_outputs: Annotated[StructuredOutputs, AfterValidator(_one_form)] | None = None
    tools: list[ChatTool] | None = None
    tool_choice: CheckedChoice = ToolChoice()
    parallel_tool_calls: bool | None = None
    _ignored: tuple[str, ...] = PrivateAttr(default=())
    _effort: object = PrivateAttr(default=None)

    @property
    def ignored(self) -> tuple[str, ...]:
        """What was set and changes nothing."""
        return self._ignored

    @property
    def fields(self) -> Mapping[str, str]:
        """`FIELDS`, by the names that this client has for an answer's length and its schema."""
        own: dict[str, str] = {}
        if self.max_tokens is not None and self.max_completion_tokens is None:
            own["max_tokens"] = "max_tokens"
        if self.structured_outputs is not None and self.structured_outputs.format() is not None:
            own["schema"] = "structured_outputs"
        return FIELDS | own

    @property
    def given_tools(self) -> list[Tool]:
        """In the engine's words."""
        return [tool.function.tool() for tool in self.tools or ()]

    def settings(self) -> AnswerSettings:
        """Of the first choice, in the engine's words, but for the model."""
        form = self.structured_outputs or StructuredOutputs(json=None)
        settings = self.settings_with(
            max_tokens=self.max_completion_tokens or self.max_tokens,
            continues=bool(self.continue_final_message),
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            parallel_calls=self.parallel_tool_calls is not False and not self.tool_choice.is_once,
            pattern=form.regex,
            choices=list(form.choice or ()),
            **self.tool_choice.settings(self.given_tools),
        )
        settings.template.update(thoughtless(self._effort) | settings.template)
        format = form.format()
        return settings if format is None else replace(settings, schema=format.schema_text())


def parse_parameters(body: Mapping[str, Any]) -> Parameters:
    """Raises ApiError, naming the field."""
    check_absent(body, ABSENT)
    _check_grammars(body.get("structured_outputs"))
    _check_processor(body.get("mm_processor_kwargs"))
    try:
        checked = Parameters.model_validate(body)
    except ValidationError as error:
        raise invalid(error) from None
    if checked.top_logprobs is not None and not checked.logprobs:
        raise wrong("top_logprobs", "logprobs true with it", shown(checked.logprobs))
    if checked.continue_final_message and body.get("add_generation_prompt"):
        expected = "add_generation_prompt false with it: no other message begins"
        raise wrong("continue_final_message", expected, "true")
    format = checked.response_format
    if checked.structured_outputs is not None and format is not None and format.type != "text":
        raise wrong("structured_outputs", "no response_format with it", shown(format.type))
    checked.check(checked.max_completion_tokens or checked.max_tokens)
    for name, check in (("tools", few_tools), ("tool_choice", checked.tool_choice.check)):
        try:
            check(checked.given_tools)
        except ValueError as error:
            message = f"{name}: {error}"
            raise ApiError(400, message, code="invalid_value", param=name) from None
    checked._ignored, checked._effort = _ignored(body), body.get("reasoning_effort")
    return checked


def _check_grammars(given: object) -> None:
    """Forms that some servers have and this one does not. Raises ApiError."""
    for name in ("grammar", "structural_tag"):
        if isinstance(given, dict) and given.get(name) is not None:
            why = f"answers keep to one of {', '.join(FORMS)} here"
            raise unsupported(f"structured_outputs.{name}", why, given[name])


def _check_processor(given: object) -> None:
    """What some servers are told of media. Raises ApiError for what would be passed over."""
    for name in ("use_audio_in_video", "load_audio_from_video"):
        if isinstance(given, dict) and given.get(name):
            path, why = f"mm_processor_kwargs.{name}", "videos are seen and not heard"
            raise unsupported(path, f"{why}: send the recording beside it", given[name])


def _ignored(body: Mapping[str, Any]) -> tuple[str, ...]:
    usual = {name for name, values in USUAL.items() if body.get(name) in values}
    if body.get("continue_final_message"):
        usual.add("add_generation_prompt")
    found = unread(body, Parameters, harmless=HARMLESS | usual)
    return tuple(islice((path for path, asks in found if asks), MOST))
