"""Fields of a multipart form, by their kind."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import islice

from starlette.datastructures import FormData

from lookhear.gateway.checks.checks import shown
from lookhear.gateway.checks.unread import MOST, unread
from lookhear.gateway.http.errors import wrong


def text(form: FormData, name: str) -> str | None:
    """Read what was typed; None if the field is not there. Raises ApiError."""
    value = form.get(name)
    if value is not None and not isinstance(value, str):
        raise wrong(name, "text", "a file")
    return value


def boolean(form: FormData, name: str, *, absent: bool = False) -> bool:
    """Read yes or no; `absent` if the field is not there. Raises ApiError."""
    given = (text(form, name) or str(absent)).lower()
    if given not in ("true", "false", "1", "0"):
        raise wrong(name, "true or false", shown(given))
    return given in ("true", "1")


def texts(form: FormData, name: str) -> list[str]:
    """Read a list: `name[]`, as the openai package sends it, `name[0]`, `name[1]`, or `name` again
    and again. Raises ApiError."""
    values: list[str] = []
    own = re.compile(re.escape(name) + r"(?:\[[0-9]*\])?")
    for key, value in form.multi_items():
        if not own.fullmatch(key):
            continue
        if not isinstance(value, str):
            raise wrong(f"{name}[]", "text", "a file")
        values.append(value)
    return values


def ignored(form: FormData, read: Collection[str]) -> tuple[str, ...]:
    """Names of the fields that hold something and that nobody reads, without their brackets."""
    names = dict.fromkeys(key.partition("[")[0] for key, value in form.multi_items() if value)
    given = {name: True for name in names if name not in read}
    return tuple(path for path, _ in islice(unread(given), MOST))
