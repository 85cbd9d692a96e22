"""Whatever is wrong with the turn model, the server starts, and its log says why."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lookhear.engine.config import ConfigError
from lookhear.gateway.commands.arguments import gateway_config, serve_parser
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.turn_model import AUTO, MODEL, downloaded, turn_model
from lookhear.media.voice.smart_turn import TurnModelError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "lookhear" / "packages" / "smart-turn"


def test_offline_there_is_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cache: Path
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert turn_model(AUTO) is None and not cache.exists()
    assert "turns end by silence" in caplog.text and "HF_HUB_OFFLINE is set" in caplog.text


def test_another_file_than_the_pinned_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    def download(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        folder = Path(command[command.index("--dest") + 1])
        (folder / "pipecat_ai-1.14.0-py3-none-any.whl").write_bytes(b"other")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(subprocess, "run", download)
    with pytest.raises(TurnModelError, match="expected a file of SHA-256 0352f504"):
        downloaded()
    assert list(cache.iterdir()) == []


def test_a_failed_download_says_what_pip_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def download(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no network\n")

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(subprocess, "run", download)
    assert turn_model(AUTO) is None and "ERROR: no network" in caplog.text


def test_a_file_that_is_no_model(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    path = tmp_path / MODEL
    path.write_bytes(b"nothing")
    assert turn_model(str(path)) is None and f"{path}: expected an ONNX model" in caplog.text


def test_without_onnxruntime(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with caplog.at_level(logging.INFO):
        assert turn_model(AUTO) is None
    assert "lookhear[turns]" in caplog.text


def test_the_option() -> None:
    assert gateway_config(serve_parser().parse_args([])).turn_model == AUTO
    with pytest.raises(ConfigError, match="turn-model: expected auto, off or a readable file"):
        GatewayConfig(turn_model="missing.onnx")
