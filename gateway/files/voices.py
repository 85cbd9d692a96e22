"""How voices are sought in a file: the fields `vad_filter` and `chunking_strategy` of its form."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from starlette.datastructures import FormData

from lookhear.gateway.checks.checks import shown
from lookhear.gateway.files.form import boolean, text
from lookhear.gateway.http.errors import wrong
from lookhear.media.voice.stretches import FILE_CONFIG
from lookhear.media.voice.vad import VadConfig

NAME = "chunking_strategy"


def number(value: object) -> float:
    """In JSON or as text. Raises ValueError."""
    try:
        return float(str(value))
    except ValueError:
        raise ValueError(shown(value)) from None


def whole(value: object) -> int:
    """The same, which may be written as 300.0. Raises ValueError."""
    found = number(value)
    if not found.is_integer():
        raise ValueError(shown(value))
    return int(found)


KINDS = {"threshold": number, "prefix_padding_ms": whole, "silence_duration_ms": whole}


def read_voices(form: FormData) -> VadConfig | None:
    """How the voice detector is set, None if it is switched off. Raises ApiError.

    `vad_filter` (faster-whisper's name) is true or false. OpenAI's `chunking_strategy` is "auto",
    or an object of type server_vad, as JSON or in fields such as `chunking_strategy[threshold]`.
    """
    strategy = _strategy(form)
    if not boolean(form, "vad_filter", absent=True):
        if strategy is not None:
            raise wrong("vad_filter", f"true with a {NAME}", "false")
        return None
    if strategy is None:
        return FILE_CONFIG
    kind = strategy.pop("type", None)
    if kind != "server_vad":
        raise wrong(f"{NAME}.type", "server_vad", shown(kind))
    for name in strategy:
        if name not in KINDS:
            raise wrong(NAME, f"only {', '.join(KINDS)} beside its type", shown(name))
    try:
        given: dict[str, Any] = {n: KINDS[n](v) for n, v in strategy.items() if v is not None}
        return replace(FILE_CONFIG, **given)
    except ValueError as error:
        raise wrong(NAME, "numbers that a voice detector can take", str(error)) from None


def _strategy(form: FormData) -> dict[str, object] | None:
    """What was given; None for nothing, for "auto" and for null."""
    fields = {
        key[len(NAME) + 1 : -1]: text(form, key)
        for key in form
        if key.startswith(f"{NAME}[") and key.endswith("]")
    }
    given = text(form, NAME) or "auto"
    if fields:
        return dict(fields)
    if given in ("auto", "null"):
        return None
    try:
        strategy = json.loads(given)
    except (ValueError, RecursionError):
        strategy = None
    if not isinstance(strategy, dict):
        raise wrong(NAME, "auto, or an object of type server_vad", shown(given))
    return strategy
