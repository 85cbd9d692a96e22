"""What a JSON Schema may ask for, and how it is put to a library that counts in doubles. Pure.

check_limits      refuses what would take minutes, crash, or be kept to by the wrong answers
common_multiple   what its numbers may take, which is bounded for all of a grammar
put_bounds        the same schema, with bounds that the library gets right
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from lookhear.engine.sampling.joined_patterns import MAX_PATTERNS, patterns_at_once

# Numbers of this kind become an automaton with a state for every remainder: a second at a million.
MAX_MULTIPLE = 10_000
LARGEST = 2**53 - 1  # of the whole numbers that a double tells from their neighbours
LARGEST_FRACTION = 10**18  # as a bound of what may be fractions; near 2^63 the library crashes
NEAR_ZERO = 1e-15  # what is no more than this is as good as nothing to a bound
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_VALUES = frozenset(("const", "enum", "default", "examples"))  # keywords that hold no schemas
_NAMES = frozenset(("properties", "patternProperties", "$defs", "definitions"))


def check_limits(schema: dict[str, Any]) -> None:
    """Raises ValueError with what is expected instead of it."""
    if common_multiple(schema) > MAX_MULTIPLE:
        raise ValueError(f"values of multipleOf with a common multiple up to {MAX_MULTIPLE}")
    if any(abs(number) > LARGEST for number in _whole_numbers(schema)):
        raise ValueError(f"whole numbers of const and enum up to {LARGEST}, both ways")
    if any(_leaves_none(each) for each in _schemas(schema)):
        raise ValueError(
            f"bounds that leave numbers up to {LARGEST}, both ways, or {LARGEST_FRACTION} if those "
            "may be fractions"
        )
    if patterns_at_once(schema) > MAX_PATTERNS:
        raise ValueError(f"at most {MAX_PATTERNS} values of pattern and format for one string")


def common_multiple(schema: dict[str, Any]) -> int:
    """Of all values of multipleOf in it."""
    return math.lcm(*_multiples(schema))


def _multiples(schema: Any) -> Iterator[int]:
    """All values of multipleOf in it (and what looks like them in an enumeration), counted in
    their smallest decimal place."""
    entries = schema if isinstance(schema, list) else []
    if isinstance(schema, dict):
        entries = list(schema.values())
        number = schema.get("multipleOf")
        if not isinstance(number, int | float) or isinstance(number, bool):
            pass  # the library says what it thinks of it
        elif abs(number) < math.inf:  # which a whole number of any size is
            value = Fraction(str(number))
            yield abs(value.numerator * value.denominator) or 1
    for entry in entries:
        yield from _multiples(entry)


def _whole_numbers(schema: Any) -> Iterator[int]:
    """Those of const and enum, and what looks like them: a reference may lead anywhere."""
    waiting: list[tuple[Any, bool]] = [(schema, False)]
    while waiting:
        value, is_constant = waiting.pop()
        if isinstance(value, dict):
            waiting += [(v, is_constant or key in ("const", "enum")) for key, v in value.items()]
        elif isinstance(value, list):
            waiting += [(each, is_constant) for each in value]
        elif is_constant and isinstance(value, int):
            yield value


def _schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """It and all schemas in it, also below keywords that nobody knows."""
    waiting: list[tuple[Any, bool]] = [(schema, False)]
    while waiting:
        value, are_named = waiting.pop()
        if isinstance(value, list):
            waiting += [(each, False) for each in value]
        elif isinstance(value, dict) and are_named:
            waiting += [(each, False) for each in value.values()]
        elif isinstance(value, dict):
            yield value
            waiting += [(v, key in _NAMES) for key, v in value.items() if key not in _VALUES]


# --- bounds --------------------------------------------------------------------------------------


def put_bounds(schema: dict[str, Any]) -> None:
    """Changes it in place, never so that more answers keep to it. Bounds are counted in doubles
    there, those of whole numbers in 64 bits: beyond `_limit` they become that. A whole bound that
    is excluded is let through where the other bound is less than 1 away: it moves a little."""
    places = list(_schemas(schema))
    fractions = {
        math.floor(each[key])
        for each in places
        for key in (*_LOWER, *_UPPER)
        if isinstance(each.get(key), float) and math.isfinite(each[key]) and each[key] % 1
    }
    for each in places:
        for key in (*_LOWER, *_UPPER):
            if _is_number(each.get(key)):
                each[key] = _bound(each, key, fractions)


def _bound(schema: dict[str, Any], key: str, fractions: set[int]) -> int | float:
    """The bound of a schema, as it is to be put. fractions: whole parts of those that have one."""
    value: int | float = schema[key]
    inward = 1 if key in _LOWER else -1
    limit = _limit(schema, value)
    value = max(value, -limit) if inward > 0 else min(value, limit)
    if key.startswith("exclusive") and (isinstance(value, int) or value.is_integer()):
        beyond = int(value) if inward > 0 else int(value) - 1
        if beyond in fractions:
            return math.nextafter(value, inward * math.inf) if value else inward * NEAR_ZERO
    return value


def _leaves_none(schema: dict[str, Any]) -> bool:
    """Whether its bounds leave only numbers beyond the limit."""
    for keys, sign in ((_LOWER, 1), (_UPPER, -1)):
        bounds = [schema[key] for key in keys if _is_number(schema.get(key))]
        if any(bound * sign > _limit(schema, bound) for bound in bounds):
            return True
    return False


def _limit(schema: dict[str, Any], bound: int | float) -> int:
    """The largest that the bound may be: it is a whole number, or one of these, or neither."""
    kinds = schema.get("type")
    may_be_fraction = "number" in kinds if isinstance(kinds, list) else kinds == "number"
    return LARGEST_FRACTION if may_be_fraction and isinstance(bound, float) else LARGEST


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
