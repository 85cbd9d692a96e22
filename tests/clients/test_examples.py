"""The programs in examples/, where what they are told is not the usual."""

from __future__ import annotations

import runpy
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import lookhear
from lookhear import Event, SpeechStarted, TextDelta, TurnCompleted

EXAMPLES = Path(__file__).parents[2] / "examples"


class FalseClient:
    """Hears one turn whose start is told and one whose start is not."""

    def __init__(self, url: str) -> None:
        pass

    async def transcribe(self, source: str) -> AsyncIterator[Event]:
        yield SpeechStarted("a", 0.0)
        yield TextDelta("a", "One.")
        yield TextDelta("b", "And")
        yield TurnCompleted("a", "One.", 0.0, 1.0)
        yield TextDelta("b", " two.")
        yield TurnCompleted("b", "And two.", 1.0, 2.0)


def test_live_prints_turns_whose_start_nobody_tells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lookhear, "AsyncClient", FalseClient)
    runpy.run_path(str(EXAMPLES / "live.py"))
    assert capsys.readouterr().out == "One.\nAnd two.\n"
