"""`lookhear serve` and `lookhear models` as a person meets them."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.client import EngineClient, EngineStartError
from engine.config import EngineConfig
from engine.messages import Starting
from gateway import catalogue, command
from gateway.arguments import engine_configs, gateway_config, serve_parser
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import running


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """`serve` starts this one, and gets Ctrl-C once it is up."""
    fake = FakeEngine()

    async def start(
        configs: Sequence[EngineConfig], *, on_progress: Callable[[Starting], None]
    ) -> FakeEngine:
        on_progress(Starting("loading weights", 0.5))
        on_progress(Starting("loading weights", 1.0))
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        return fake

    monkeypatch.setattr(EngineClient, "start", start)
    return fake


def test_serve_until_control_c(engine: FakeEngine, capfd: pytest.CaptureFixture[str]) -> None:
    assert command.serve(["--port", "0", "--log-level", "error"]) == 0
    out, err = capfd.readouterr()
    assert "loading demo-whisper" in out
    assert "loading weights" in out
    assert "ready: fake/whisper, fake-english" in out
    assert "ws://127.0.0.1:" in out
    assert "Traceback" not in out + err
    assert engine.closed


def refusal(argv: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert command.serve(argv) == 2
    out, err = capfd.readouterr()
    assert err.count("\n") == 1, err
    assert err.startswith("lookhear serve: ")
    return err


def test_a_taken_port_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        line = refusal(["--port", str(port)], capfd)
    assert f"port {port}" in line and "--port" in line


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--host", "0.0.0.0"], ["--allow-unauthenticated", "0.0.0.0"]),
        (["--port", "70000"], ["port: expected", "70000"]),
        (["--tick", "0"], ["tick_seconds: expected", "0"]),
        (["--allow-origin", "example.org"], ["allow-origin: expected", "https://"]),
        (["--api-key", "a b"], ["api-key: expected"]),
        (["--max-sessions", "0"], ["max-sessions: expected", "0"]),
        (["--ssl-certfile", "/nowhere"], ["ssl-certfile: expected a readable file"]),
        (
            ["--ssl-certfile", __file__, "--ssl-keyfile", __file__],
            ["ssl-certfile: expected a PEM certificate"],
        ),
        (["--host", "192.0.2.1", "--api-key", "k"], ["cannot listen on 192.0.2.1"]),
        (["--model", "a", "--model", "a"], ["different names"]),
        (["--served-name", "a", "--served-name", "b"], ["served-name: expected"]),
    ],
)
def test_a_wrong_setting_is_one_line(
    argv: list[str], words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    line = refusal(argv, capfd)
    for word in words:
        assert word in line


def test_a_model_that_cannot_be_loaded_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def start(configs: Sequence[EngineConfig], **_: Any) -> FakeEngine:
        raise EngineStartError(f"{configs[0].model}: no such folder")

    monkeypatch.setattr(EngineClient, "start", start)
    line = refusal(["--port", "0", "--model", "/nowhere", "--log-level", "error"], capfd)
    assert "cannot load the model: /nowhere: no such folder" in line


def test_options_reach_the_configurations() -> None:
    options = serve_parser().parse_args(
        ["--model", "a", "--model", "b", "--served-name", "x", "--tick", "0.5", "--threads", "3"]
    )
    one, two = engine_configs(options)
    assert (one.name, two.name, one.tick_seconds, two.threads) == ("x", "b", 0.5, 3)
    assert gateway_config(options, {"LOOKHEAR_API_KEY": "k"}).api_keys == ("k",)
    options.api_key = ["a", "b"]
    assert gateway_config(options, {"LOOKHEAR_API_KEY": "k"}).api_keys == ("a", "b")
    assert gateway_config(serve_parser().parse_args([]), {}).loopback


def test_models_lists_what_is_packaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "whisper").mkdir()
    (tmp_path / "whisper" / "config.json").write_text('{"model_type": "whisper"}')
    monkeypatch.setattr(catalogue, "packaged_folder", lambda: tmp_path)
    monkeypatch.setattr(catalogue, "downloaded", lambda: [])
    assert command.models([]) == 0
    assert "demo-whisper" in capsys.readouterr().out


async def test_models_of_a_running_server(capsys: pytest.CaptureFixture[str]) -> None:
    async with running() as gateway:
        for url in (gateway.http, gateway.http.replace("http", "ws") + "/v1"):
            assert await asyncio.to_thread(command.models, ["--server", url]) == 0
            assert "fake/whisper" in capsys.readouterr().out
        status = await asyncio.to_thread(command.models, ["--server", gateway.http + "/no"])
        assert status == 2
        assert "404" in capsys.readouterr().err
    assert command.models(["--server", "example.org"]) == 2
    assert "expected a URL" in capsys.readouterr().err


def test_the_gateway_never_loads_torch() -> None:
    folder = Path(__file__).parents[2] / "gateway"
    names = [
        ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for path in sorted(folder.rglob("*.py"))
    ]
    code = f"import sys, {', '.join(names)}; print({{'torch', 'transformers'}} & set(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=folder.parent, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "set()"
