"""`lookhear models` where the server part is not installed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lookhear.commands import main as cli
from lookhear.commands import models
from lookhear.transport.address import Server


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "server_installed", lambda: False)


def answering(monkeypatch: pytest.MonkeyPatch, data: list[dict[str, Any]]) -> None:
    body = json.dumps({"data": data}).encode()
    monkeypatch.setattr(Server, "exchange", lambda *_args, **_options: (200, body))


@pytest.mark.usefixtures("light")
def test_the_default_server_is_listed_and_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, [{"id": "a", "parameters": 1_500_000}, {"id": "b"}])
    assert cli.main(["models"]) == 0
    title, _, first, second, missing = map(str.rstrip, capsys.readouterr().out.splitlines())
    assert title == "served by http://127.0.0.1:8000"
    assert first.split() == ["a", "?", "1.5", "M", "parameters", "served,", "the", "default"]
    assert second.split() == ["b", "?", "?", "served"]
    assert missing == 'listing local models needs pip install "lookhear[server]"'


@pytest.mark.usefixtures("light")
def test_no_server_and_no_server_part_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "is_running", lambda _server: False)
    assert cli.main(["models"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1
    assert "name one with --server URL" in output.err
    assert 'pip install "lookhear[server]"' in output.err


def test_a_named_server_is_asked_wherever_the_server_part_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, [{"id": "a", "architecture": "WhisperForConditionalGeneration"}])
    assert cli.main(["models", "--server", "http://a.example"]) == 0
    title, _, row = map(str.rstrip, capsys.readouterr().out.splitlines())
    assert title == "served by http://a.example" and row.split() == ["a", "Whisper", "?", "served"]
    answering(monkeypatch, [{"name": "no id"}])
    assert cli.main(["models", "--server", "http://a.example"]) == 2
    assert "expected a list of models" in capsys.readouterr().err
