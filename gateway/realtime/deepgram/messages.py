"""Text messages of Deepgram's live wire."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError, check_json, shown
from lookhear.gateway.deepgram.options import REFUSED, checked_keyterms
from lookhear.gateway.realtime.protocol.commands import Configure
from lookhear.gateway.realtime.settings import SessionSettings

TYPES = ("KeepAlive", "Finalize", "CloseStream", "Configure")
# Codes of problems: a message that is none, a Configure that cannot be carried out.
SCHEMA_ERROR = "SchemaError"
KEYTERM_LIMIT = "CONFIGURE_KEYTERM_LIMIT_EXCEEDED"
CANNOT_CONFIGURE = "CONFIGURE_INTERNAL_ERROR"
DEPTH = 8  # levels of nesting


def read(text: str, types: Sequence[str] = TYPES) -> dict[str, Any]:
    """The message, whose type is one of these. Raises ProtocolError."""
    try:
        message = json.loads(text)
        check_json(message, DEPTH)
    except (ValueError, RecursionError):
        raise _problem("message", "a JSON object", text) from None
    if not isinstance(message, dict):
        raise _problem("message", "a JSON object", message)
    if message.get("type") not in types:
        raise _problem("type", f"one of {', '.join(types)}", message.get("type"))
    if message.get("channel") not in (None, 0, [0]):
        raise _problem("channel", "0, the only one", message["channel"])
    return message


def configure(message: dict[str, Any]) -> Configure:
    """New keyterms, for what is said from now on. Raises ProtocolError."""
    terms, features = message.get("keyterms"), message.get("features") or {}
    if terms is not None and not _is_list_of_strings(terms):
        raise _problem("keyterms", "an array of strings", terms)
    if not isinstance(features, dict):
        raise _problem("features", "an object", features)

    def change(settings: SessionSettings, _: Sequence[ModelCard]) -> SessionSettings:
        for name, is_wanted in features.items():
            if is_wanted and name in REFUSED:
                what = f"features.{name}: expected {REFUSED[name]}; got {shown(is_wanted)}"
                raise ProtocolError(what, code=CANNOT_CONFIGURE)
        if terms is None:
            return settings
        return replace(settings, keywords=checked_keyterms(terms, "keyterms", KEYTERM_LIMIT))

    return Configure(change, name="Configure")


def _is_list_of_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _problem(param: str, expected: str, got: object) -> ProtocolError:
    return ProtocolError(f"{param}: expected {expected}; got {shown(got)}", code=SCHEMA_ERROR)
