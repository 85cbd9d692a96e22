"""Calls of tools as rules of a grammar: text is free up to where a call begins. Pure.

Source: the syntax of llguidance (docs/syntax.md, tool calling).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolRule:
    """What a call of one tool is: `before`, arguments that keep to `schema` (JSON text), `after`.
    index: of the tool among all, for errors. is_strict: better no answer than arguments that are
    just some object."""

    name: str
    index: int
    before: str
    schema: str
    after: str
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class CallRules:
    """begin: what every call begins with. between: two calls. is_forced: the answer is calls and
    nothing else. is_single: one call at most."""

    begin: str
    between: str
    tools: tuple[ToolRule, ...]
    is_forced: bool = False
    is_single: bool = False

    def lark(self, added: Mapping[str, int], *, has_schema: bool) -> str:
        """The rules below `body`, for a checkpoint with these added tokens. Arguments of tool i are
        `@arguments_i`; has_schema: what is said keeps to `@answer`, instead of being free."""
        begin = _spelled(self.begin, added)
        is_token = self.begin in added
        calls = "" if self.is_single else f"({_spelled(self.between, added)} {begin} call)*"
        lines = []
        if self.is_forced:
            lines.append(f"body: {begin} call {calls}")
        elif has_schema:
            lines.append(f"body: @answer | {begin} call {calls}")
        elif is_token:
            lines += [f"body: TEXT ({begin} call {calls})?", "TEXT: /(?s:.*)/"]
        else:  # the shortest text that ends with what a call begins with
            mark = re.escape(self.begin).replace("/", r"\/")
            lines += [
                f"body: TEXT | start_of_call call {calls}",
                f"start_of_call[lazy]: /(?s:.*)/ {begin}",
                f"TEXT: /(?s:.*)/ & ~/(?s:.*){mark}(?s:.*)/",
            ]
        lines.append(f"call: {' | '.join(f'call_{i}' for i in range(len(self.tools)))}")
        for i, tool in enumerate(self.tools):
            before, after = _spelled(tool.before, added), _spelled(tool.after, added)
            lines.append(f"call_{i}: {before} @arguments_{i} {after}")
        return "\n".join(lines) + "\n"


def _spelled(text: str, added: Mapping[str, int]) -> str:
    """A text in the grammar's words. What is one token of the checkpoint's is spelt as it, which
    is how models have learnt it."""
    longest_first = sorted(added, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first)) or "(?!)"
    pieces = re.split(f"({pattern})", text)
    return " ".join(
        f"<[{added[piece]}]>" if i % 2 else json.dumps(piece)
        for i, piece in enumerate(pieces)
        if piece
    )
