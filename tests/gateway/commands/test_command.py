"""`lookhear serve` and `lookhear models` as a person meets them."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lookhear.commands import models as models_command
from lookhear.commands.models import models
from lookhear.engine.client.client import EngineStartError
from lookhear.engine.config import ConfigError, EngineConfig
from lookhear.engine.messages import Starting
from lookhear.gateway import catalogue
from lookhear.gateway.commands import command, serving
from lookhear.gateway.commands.arguments import engine_configs, gateway_config
from lookhear.gateway.commands.settings import read_settings
from lookhear.gateway.commands.startup import tell_ready, tell_served
from lookhear.gateway.config import GatewayConfig
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import CARDS, FakeEngine
from tests.gateway.running import running


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """`serve` starts this one, and gets Ctrl-C once it is up."""

    class Loading(FakeEngine):
        configs: Sequence[EngineConfig]

        async def load(self, on_progress: Callable[[str, Starting], None]) -> None:
            for share in (0.5, 1.0):
                for config in self.configs:
                    on_progress(config.name, Starting("loading weights", share))
                    on_progress(config.name, Starting(f"loading {config.name}", share))
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)

    fake = Loading()

    def create(configs: Sequence[EngineConfig]) -> FakeEngine:
        fake.configs = configs
        return fake

    monkeypatch.setattr(serving, "EngineClient", create)
    return fake


def test_serve_until_control_c(engine: FakeEngine, capfd: pytest.CaptureFixture[str]) -> None:
    assert command.serve(["--port", "0", "--log-level", "error"]) == 0
    out, err = capfd.readouterr()
    assert "loading demo-whisper" in out  # as the environment of the tests says
    assert "toy" not in out
    assert "\nloading weights ...\n" in out
    assert "ready: fake/whisper, fake-english" in out
    assert "ws://127.0.0.1:" in out
    assert "Traceback" not in out + err
    assert engine.closed


def test_a_supervisor_hears_when_it_is_ready_and_when_it_stops(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        assert command.serve(["--port", "0", "--log-level", "error"]) == 0
        assert [supervisor.recv(100) for _ in range(2)] == [b"READY=1", b"STOPPING=1"]


def test_several_models_say_which_of_them_is_loading(
    engine: FakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    argv = ["--port", "0", "--log-level", "error", "--model", "a=demo-whisper", "--model", "x/b"]
    assert command.serve([*argv, "--model", "demo-qwen3-vl"]) == 0
    lines = capfd.readouterr().out.splitlines()
    for line in (
        "lookhear: loading demo-whisper as a",
        "lookhear: loading x/b",
        "a: loading weights ...",
        "loading a ...",
        "x/b: loading weights ...",
    ):
        assert line in lines


def test_toys_are_told_and_what_was_chosen(
    engine: FakeEngine, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOKHEAR_MODEL")
    engine.models = [replace(CARDS[0], toy=True, reason="no network"), replace(VISION, toy=True)]
    assert command.serve(["--port", "0", "--log-level", "error"]) == 0
    lines = capfd.readouterr().out.splitlines()
    for line in (
        "lookhear: loading openai/whisper-base, or demo-whisper if that cannot be had",
        "  fake/whisper: no network",
        "  fake/whisper is a toy: it knows a small closed vocabulary. For real speech: --model "
        "openai/whisper-large-v3-turbo",
        "  fake/vision is a toy: it knows a small closed vocabulary. For real pictures: --model "
        "Qwen/Qwen3-VL-2B-Instruct",
    ):
        assert line in lines


@pytest.mark.parametrize("full", [False, True])
def test_a_server_does_not_end_because_nobody_takes_what_it_says(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    served = []

    def tell(*told: Any) -> None:
        tell_served(*told)
        served.append(told)

    monkeypatch.setattr(command, "tell_served", tell)
    with open("/dev/full" if full else writing, "w") as gone:
        monkeypatch.setattr("sys.stdout", gone)
        assert command.serve(["--port", "0", "--log-level", "error"]) == 0
    if full:
        os.close(writing)
    assert served


@pytest.mark.parametrize(
    ("argv", "environ", "models"),
    [
        ([], {}, ["auto"]),
        ([], {"LOOKHEAR_MODEL": "a/b"}, ["a/b"]),
        (["auto", "c"], {"LOOKHEAR_MODEL": "a/b"}, ["a/b", "c"]),
        (["auto", "c"], {"LOOKHEAR_MODEL": ""}, ["auto", "c"]),
        (["c"], {"LOOKHEAR_MODEL": "a/b"}, ["c"]),
    ],
)
def test_what_is_served_where_nobody_says(
    argv: list[str], environ: dict[str, str], models: list[str]
) -> None:
    settings = read_settings([word for model in argv for word in ("--model", model)], environ)
    assert [config.model for config in engine_configs(settings.options)] == models


def test_the_chosen_one_may_not_be_named_besides() -> None:
    options = given(["--model", "auto", "--model", "demo-whisper"])
    with pytest.raises(ConfigError, match="different names"):
        engine_configs(options)


def test_refused_handshakes_are_told_once(
    engine: FakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    server = logging.getLogger("uvicorn.error")

    async def load(on_progress: object) -> None:
        server.error("ASGI callable returned without completing handshake.")
        server.error("something else")
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)

    engine.load = load  # type: ignore[attr-defined]
    assert command.serve(["--port", "0", "--log-level", "error"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == ["something else"]


def refusal(argv: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert command.serve(argv) == 2
    out, err = capfd.readouterr()
    assert err.count("\n") == 1, err
    assert err.startswith("lookhear serve: ")
    return err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--max-sessions", "1.5"], "argument --max-sessions: "),
        (["--prot=1"], "--prot=1"),
        (["--media-folder", ""], "argument --media-folder: invalid folder value: ''"),
        (["--adapters", ""], "argument --adapters: invalid folder value: ''"),
    ],
)
def test_a_wrong_option_is_one_line(
    argv: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.serve(argv)
    (line,) = capfd.readouterr().err.splitlines()
    assert ended.value.code == 2 and line.startswith("lookhear serve: ") and words in line
    assert line.endswith("`lookhear serve --help` lists the options")


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
        (["--max-session-seconds", "inf"], ["max-session-seconds: expected a finite number"]),
        (["--host", "a..b", "--api-key", "k"], ["cannot listen on a..b", "no host name"]),
        (["--allow-origin", "http://["], ["allow-origin: expected"]),
        (["--tick", "0"], [" tick: expected", "0"]),
        (["--max-lag", "-1"], [" max-lag: expected", "-1"]),
        (["--kv-cache-gigabytes", "-1"], [" kv-cache-gigabytes: expected", "-1"]),
        (["--allow-origin", "example.org"], ["allow-origin: expected", "https://"]),
        (["--api-key", "a b"], ["api-key: expected"]),
        (
            ["--allow-network", "10.0.0.1/8"],
            ["allow-network: expected a network like", "host bits"],
        ),
        (["--media-folder", "/nowhere"], ["media-folder: expected a folder", "/nowhere"]),
        (["--fetch-timeout-seconds", "0"], ["fetch-timeout-seconds: expected at least", "0"]),
        (["--media-workers", "0"], ["media-workers: expected at least 1, got 0"]),
        (["--media-memory-bytes", "1000"], ["media-memory-bytes: expected at least 268435456"]),
        (["--video-fps", "2000"], ["video-fps: expected at most 1000"]),
        (["--max-sessions", "0"], ["max-sessions: expected", "0"]),
        (["--max-turn-seconds", "1e5"], [" max-turn-seconds: expected at most 86400, got 100000"]),
        (["--media-seconds", "1e30"], ["media-seconds: expected at most 86400, got 1e+30"]),
        (
            ["--media-memory-bytes", "9" * 20],
            ["media-memory-bytes: expected at most 1099511627776"],
        ),
        (["--workers", "65"], ["workers: expected 1 to 64, got 65"]),
        (["--workers", "3", "--max-sessions", "2"], ["max-sessions: expected at least 3", "got 2"]),
        (["--ssl-certfile", "/nowhere"], ["ssl-certfile: expected a readable file"]),
        # A path of which the system does not say whether it is there, as in a folder of root's.
        (["--ssl-keyfile", "x" * 300], ["ssl-keyfile: expected a readable file"]),
        (["--media-folder", "x" * 300], ["media-folder: expected a folder"]),
        (["--turn-model", "x" * 300], ["turn-model: expected auto, off or a readable file"]),
        (
            ["--ssl-certfile", __file__, "--ssl-keyfile", __file__],
            ["ssl-certfile: expected a PEM certificate"],
        ),
        (["--host", "192.0.2.1", "--api-key", "k"], ["cannot listen on 192.0.2.1"]),
        (["--model", "a", "--model", "a"], ["different names", "'a' 2 times", "NAME=MODEL"]),
        (["--model", "a=x", "--model", "y", "--model", "a=z"], ["different names", "'a' 2 times"]),
        (
            ["--device", "gpu"],
            ["device: expected cpu, cuda, cuda:N, several", "got 'gpu'"],
        ),
        (["--model", "=x"], ["model: expected a name without spaces before =", "'=x'"]),
        (["--model", "a="], ["model: expected a repo id", "''"]),
        (["--served-name", "a", "--served-name", "b"], ["served-name: expected"]),
        (["--model", "a=x", "--served-name", "b"], ["served-name: expected one name", "'b'"]),
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
    class Broken(FakeEngine):
        async def load(self, on_progress: object) -> None:
            raise EngineStartError("cannot load /nowhere: no such folder")

    monkeypatch.setattr(serving, "EngineClient", lambda configs: Broken())
    line = refusal(["--port", "0", "--model", "/nowhere", "--log-level", "error"], capfd)
    assert line == "lookhear serve: cannot load /nowhere: no such folder\n"


def test_a_misspelt_model_is_told_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Broken(FakeEngine):
        async def load(self, on_progress: object) -> None:
            raise EngineStartError("cannot load it")

    tiny = catalogue.Row("openai/whisper-tiny", "whisper", "150 MB", "downloaded")
    monkeypatch.setattr(serving, "EngineClient", lambda configs: Broken())
    monkeypatch.setattr(catalogue, "downloaded", lambda: [tiny])
    for model, hint in {
        "demo-wisper": ". Did you mean demo-whisper?",
        "openai/whisper-tinny": ". Did you mean openai/whisper-tiny?",
        "openai/whisper-tiny": "",
        "quite/else": "",
    }.items():
        line = refusal(["--port", "0", "--model", model, "--log-level", "error"], capfd)
        assert line == f"lookhear serve: cannot load it{hint}\n"


def test_who_listens_everywhere_is_told_where_others_reach_it() -> None:
    for host, is_everywhere in {"0.0.0.0": True, "::": True, "127.0.0.1": False}.items():
        out = io.StringIO()
        config = GatewayConfig(host=host, api_keys=("k",))
        tell_ready(Console(file=out), config, 8000, [VISION])
        browser = "http://[::1]:8000/" if host == "::" else "http://127.0.0.1:8000/"
        assert f"  browser   {browser}\n" in out.getvalue()
        name = f"http://{socket.gethostname()}:8000"
        assert (f"{name}\n" in out.getvalue()) is is_everywhere
        assert ("from elsewhere: http://" in out.getvalue()) is is_everywhere


async def test_a_server_that_wants_a_key_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    async with running(GatewayConfig(port=0, api_keys=("k",))) as gateway:
        assert await asyncio.to_thread(models, ["--server", gateway.http]) == 2
        missing = capsys.readouterr().err
        argv = ["--server", gateway.http, "--api-key", "other"]
        assert await asyncio.to_thread(models, argv) == 2
        wrong = capsys.readouterr().err
    for line, got in ((missing, "none"), (wrong, "an unknown one")):
        assert "expected an API key of this server" in line
        assert line.endswith(f", got {got}; it goes to --api-key or into LOOKHEAR_API_KEY\n")


def given(argv: list[str]) -> argparse.Namespace:
    """Where the environment says nothing."""
    return read_settings(argv, {}).options


def test_options_reach_the_configurations() -> None:
    options = given(
        ["--model", "a", "--model", "b", "--served-name", "x", "--tick", "0.5", "--threads", "3"]
    )
    one, two = engine_configs(options)
    assert (one.name, two.name, one.tick_seconds, two.threads) == ("x", "b", 0.5, 3)
    lengths = ["--max-context-tokens", "300", "--max-answer-tokens", "20"]
    (one,) = engine_configs(given([*lengths, "--max-picture-tokens", "64"]))
    assert (one.max_context_tokens, one.max_answer_tokens, one.max_picture_tokens) == (300, 20, 64)
    key = {"LOOKHEAR_API_KEY": "k"}
    assert gateway_config(read_settings([], key).options).api_keys == ("k",)
    two_keys = ["--api-key", "a", "--api-key", "b"]
    assert gateway_config(read_settings(two_keys, key).options).api_keys == ("a", "b")
    assert gateway_config(given([])).loopback


def test_encoders_are_for_all_models_or_for_one() -> None:
    def encoders(*argv: str) -> list[int]:
        options = given(["--model", "a", "--model", "x=b", *argv])
        return [config.encoders for config in engine_configs(options)]

    assert encoders() == [0, 0]
    assert encoders("--encoders", "2") == [2, 2]
    assert encoders("--encoders", "x=3") == [0, 3]
    assert encoders("--encoders", "1", "--encoders", "x=3") == [1, 3]
    for wrong, expected in (
        ("many", "expected N, or MODEL=N, got 'many'"),
        ("x=-1", "expected N, or MODEL=N, got 'x=-1'"),
        ("b=1", "expected MODEL=N of a model here ('a', 'x'), got 'b'"),
        ("65", "expected 0 to 64, got 65"),
    ):
        with pytest.raises(ConfigError, match="encoders: ") as told:
            encoders("--encoders", wrong)
        assert expected in str(told.value)


@pytest.mark.parametrize(("option", "most"), [("threads", 1024), ("max-rows", 4096)])
def test_numbers_that_no_machine_bears_are_refused(option: str, most: int) -> None:
    """With 100,000 threads torch ends its process by a signal, a billion rows fill the memory."""
    assert engine_configs(given([f"--{option}", str(most)]))
    with pytest.raises(ConfigError, match=f"expected 0 to {most}, got {most + 1}"):
        engine_configs(given([f"--{option}", str(most + 1)]))


def test_options_of_media_reach_the_configuration(tmp_path: Path) -> None:
    options = given(
        ["--allow-network", "10.1.0.0/16", "--allow-network", "::1", "--media-folder",
         str(tmp_path), "--fetch-timeout-seconds", "3", "--max-image-pixels", "1000",
         "--max-pictures", "5", "--max-upload-bytes", "2000", "--media-workers", "7",
         "--media-memory-bytes", "300000000", "--media-seconds", "9", "--fetch-wait-seconds", "4"]
    )  # fmt: skip
    config = gateway_config(options)
    assert [str(network) for network in config.allow_networks] == ["10.1.0.0/16", "::1/128"]
    assert (config.media_folder, config.fetch_timeout_seconds) == (tmp_path, 3.0)
    assert (config.max_image_pixels, config.max_pictures) == (1000, 5)
    assert config.max_upload_bytes == 2000
    assert (config.media_workers, config.media_memory_bytes) == (7, 300_000_000)
    assert (config.media_seconds, config.fetch_wait_seconds) == (9.0, 4.0)
    plain = gateway_config(given([]))
    assert (plain.allow_networks, plain.media_folder) == ((), None)
    assert plain.media_workers >= 3


def test_a_name_before_the_model(tmp_path: Path) -> None:
    odd = tmp_path / "run=3"
    odd.mkdir()
    wanted = {
        "a=demo-whisper": ("a", "demo-whisper"),
        "big/one=./here": ("big/one", "./here"),
        "c=b=c": ("c", "b=c"),
        "openai/whisper-tiny": ("openai/whisper-tiny", "openai/whisper-tiny"),
        str(odd): (str(odd), str(odd)),
        "./not=yet": ("./not=yet", "./not=yet"),
        f"x={odd}": ("x", str(odd)),
    }
    argv = [word for given in wanted for word in ("--model", given)]
    configs = engine_configs(given([*argv, "--dtype", "bfloat16"]))
    assert [(config.name, config.model) for config in configs] == list(wanted.values())
    assert {config.dtype for config in configs} == {"bfloat16"}


def test_models_lists_what_is_packaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds: dict[str, dict[str, Any] | None] = {
        "whisper": {},
        "qwen3_asr": {},
        "qwen3_aligner": {"architectures": ["Qwen3ASRForTokenClassification"]},
        "original": {"thinker_config": {"classify_num": 5000}},
        "recordings": None,
    }
    for kind, config in kinds.items():
        (tmp_path / kind).mkdir()
        if config is not None:
            told = {"model_type": kind, **config}
            (tmp_path / kind / "config.json").write_text(json.dumps(told))
    monkeypatch.setattr(catalogue, "packaged_folder", lambda: tmp_path)
    monkeypatch.setattr(catalogue, "downloaded", lambda: [])
    assert models_command.models([]) == 0
    out = capsys.readouterr().out
    assert "demo-whisper" in out and "demo-qwen3-asr" in out and "recordings" not in out
    assert out.count("--aligner") == 2 and "demo-qwen3-aligner" in out
    assert out.count("any Whisper, Qwen3, Qwen3-ASR, Qwen3-VL, ") == 1
    assert all(name in out.splitlines()[-1] for name in catalogue.SUPPORTED.values())
    assert out.splitlines()[-1].count("SmolVLM") == 1  # two kinds of checkpoints, one family


async def test_models_of_a_running_server(capsys: pytest.CaptureFixture[str]) -> None:
    async with running() as gateway:
        for url in (gateway.http, gateway.http.replace("http", "ws") + "/v1"):
            assert await asyncio.to_thread(models, ["--server", url]) == 0
            rows = [row for row in capsys.readouterr().out.splitlines() if "fake" in row]
            assert [row.split()[0] for row in rows] == ["fake/whisper", "fake-english"]
            assert "For" not in "".join(rows) and "…" not in "".join(rows)
            assert ["default" in row for row in rows] == [True, False]
        status = await asyncio.to_thread(models, ["--server", gateway.http + "/no"])
        assert status == 2
        assert "404" in capsys.readouterr().err
    assert models_command.models(["--server", "http://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err.endswith("of http://127.0.0.1:9: Connection refused\n")
    assert models_command.models(["--server", "example.org"]) == 2
    assert "expected a URL" in capsys.readouterr().err


async def test_models_of_what_is_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-nobody\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert await asyncio.to_thread(models, ["--server", url]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"lookhear models: cannot list the models of {url}: ")
    assert "expected HTTP, got 'SSH-2.0-nobody'" in error and error.count("\n") == 1


def test_what_is_ready_is_what_can_be_asked(
    engine: FakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    argv = ["--port", "0", "--log-level", "error"]
    assert command.serve(argv) == 0
    out = capfd.readouterr().out
    assert "/v1/realtime?intent=transcription\n" in out and "/v1/audio/transcriptions" in out
    assert "/v1/chat/completions" not in out
    engine.models = [VISION]
    assert command.serve(argv) == 0
    out = capfd.readouterr().out
    assert "/v1/realtime\n" in out and "/v1/chat/completions" in out
    assert "/v1/audio/transcriptions" not in out


def test_names_with_brackets_are_shown_whole(
    engine: FakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    argv = ["--port", "0", "--log-level", "error", "--model", "x=a/[b]", "--model", "[/c]=d"]
    assert command.serve(argv) == 0
    lines = capfd.readouterr().out.splitlines()
    assert "lookhear: loading a/[b] as x" in lines
    assert "[/c]: loading weights ..." in lines
