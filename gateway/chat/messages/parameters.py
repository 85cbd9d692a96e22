"""The body of a message but for its conversation: what may be set, and what cannot mean anything
here.

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
from lookhear.gateway.chat.refusals import Absent, check_absent, invalid, unsupported, wrong_type
from lookhear.gateway.checks.answers import (
    INT32,
    JsonSchema,
    ResponseFormat,
    SamplingFields,
    Stops,
    answer_settings,
    checked_schema,
)
from lookhear.gateway.checks.checks import Text, WireModel, shown
from lookhear.gateway.checks.tools import FunctionWire, ToolChoice, few_tools
from lookhear.gateway.checks.unread import MOST, unread
from lookhear.gateway.http.errors import ApiError, wrong

ABSENT: Absent = {
    "container": ((None,), "nothing runs here"),
    "mcp_servers": ((None, []), "no tools of others are called here"),
    "prefill": ((None, ""), "what an answer goes on from is a last message of the assistant"),
    "stop": ((None, []), "in this API it is stop_sequences"),
    "n": ((None, 1), "a message is one answer"),
    "response_format": ((None,), "in this API it is output_config.format"),
}
# Read elsewhere, or about who asks, how the answer is billed, and where it is computed.
HARMLESS = {
    *ABSENT,
    *(
        "messages",
        "system",
        "context_management",
        "metadata",
        "service_tier",
        "cache_control",
        "inference_geo",
        "speed",
    ),
    *("user_profile_id", "workspace_id", "diagnostics"),
}
# The field of the body for each setting that an engine's refusal may begin with.
FIELDS = {
    **{field.name: field.name for field in fields(AnswerSettings)},
    "messages": "messages",
    "stop": "stop_sequences",
    "template": "thinking",
    "schema": "output_config.format",
    TOOL_SCHEMA: ".input_schema",
}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
KEPT_THINKING = "clear_thinking_20251015"
UNSUPPORTED = "unsupported_parameter"
MODES = {"auto": "auto", "any": "required", "tool": "required", "none": "none"}


class MessageTool(WireModel):
    """A tool of the client's, of which there is one kind."""

    type: Literal["custom"] | None = None
    name: Text
    description: Text | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None

    def function(self) -> FunctionWire:
        """As other APIs have it. Raises ValidationError."""
        given = {"name": self.name, "description": self.description, "strict": self.strict}
        return FunctionWire.model_validate({**given, "parameters": self.input_schema})


class Choice(WireModel):
    """Which tools may be called, and whether one must be."""

    type: Literal["auto", "any", "tool", "none"]
    name: Text | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(WireModel):
    """Whether the model thinks before it answers; how much, it decides by itself."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]


class JsonFormat(WireModel):
    """What the answer keeps to."""

    type: Literal["json_schema"]
    content: Annotated[dict[str, Any], AfterValidator(checked_schema)] = Field(alias="schema")


class OutputConfig(WireModel):
    """About the text of an answer. See `_check_effort` for what is beside it."""

    format: JsonFormat | None = None


class CountedParameters(SamplingFields):
    """The fields that are read where tokens are counted, too, by their names on the wire. messages,
    system: checked by `conversation.py`."""

    model: Text | None = None
    tools: list[MessageTool] | None = None
    tool_choice: Choice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None
    stop_sequences: Stops | None = None
    stream: bool | None = None
    max_tokens: Annotated[int, Field(ge=1, lt=INT32)] | None = None
    _ignored: tuple[str, ...] = PrivateAttr(default=())
    _tools: list[Tool] = PrivateAttr(default_factory=list)

    @property
    def ignored(self) -> tuple[str, ...]:
        """What was set and changes nothing."""
        return self._ignored

    @property
    def choice(self) -> ToolChoice:
        """As other APIs have it."""
        given = self.tool_choice
        if given is None:
            return ToolChoice()
        names = (given.name,) if given.type == "tool" and given.name is not None else ()
        mode: Any = MODES[given.type]
        is_once = given.type == "tool" and given.disable_parallel_tool_use is None
        return ToolChoice(mode, names, given.type, is_once)

    @property
    def format(self) -> JsonFormat | None:
        """What the answer keeps to. Older SDKs have it beside the rest of its configuration."""
        config = self.output_config
        return self.output_format or (None if config is None else config.format)

    def settings(self) -> AnswerSettings:
        """In the engine's words, but for the model."""
        given, chosen = self.thinking, self.tool_choice
        template = {} if given is None else {"enable_thinking": given.type != "disabled"}
        one_call = chosen is not None and bool(chosen.disable_parallel_tool_use)
        one_call = one_call or self.choice.is_once
        settings = answer_settings(
            self,
            "",
            secrets.randbits(63),
            max_tokens=self.max_tokens,
            may_shrink=True,
            parallel_calls=not one_call,
            **self.choice.settings(self._tools),
        )
        format, schema = self.format, None
        if format is not None:
            named = JsonSchema(name="answer", schema=format.content)
            schema = ResponseFormat(type="json_schema", json_schema=named).schema_text()
        stops = list(self.stop_sequences or ())
        return replace(
            settings, schema=schema, stop=stops, template={**settings.template, **template}
        )


def parse_parameters(body: Mapping[str, Any], *, counts: bool = False) -> CountedParameters:
    """counts: the request asks for a number of tokens only. Raises ApiError, naming the field."""
    check_absent(body, ABSENT)
    _check_edits(body.get("context_management"))
    _check_kinds(body.get("tools"))
    try:
        checked = CountedParameters.model_validate(body)
    except ValidationError as error:
        raise invalid(error) from None
    _check_effort(body.get("output_config"))
    if not counts and checked.max_tokens is None:
        raise wrong("max_tokens", "a number", "nothing", code="missing_required_parameter")
    for index, tool in enumerate(checked.tools or ()):
        try:
            checked._tools.append(tool.function().tool())
        except ValidationError as error:
            problem = invalid(error)
            name, _, rest = problem.message.partition(":")
            where = f"tools[{index}].{name.replace('parameters', 'input_schema')}"
            message = f"{where}:{rest}"
            raise ApiError(400, message, code="invalid_value", param=where) from None
    choice = checked.tool_choice
    if choice is not None and choice.type == "tool" and choice.name is None:
        raise wrong("tool_choice.name", "the name of a tool", "nothing")
    for name, check in (("tools", few_tools), ("tool_choice", checked.choice.check)):
        try:
            check(checked._tools)
        except ValueError as error:
            message = f"{name}: {error}"
            raise ApiError(400, message, code="invalid_value", param=name) from None
    found = unread(body, CountedParameters, harmless=HARMLESS)
    checked._ignored = tuple(islice((path for path, asks in found if asks), MOST))
    return checked


def _check_edits(given: object) -> None:
    """Of the edits of a context only that is there which changes nothing, as Claude Code asks for
    it: all thinking is kept."""
    if given is None:
        return
    path = "context_management"
    if not isinstance(given, dict):
        raise wrong_type(path, "an object with edits", given)
    edits = given.get("edits")
    for index, edit in enumerate(edits if isinstance(edits, list) else []):
        where = f"{path}.edits[{index}]"
        kind = edit.get("type") if isinstance(edit, dict) else None
        if kind != KEPT_THINKING:
            raise unsupported(where, "nothing is cleared or compacted here", edit)
        if edit.get("keep") not in ("all", {"type": "all"}):
            expected = '"all", what a client gives back is kept'
            raise wrong(f"{where}.keep", expected, shown(edit.get("keep")), UNSUPPORTED)
    if edits is not None and not isinstance(edits, list):
        raise wrong_type(f"{path}.edits", "a list of edits", edits)


def _check_effort(config: object) -> None:
    """It changes nothing, and is named as that; a misspelt one is told, as at Anthropic."""
    effort = config.get("effort") if isinstance(config, dict) else None
    if effort is not None and effort not in EFFORTS:
        expected = f"one of {', '.join(EFFORTS)}"
        raise wrong("output_config.effort", expected, shown(effort))


def _check_kinds(tools: object) -> None:
    """A tool that runs at Anthropic's is refused by its own name."""
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and kind != "custom":
            path = f"tools[{index}].type"
            message = f'{path}: expected "custom", nothing else runs here; got {shown(kind)}'
            raise ApiError(400, message, code="unsupported_parameter", param=path)
