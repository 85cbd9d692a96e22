"""Tools that a model may call, and which of them it must, as clients name them anywhere."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator
from pydantic_core import from_json

from lookhear.engine.messages import Tool
from lookhear.gateway.checks.answers import checked_schema
from lookhear.gateway.checks.checks import Text, WireModel, check_json, shown

MAX_TOOLS = 128
MAX_NAME = 64  # characters
MAX_ARGUMENTS_DEPTH = 64
MAX_TOOLS_BYTES = 256 * 1024  # of all their schemas together, as JSON
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
Mode = Literal["auto", "none", "required"]


def _name(name: str) -> str:
    if not re.fullmatch(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME}}}", name):
        raise ValueError(
            f"expected 1 to {MAX_NAME} letters, digits, _, - and dots, got {shown(name)}"
        )
    return name


def _parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """Of an object; what is wrong further down the engine finds."""
    checked_schema(schema)
    if schema.get("type", "object") != "object":
        raise ValueError(f'expected a schema of type "object", got {shown(schema["type"])}')
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not (
        isinstance(properties, dict)
        and all(isinstance(value, dict | bool) for value in properties.values())
    ):
        raise ValueError(f"expected schemas by name for properties, got {shown(properties)}")
    if not (isinstance(required, list) and all(isinstance(name, str) for name in required)):
        raise ValueError(f"expected names for required, got {shown(required)}")
    return schema


class FunctionWire(WireModel):
    """A function of the client's. parameters: JSON Schema of its arguments; none: it takes none."""

    name: Annotated[str, AfterValidator(_name)]
    description: Text | None = None
    parameters: Annotated[dict[str, Any], AfterValidator(_parameters)] | None = None
    strict: bool | None = None

    def on_wire(self) -> dict[str, Any]:
        """As the client gave it."""
        return self.model_dump(include={"name", "description", "parameters"}, exclude_none=True)

    def tool(self) -> Tool:
        """In the engine's words."""
        schema = json.dumps(self.parameters or NO_ARGUMENTS, allow_nan=False, ensure_ascii=False)
        return Tool(self.name, self.description or "", schema, bool(self.strict))


def few_tools(tools: list[Tool]) -> list[Tool]:
    """Refuse too many, or two of one name. ValueError."""
    if len(tools) > MAX_TOOLS:
        raise ValueError(f"expected at most {MAX_TOOLS} tools, got {len(tools)}")
    names = [tool.name for tool in tools]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"expected tools of different names, got {shown(twice)} twice")
    size = sum(len(tool.parameters.encode()) for tool in tools)
    if size > MAX_TOOLS_BYTES:
        raise ValueError(
            f"expected at most {MAX_TOOLS_BYTES} bytes of schemas together, got {size}"
        )
    return tools


def check_arguments(text: str) -> None:
    """Refuse arguments of a call, written by a model, that are no object. ValueError: what came."""
    try:
        value = json.loads(text, parse_constant=_no_number)
        check_json(value, MAX_ARGUMENTS_DEPTH)
    except RecursionError:
        raise ValueError("too deep a nesting") from None
    except ValueError as error:
        raise ValueError(f"{shown(text)} ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(shown(text))


def readable_arguments(text: str) -> str:
    """Those of a call that a client gives back; of what a model did not write to its end, or wrote
    on behind it, what can be read. Else no such conversation could go on. ValueError: what came is
    no object."""
    try:
        check_arguments(text or "{}")
    except ValueError:
        try:
            read = from_json(text, allow_partial=True)
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise
        text = json.dumps(read, ensure_ascii=False)
        check_arguments(text)
    return text or "{}"


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """names: of the only tools that may be called, empty: all. on_wire: as the client gave it.
    is_once: one function is forced, which is one call, as OpenAI has it: clients count on it."""

    mode: Mode = "auto"
    names: tuple[str, ...] = ()
    on_wire: Any = "auto"
    is_once: bool = False

    def check(self, tools: list[Tool]) -> None:
        """Refuse what these tools cannot be asked for. ValueError."""
        known = [tool.name for tool in tools]
        for name in self.names:
            if name not in known:
                among = f"one of the tools ({', '.join(known[:8])})" if known else "no tool"
                raise ValueError(f"expected {among}, got {shown(name)}")
        if self.mode == "required" and not tools:
            raise ValueError(f'expected "auto" or "none" without tools, got {shown(self.on_wire)}')

    def settings(self, tools: list[Tool]) -> dict[str, Any]:
        """Fields of AnswerSettings. With "none" the model does not hear of the tools."""
        if self.mode == "none" or not tools:
            return {}
        must_call = self.mode == "required"
        return {"tools": list(tools), "must_call": must_call, "may_call": list(self.names)}


def tool_choice(value: Any) -> ToolChoice:
    """ "auto", "none", "required", one function, or some. ValueError for anything else."""
    if isinstance(value, dict):
        checked_schema(value)  # no deeper and no larger than one: it is told again as it came
    return _chosen(value)


def _chosen(value: Any) -> ToolChoice:
    match value:
        case None:
            return ToolChoice()
        case "auto" | "none" | "required":
            return ToolChoice(value, (), value)
        case {"type": "function", "function": {"name": str(name)}} | {
            "type": "function",
            "name": str(name),
        }:
            return ToolChoice("required", (name,), value, is_once=True)
        case {"type": "allowed_tools", "allowed_tools": dict(allowed)} | (
            {"type": "allowed_tools"} as allowed
        ):
            mode, given = allowed.get("mode", "auto"), allowed.get("tools")
            if mode in ("auto", "required") and isinstance(given, list) and given:
                names = [name for entry in given for name in _chosen(entry).names]
                if len(names) == len(given):
                    return ToolChoice(mode, tuple(names), value)
    expected = '"auto", "none", "required", or an object that names a function'
    raise ValueError(f"expected {expected}, got {shown(value)}")


CheckedChoice = Annotated[Any, AfterValidator(tool_choice)]
