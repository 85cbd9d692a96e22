"""How many patterns of a JSON Schema one string has to match. Pure.

All that holds for one value is joined: what stands beside a $ref and where it leads, in `allOf`,
and in one branch of an `anyOf`. A string that has to match n patterns is an automaton of up to 2^n
states to who compiles the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

MAX_PATTERNS = 8  # more take seconds, and 24 a minute
MAX_WORK = 30_000  # schemas that are looked at: a quarter of a second

_Schema = dict[str, Any]


class _Value(NamedTuple):
    """What holds for one value. schemas: by their ids. chosen: ids of those whose `anyOf` is among
    them with a branch."""

    schemas: frozenset[int]
    chosen: frozenset[int] = frozenset()


def patterns_at_once(schema: _Schema) -> int:
    """The most values of pattern and format that one string has to match, or somewhat more: where
    several schemas with an `anyOf` hold for a value, all their branches are counted, and where
    references are not to places in the schema, all there is. So it is where there is too much to
    look at."""
    places = [*_dictionaries(schema)]
    total = sum(map(_num_patterns, places))
    targets = _targets(schema, places)
    if total <= MAX_PATTERNS or targets is None:
        return total
    known = {id(each): each for each in places}
    most, work = 0, 0
    first = _Value(frozenset([id(schema)]))
    seen, waiting = {first}, [first]
    while waiting:
        value = waiting.pop()
        joined = _joined([known[key] for key in value.schemas], targets)
        most = max(most, sum(map(_num_patterns, joined)))
        for following in _following(joined, value.chosen):
            work += len(joined)
            if work > MAX_WORK:
                return total
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return most


def _dictionaries(schema: _Schema) -> Iterator[_Schema]:
    """Wherever they are in it: a reference may lead anywhere."""
    waiting: list[Any] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _num_patterns(schema: _Schema) -> int:
    return sum(isinstance(schema.get(key), str) for key in ("pattern", "format"))


def _targets(schema: _Schema, places: list[_Schema]) -> dict[str, _Schema] | None:
    """What references lead to. None: not all are to plain places in the same schema."""
    found: dict[str, _Schema] = {}
    for each in places:
        if each is not schema and isinstance(each.get("$id"), str):
            return None
        if "$dynamicRef" in each or "$recursiveRef" in each:
            return None
        reference = each.get("$ref")
        if isinstance(reference, str) and reference not in found:
            target = _target(schema, reference)
            if target is None:
                return None
            found[reference] = target
    return found


def _target(schema: _Schema, reference: str) -> _Schema | None:
    if reference != "#" and not reference.startswith("#/"):
        return None
    place: Any = schema
    for step in unquote(reference).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        elif isinstance(place, dict) and name in place:
            place = place[name]
        else:
            return None
    return place if isinstance(place, dict) else None


def _joined(schemas: list[_Schema], targets: dict[str, _Schema]) -> list[_Schema]:
    """Them, and all that holds with them."""
    found: dict[int, _Schema] = {}
    while schemas:
        each = schemas.pop()
        if id(each) in found:
            continue
        found[id(each)] = each
        reference = each.get("$ref")
        if isinstance(reference, str):
            schemas.append(targets[reference])
        schemas += _listed(each, "allOf")
    return list(found.values())


def _following(joined: list[_Schema], chosen: frozenset[int]) -> Iterator[_Value]:
    """The values in a value; or the same one with a branch of its `anyOf`."""
    open_ones = [each for each in joined if id(each) not in chosen and _branches(each)]
    if open_ones:
        keys = frozenset(map(id, joined))
        chosen |= frozenset(map(id, open_ones))
        branches = [id(branch) for each in open_ones for branch in _branches(each)]
        for choice in [branches] if len(open_ones) > 1 else [[each] for each in branches]:
            yield _Value(keys | frozenset(choice), chosen)
        return
    yield from _members(joined)
    rests = [each.get("items") for each in joined]
    lists = [_listed(each, "prefixItems") or _listed(each, "items") for each in joined]
    for i in range(max(map(len, lists), default=0) + 1):
        pairs = zip(lists, rests, strict=True)
        yield _value(first[i] if i < len(first) else rest for first, rest in pairs)


def _members(joined: list[_Schema]) -> Iterator[_Value]:
    """Of an object, by their names or the patterns of these, of which no two match one name."""
    properties = [_named(each, "properties") for each in joined]
    patterns = [_named(each, "patternProperties") for each in joined]
    rests = [each.get("additionalProperties") for each in joined]
    yield _value(rests)
    different = dict.fromkeys(key for each in patterns for key in each)
    for pattern in different:
        pairs = zip(patterns, rests, strict=True)
        yield _value(each.get(pattern, rest) for each, rest in pairs)
    for name in dict.fromkeys(key for each in properties for key in each):
        own = [each.get(name, rest) for each, rest in zip(properties, rests, strict=True)]
        yield _value(own)
        for pattern in different:
            yield _value([*own, *(each.get(pattern) for each in patterns)])


def _value(schemas: Iterable[Any]) -> _Value:
    return _Value(frozenset(id(each) for each in schemas if isinstance(each, dict)))


def _branches(schema: _Schema) -> list[_Schema]:
    return [*_listed(schema, "anyOf"), *_listed(schema, "oneOf")]


def _listed(schema: _Schema, key: str) -> list[_Schema]:
    found = schema.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _named(schema: _Schema, key: str) -> _Schema:
    found = schema.get(key)
    return found if isinstance(found, dict) else {}
