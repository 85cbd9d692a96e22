"""What a command writes for programs."""

from __future__ import annotations

import io
import json
import sys

import pytest

from lookhear.live.events import TextDelta
from lookhear.terminal.output import print_event


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_events_are_json_in_any_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it has not all characters, and others are put in their place."""
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written, encoding, errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", stdout)
    text = "né 你 😀"
    print_event(TextDelta("item", text))
    assert json.loads(written.getvalue().decode("utf-8"))["text"] == text
    assert (text.encode() in written.getvalue()) == (encoding == "utf-8")
