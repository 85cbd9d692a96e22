"""What the schemas of a request's tools take together is bounded, and the same whenever asked."""

from __future__ import annotations

import json
from math import gcd

import pytest

from lookhear.engine.core.request import RequestError
from lookhear.engine.sampling.call_rules import ToolRule
from lookhear.engine.sampling.schema_limits import MAX_MULTIPLE
from lookhear.engine.sampling.tool_schemas import (
    ANY_OBJECT,
    LIGHT_CHARACTERS,
    LIGHT_EXPRESSIONS,
    MAX_HEAVY,
    ToolSchemas,
)

MOST = 200_000


class Checks:
    """In place of the library: a schema says itself how many expressions it becomes."""

    def __init__(self) -> None:
        self.limits: list[int] = []  # of each check
        self.schemas = ToolSchemas(self.check, MOST)

    def check(self, schema: str, most: int) -> None:
        self.limits.append(most)
        if json.loads(schema).get("title", 0) > most:
            raise RequestError("invalid_value", f"schema: expected up to {most}")

    def kept(self, *schemas: object, strict: int = -1, answer: object = None) -> list[object]:
        """What tools with these keep to. strict: which of them is."""
        tools = [
            ToolRule(f"t{i}", i, "", json.dumps(schema), "", i == strict)
            for i, schema in enumerate(schemas)
        ]
        text = None if answer is None else json.dumps(answer)
        return [json.loads(kept) for kept in self.schemas.kept(tools, text)]


def multiple(number: float, **more: object) -> dict[str, object]:
    return {"properties": {"a": {"multipleOf": number}}, **more}


ANY = json.loads(ANY_OBJECT)


def test_numbers_of_all_tools_have_one_common_multiple() -> None:
    assert gcd(97, 103) == 1 and 97 * 103 < MAX_MULTIPLE < 97 * 103 * 2
    schemas = [multiple(97), multiple(103), multiple(2), multiple(97, title=1)]
    assert Checks().kept(*schemas) == [schemas[0], schemas[1], ANY, schemas[3]]
    assert Checks().kept(*schemas, answer=multiple(50)) == [schemas[0], ANY, schemas[2], schemas[3]]
    assert Checks().kept(multiple(0.01), multiple(0.05)) == [multiple(0.01), multiple(0.05)]
    with pytest.raises(RequestError) as refused:
        Checks().kept(*schemas, strict=2)
    assert str(refused.value).startswith("tools[2].function.parameters: expected values of multip")


@pytest.mark.parametrize(
    "heavy",
    [multiple(9973), {"title": LIGHT_EXPRESSIONS + 1}, {"description": "a" * LIGHT_CHARACTERS}],
    ids=["a large multiple", "many expressions", "a long text"],
)
def test_only_few_heavy_tools_are_looked_at(heavy: dict[str, object]) -> None:
    schemas = [{**heavy, "$comment": i} for i in range(2 * MAX_HEAVY)]
    light = {"title": LIGHT_EXPRESSIONS}
    checks, expected = Checks(), [*schemas[:MAX_HEAVY], *[ANY] * MAX_HEAVY, light]
    assert checks.kept(*schemas, light) == expected
    assert checks.limits.count(MOST) == MAX_HEAVY
    num_checks = len(checks.limits)
    assert checks.kept(*schemas, light) == expected, "whatever was looked at before"
    assert len(checks.limits) == num_checks
    assert checks.kept(*reversed(schemas)) == [*schemas[: MAX_HEAVY - 1 : -1], *[ANY] * MAX_HEAVY]
    with pytest.raises(RequestError, match=f", {MAX_HEAVY} tools of a request at most"):
        checks.kept(*schemas, strict=MAX_HEAVY)


def test_a_schema_that_cannot_be_kept_to_is_any_object_or_refused() -> None:
    wrong = {"title": MOST + 1}
    assert Checks().kept({}, wrong, {}) == [{}, ANY, {}]
    with pytest.raises(RequestError) as refused:
        Checks().kept({}, wrong, strict=1)
    assert str(refused.value) == f"tools[1].function.parameters: expected up to {MOST}"
