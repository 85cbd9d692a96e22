"""Tools of the Responses API: functions, alone or in namespaces, and what else clients tell of.

A model knows a function of a namespace by a name that has both in it; the client gets it back in
its own words. What is no function is left out where it stands beside functions: agents tell of
tools that run at OpenAI's whoever they ask, and name those of MCP servers by namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lookhear.gateway.chat.refusals import text_of, wrong_type
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.checks.tools import MAX_NAME, FunctionWire
from lookhear.gateway.http.errors import ApiError

Json = dict[str, Any]


class ResponseTool(FunctionWire):
    """A function, by the name that the model knows."""

    type: Literal["function"]

    def as_given(self, name: str) -> Json:
        """As a response shows it. name: the client's."""
        return {
            "type": "function",
            "name": name,
            "description": self.description,
            "parameters": self.parameters,
            "strict": self.strict,
        }


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a function stands in the request, and what its client calls it. group: what a response
    shows of its namespace."""

    path: str
    name: str
    group: Json | None = None


@dataclass(slots=True)
class Told:
    """What a client tells of. functions: as they are checked, each with its origin; None: what was
    given is no list. left_out: paths of what cannot be called here."""

    functions: list[Any] | None = None
    origins: list[Origin] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def shown(self, tools: Sequence[ResponseTool]) -> list[Json]:
        """As a response shows them, after they were checked."""
        told: list[Json] = []
        last: Json | None = None
        for tool, origin in zip(tools, self.origins, strict=True):
            function = tool.as_given(origin.name)
            if origin.group is None:
                told.append(function)
            elif origin.group is last:
                told[-1]["tools"].append(function)
            else:
                told.append({**origin.group, "tools": [function]})
            last = origin.group
        return told

    def called(self, tools: Sequence[ResponseTool]) -> dict[str, Json]:
        """Of functions in namespaces: by the model's name for one, what a call of it says."""
        return {
            tool.name: {"name": origin.name, "namespace": origin.group["name"]}
            for tool, origin in zip(tools, self.origins, strict=True)
            if origin.group is not None
        }

    def own(self, error: ApiError) -> ApiError:
        """With the client's own place of the function that is to blame."""
        at = re.match(r"tools\[(\d+)\]", error.param or "")
        if at is None or error.param is None:
            return error
        path = self.origins[int(at[1])].path
        param, message = (path + t.removeprefix(at[0]) for t in (error.param, error.message))
        return ApiError(error.status, message, code=error.code, param=param)


def joined(namespace: str | None, name: str) -> str:
    """What the model knows a function by."""
    if namespace is None:
        return name
    return f"{namespace}{'' if namespace.endswith('__') else '__'}{name}"


def told_of(tools: object) -> Told:
    """Raises ApiError, for namespaces that are none, and where there is not one function."""
    if not isinstance(tools, list):
        return Told()
    told, kinds = Told([]), list[tuple[str, str]]()
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind == "namespace":
            _namespace(tool, path, told)
        elif isinstance(kind, str) and kind != "function":
            kinds.append((path, kind))
            told.left_out.append(path)
        else:
            name = tool.get("name") if isinstance(tool, dict) else None
            _add(told, tool, Origin(path, str(name)))
    if kinds and not told.functions:
        path, kind = kinds[0]
        message = f'{path}.type: expected "function", nothing else runs here; got {shown(kind)}'
        raise ApiError(400, message, code="unsupported_parameter", param=f"{path}.type")
    return told


def _namespace(tool: Json, path: str, told: Told) -> None:
    name, inner = text_of(tool, "name", path), tool.get("tools")
    if not isinstance(inner, list):
        raise wrong_type(f"{path}.tools", "a list of functions", inner)
    is_told = tool.get("description") is not None
    description = text_of(tool, "description", path) if is_told else ""
    group = {"type": "namespace", "name": name, "description": description}
    for index, function in enumerate(inner):
        where = f"{path}.tools[{index}]"
        own = function.get("name") if isinstance(function, dict) else None
        full = joined(name, own) if isinstance(own, str) else ""
        if len(full) > MAX_NAME or (full and function.get("type") != "function"):
            told.left_out.append(where)
        else:
            given = {**function, "name": full} if full else function
            _add(told, given, Origin(where, str(own), group))


def _add(told: Told, function: object, origin: Origin) -> None:
    assert told.functions is not None
    told.functions.append(function)
    told.origins.append(origin)
