"""What a JSON Schema may ask for, before a library sees it that counts in doubles. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

# Numbers of this kind become an automaton with a state for every remainder: a second at a million.
MAX_MULTIPLE = 10_000
LARGEST = 2**53 - 1  # of the whole numbers that a double tells from their neighbours


def check_limits(schema: dict[str, Any]) -> None:
    """Raises ValueError with what is expected instead of it."""
    if math.lcm(*_multiples(schema)) > MAX_MULTIPLE:
        raise ValueError(f"values of multipleOf with a common multiple up to {MAX_MULTIPLE}")
    if any(abs(number) > LARGEST for number in _whole_numbers(schema)):
        raise ValueError(f"whole numbers of const and enum up to {LARGEST}, both ways")


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
