"""Whatever is wrong with the turn model, the server starts, and its log says why."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import threading
from pathlib import Path

import pytest

from lookhear.engine.config import ConfigError
from lookhear.gateway.commands.arguments import gateway_config, serve_parser
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services import turn_model as module
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


def pip(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """What takes Python's place; $1 is the folder for the wheel."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\nfor last; do :; done; shift $(($# - 2))\n{script}\n")
    path.chmod(0o755)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(sys, "executable", str(path))


def test_another_file_than_the_pinned_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    pip(tmp_path, monkeypatch, 'echo other > "$1/pipecat_ai-1.14.0-py3-none-any.whl"')
    with pytest.raises(TurnModelError, match="expected a file of SHA-256 0352f504"):
        downloaded()
    assert list(cache.iterdir()) == []


def test_a_failed_download_says_what_pip_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    pip(tmp_path, monkeypatch, "echo 'ERROR: no network' >&2; exit 1")
    assert turn_model(AUTO) is None and "ERROR: no network" in caplog.text


def test_a_server_that_ends_does_not_wait_for_the_download(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cache: Path, tmp_path: Path
) -> None:
    """Where the index is not reached, pip tries for minutes."""
    said = tmp_path / "pid"
    pip(tmp_path, monkeypatch, f'echo $$ > "{said}.new"; mv "{said}.new" "{said}"; exec sleep 3600')
    stop, found = threading.Event(), [object()]
    thread = threading.Thread(target=lambda: found.append(turn_model(AUTO, stop)), daemon=True)
    thread.start()
    while not said.exists():
        assert thread.is_alive()
    stop.set()
    thread.join(60)
    assert not thread.is_alive() and found[1:] == [None]
    assert "the server ends" in caplog.text and list(cache.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(said.read_text()), 0)


def test_a_download_has_an_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cache: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.0)
    pip(tmp_path, monkeypatch, "exec sleep 3600")
    assert turn_model(AUTO) is None
    assert "timed out" in caplog.text and list(cache.iterdir()) == []


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
