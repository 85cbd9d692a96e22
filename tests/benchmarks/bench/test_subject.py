"""The server that is measured: what it serves, and options that go with no other."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest
from rich.console import Console

from lookhear.bench.recordings.human import HUMAN
from lookhear.bench.subject import private_server
from lookhear.commands.private_server import ServerProcess
from lookhear.errors import UsageError
from lookhear.gateway.commands.settings import read_settings


@pytest.mark.parametrize(
    ("serve", "model", "data", "models"),
    [
        ("", None, Path("toy"), ["demo-whisper"]),
        ("--threads 1", None, Path("toy"), ["demo-whisper"]),
        ("demo-qwen3-asr --threads=1", None, Path("toy"), ["demo-qwen3-asr"]),
        ("--threads 1 demo-qwen3-asr", None, Path("toy"), ["demo-qwen3-asr"]),
        ("--model=demo-qwen3-asr", None, Path("toy"), ["demo-qwen3-asr"]),
        ("", "demo-qwen3-asr", Path("toy"), ["demo-qwen3-asr"]),
        ("", None, HUMAN, ["openai/whisper-tiny"]),
    ],
)
def test_a_server_of_ours_serves_the_toy_unless_a_model_is_named(
    serve: str,
    model: str | None,
    data: Path,
    models: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOOKHEAR_MODEL", "openai/whisper-tiny")
    monkeypatch.setattr(ServerProcess, "start", lambda self: None)
    options = argparse.Namespace(serve=serve, model=model, data=data)
    with private_server(options, Console(file=io.StringIO())) as server:
        _, arguments = " ".join(server.command).split(" serve ")
        assert server._environment is not None
        settings = read_settings(arguments.split(), server._environment)
    assert settings.options.models == models


@pytest.mark.parametrize(
    ("content", "models"),
    [("model: demo-qwen3-asr", ["demo-qwen3-asr"]), ("max-lag: 1", ["demo-whisper"])],
)
def test_a_model_may_be_named_in_a_file(
    content: str, models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOKHEAR_MODEL", raising=False)
    monkeypatch.setattr(ServerProcess, "start", lambda self: None)
    file = tmp_path / "serve.yaml"
    file.write_text(content)
    options = argparse.Namespace(serve=f"--config {file}", model=None, data=Path("toy"))
    with private_server(options, Console(file=io.StringIO())) as server:
        assert server._environment is not None
        settings = read_settings(["--config", str(file)], server._environment)
    assert settings.options.models == models
    file.write_text("modl: demo-qwen3-asr")
    with (
        pytest.raises(UsageError, match=r"--serve: .*serve\.yaml:1: modl: expected an option"),
        private_server(options, Console(file=io.StringIO())),
    ):
        raise AssertionError("started")
