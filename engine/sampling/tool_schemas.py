"""Which schemas the arguments of tools keep to, so that those of one request are no work without
end. Pure, but for whoever checks a schema.

Each tool is checked by itself, and then all become one grammar. What one schema may take is a
third of a second: so of those that need more than a little, few are looked at.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lookhear.engine.core.request import RequestError
from lookhear.engine.sampling.call_rules import ToolRule
from lookhear.engine.sampling.schema_limits import MAX_MULTIPLE, common_multiple

ANY_OBJECT = '{"type":"object"}'
KEPT_CHECKS = 512  # schemas that were looked at
# Of one schema, most of which take less by far: 5 to 15 ms. Beyond any of them it is heavy.
LIGHT_CHARACTERS, LIGHT_EXPRESSIONS, LIGHT_MULTIPLE = 32_768, 12_000, 1_000
MAX_HEAVY = 4  # tools of a request


@dataclass(slots=True)
class _Schema:
    """multiple: see `common_multiple`. wrong: for numbers of expressions that it may become, why it
    cannot be kept to; None: it can."""

    multiple: int
    wrong: dict[int, str | None] = field(default_factory=dict)


class ToolSchemas:
    """check: raises `RequestError` if a schema cannot be kept to, or becomes more expressions.
    max_expressions: of one schema at most."""

    def __init__(self, check: Callable[[str, int], None], max_expressions: int) -> None:
        self._check = check
        self._max_expressions = max_expressions
        self._seen: OrderedDict[str, _Schema] = OrderedDict()

    def kept(self, tools: Sequence[ToolRule], answer: str | None) -> list[str]:
        """Of each tool, its own or that of any object. answer: the schema of what is said, which is
        part of the same grammar. `RequestError` if that of a strict tool cannot be kept to, or is
        too much beside those in front of it."""
        multiple = 1 if answer is None else common_multiple(json.loads(answer))
        num_heavy, kept = 0, list[str]()
        for tool in tools:
            schema = self._schema(tool.schema)
            wrong: str | None = "expected less work"
            if schema.multiple <= LIGHT_MULTIPLE and len(tool.schema) <= LIGHT_CHARACTERS:
                wrong = self._wrong(tool.schema, LIGHT_EXPRESSIONS)
            if wrong is not None:
                num_heavy += 1
                if num_heavy <= MAX_HEAVY:
                    wrong = self._wrong(tool.schema, self._max_expressions)
                else:
                    wrong = f"{wrong} (of so much, {MAX_HEAVY} tools of a request at most)"
            together = math.lcm(multiple, schema.multiple)
            if wrong is None and together > MAX_MULTIPLE:
                expected = f"a common multiple up to {MAX_MULTIPLE} with those of other tools"
                wrong = f"expected values of multipleOf with {expected}"
            if wrong is None:
                multiple = together
            elif tool.is_strict:
                place = f"tools[{tool.index}].function.parameters"
                raise RequestError("invalid_value", f"{place}: {wrong}")
            kept.append(tool.schema if wrong is None else ANY_OBJECT)
        return kept

    def _schema(self, text: str) -> _Schema:
        if text not in self._seen:
            self._seen[text] = _Schema(common_multiple(json.loads(text)))
            if len(self._seen) > KEPT_CHECKS:
                self._seen.popitem(last=False)
        return self._seen[text]

    def _wrong(self, text: str, expressions: int) -> str | None:
        known = self._schema(text).wrong
        if expressions not in known:
            try:
                self._check(text, expressions)
                known[expressions] = None
            except RequestError as error:
                known[expressions] = str(error).removeprefix("schema: ")
        return known[expressions]
