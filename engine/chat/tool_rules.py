"""The tools of an answer as rules of its grammar. Pure."""

from __future__ import annotations

import json

from lookhear.engine.core.request import RequestError
from lookhear.engine.markup.call_family import CallFamily
from lookhear.engine.messages import AnswerSettings, Tool
from lookhear.engine.sampling.call_rules import CallRules, ToolRule


def call_rules(settings: AnswerSettings, family: CallFamily) -> CallRules:
    """Of the tools that may be called. Raises `RequestError` for a name that no tool has."""
    known = {tool.name for tool in settings.tools}
    for name in settings.may_call:
        if name not in known:
            raise RequestError("invalid_value", f"tool_choice: expected a tool, got {name!r}")
    may_call = set(settings.may_call) or known
    return CallRules(
        begin=family.begin,
        between=family.between,
        tools=tuple(
            _rule(index, tool, family)
            for index, tool in enumerate(settings.tools)
            if tool.name in may_call
        ),
        is_forced=settings.must_call,
        is_single=not settings.parallel_calls,
    )


def _rule(index: int, tool: Tool, family: CallFamily) -> ToolRule:
    schema = json.loads(tool.parameters)
    schema.setdefault("type", "object")
    if "properties" in schema:
        # A tool takes what it names, unless it says otherwise.
        schema.setdefault("additionalProperties", False)
    text = json.dumps(schema, separators=(",", ":"))
    return ToolRule(tool.name, index, family.before(tool.name), text, family.tail, tool.is_strict)
