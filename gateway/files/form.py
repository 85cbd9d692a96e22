"""Fields of a multipart form, by their kind."""

from __future__ import annotations

from starlette.datastructures import FormData

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
        raise wrong(name, "true or false", repr(given))
    return given in ("true", "1")
