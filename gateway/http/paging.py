"""Pages of a list, as OpenAI's and Anthropic's APIs ask for them: so many, and where they begin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from starlette.datastructures import QueryParams

from lookhear.gateway.checks.checks import shown
from lookhear.gateway.http.errors import wrong


def limit_of(query: QueryParams, usual: int, most: int) -> int:
    """How many a page holds. usual: if nobody says. Raises ApiError."""
    given = query.get("limit")
    if given is None:
        return usual
    if not (re.fullmatch("[0-9]{1,9}", given) and 1 <= int(given) <= most):
        raise wrong("limit", f"1 to {most}", shown(given))
    return int(given)


def place_of(
    query: QueryParams, name: str, listed: Sequence[dict[str, Any]], what: str
) -> int | None:
    """Where that stands whose id is given. name: of the parameter. what: in words, such an id.
    None: none is given. Raises ApiError."""
    given = query.get(name)
    if not given:
        return None
    place = next((n for n, each in enumerate(listed) if each["id"] == given), None)
    if place is None:
        raise wrong(name, what, shown(given))
    return place
