"""What a client has set and nobody here reads: named in the answer, so that nothing is lost in
silence."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

MOST = 32  # names of one request; a client that sends more is no client
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def unread(
    given: Mapping[str, Any],
    *models: type[BaseModel],
    harmless: Collection[str] = (),
    path: str = "",
) -> Iterator[tuple[str, bool]]:
    """(path, whether it asks for something) of the fields that none of the models has. harmless:
    paths that change nothing. Values that ask for nothing are null, and empty ones."""
    for name, value in given.items():
        where = f"{path}{name}"
        if where in harmless or NAME.fullmatch(name) is None:
            continue
        readers = [field for model in models for field in _read_as(name, model)]
        if not readers:
            yield where, value not in (None, [], {}, "")
        elif isinstance(value, Mapping):
            nested = [inner for field in readers for inner in _models(field.annotation)]
            if nested:
                yield from unread(value, *nested, harmless=harmless, path=f"{where}.")


def _read_as(name: str, model: type[BaseModel]) -> list[FieldInfo]:
    """Fields that have this name on the wire."""
    fields = model.model_fields
    return [field for own, field in fields.items() if (field.alias or own) == name]


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Those that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
