"""`lookhear bench`: what a person is told, and with which exit status."""

from __future__ import annotations

import importlib.util
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lookhear.bench import command, subject
from lookhear.bench.bridge import bridge, live_address
from lookhear.bench.capacity import Bounds, Capacity, Probe
from lookhear.bench.generator import realtime_url
from lookhear.bench.prober import as_json
from lookhear.bench.prober import table as capacity_table
from lookhear.commands import main as cli
from lookhear.errors import AddressError, ConnectionFailed
from tests.benchmarks.recordings import write_recordings


def bench(*argv: str) -> int:
    """As the `lookhear` command runs it, wherever it is installed."""
    return cli.main(["bench", *argv])


def test_without_a_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.bench([]) == 2
    assert "capacity" in capsys.readouterr().err
    assert command.bench(["--help"]) == 0
    assert "compare" in capsys.readouterr().out
    assert command.bench(["speed"]) == 2
    assert "expected one of live, capacity, offline, abuse, chaos" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [["live", "--limit", "0"], ["live", "--sessions", "0"], ["offline", "--limit", "-1"]]
    + [["human", "--limit", "x"]],
)
def test_no_recordings_are_no_measurement(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.bench(argv)
    assert ended.value.code == 2
    assert f"argument {argv[1]}: expected a whole number from 1 on" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "x"])
@pytest.mark.parametrize("subcommand", ["live", "capacity", "soak", "overload"])
def test_no_time_is_no_measurement(
    subcommand: str, seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.bench([subcommand, f"--seconds={seconds}"])
    assert ended.value.code == 2
    assert "argument --seconds: expected a number above 0" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "x"])
@pytest.mark.parametrize(
    ("subcommand", "options"),
    [
        ("capacity", "--bound --final-bound --wer-slack --growth --late --tolerance"),
        ("sweep", "--lengths --sessions --rates --most-rate --rate-step --bound --tolerance"),
        ("overload", "--times"),
        ("soak", "--share --file-seconds --file-every --every"),
    ],
)
def test_what_bounds_a_measurement_is_a_number(
    subcommand: str, options: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in options.split():
        with pytest.raises(SystemExit) as ended:
            command.bench([subcommand, f"{option}={value}"])
        assert ended.value.code == 2
        assert f"argument {option}: expected a " in capsys.readouterr().err


@pytest.mark.parametrize(
    "subcommand", ["live", "capacity", "offline", "human", "overload", "soak", "abuse"]
)
def test_a_server_that_runs_is_not_also_started(
    subcommand: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(subcommand, "--server", "http://127.0.0.1:9", "--serve", "--threads 1") == 2
    assert "--serve starts a server: leave --server out" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["file", "file/below", "x" * 300])
def test_where_results_go_is_looked_at_before_measuring(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        command.bench(["soak", "--out", str(tmp_path / where)])
    assert ended.value.code == 2
    assert "argument --out: expected a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "subcommand", ["live", "capacity", "offline", "human", "dialects", "sweep", "compare"]
)
def test_every_subcommand_explains_itself(
    subcommand: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.bench([subcommand, "--help"])
    assert ended.value.code == 0
    assert f"lookhear bench {subcommand}" in capsys.readouterr().out


def test_the_extra_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "psutil" else real(name)
    )
    assert command.bench(["live"]) == 2
    said = capsys.readouterr().err
    assert said == 'lookhear bench: needs pip install "lookhear[bench]" (psutil is missing)\n'


def test_a_bridge_is_started_for_the_wire_that_needs_one() -> None:
    pytest.importorskip("wyoming")
    with live_address("http://127.0.0.1:9", "openai") as url:
        assert url.startswith("ws://127.0.0.1:9/")
    with live_address("http://127.0.0.1:9", "wyoming", "key") as url:
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname, parts.port or 0)) as client:
            client.sendall(b'{"type": "ping"}\n')
            assert client.makefile().readline().startswith('{"type": "pong"')
    with pytest.raises(ConnectionFailed, match="bridge did not start"), bridge("nowhere", None):
        pass


@pytest.mark.parametrize("subcommand", [["live", "single"], ["capacity"], ["offline"]])
def test_a_dead_server_is_one_line_and_a_failure(
    subcommand: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_recordings(tmp_path)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        where = "--server", url, "--data", str(tmp_path), "--out", str(tmp_path / "results")
        assert bench(*subcommand, *where) == 1
    output = capsys.readouterr()
    assert output.out == "" and output.err.splitlines()[-1].startswith("lookhear: ")
    assert "refused" in output.err.splitlines()[-1]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "argv",
    [
        ["live", "--server", "nowhere"],
        ["capacity", "--server", "http://127.0.0.1:9", "--most", "0"],
        ["offline", "--concurrency", "0"],
        ["offline", "--condition", "pauses", "--rounds", "0"],
        ["offline", "--rounds", "2"],
        ["human", "shouting"],
        ["human", "--sessions", "0"],
    ],
)
def test_wrong_use(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(*argv) == 2
    assert "expected" in capsys.readouterr().err


def test_recordings_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["capacity", "--server", "http://127.0.0.1:9", "--data", str(tmp_path)]
    assert bench(*asked) == 1
    assert "expected recordings" in capsys.readouterr().err


def test_where_the_websocket_is() -> None:
    wanted = "ws://localhost:8000/v1/realtime?intent=transcription"
    for given in ("http://localhost:8000", "http://localhost:8000/v1/", "ws://localhost:8000"):
        assert realtime_url(given) == wanted
    assert realtime_url("https://a.example", "deepgram") == "wss://a.example/v1/listen"
    assert realtime_url("https://a.example/v1", "flux") == "wss://a.example/v2/listen"
    assert realtime_url("ws://a.example/asr", "whisperlive") == "ws://a.example/asr"
    assert realtime_url("wss://a.example/asr?x=1") == "wss://a.example/asr?x=1"
    with pytest.raises(AddressError):
        realtime_url("example")


def test_a_key_is_not_written_down() -> None:
    for argv in (["live", "--api-key", "secret"], ["live", "--api-key=secret"]):
        about = subject.begin(argv)
        assert "secret" not in json.dumps(about)
        assert about["command"].startswith("lookhear bench live --api-key")


def test_a_probe_without_numbers_is_shown_all_the_same() -> None:
    probes = (Probe(1, True, (), {}), Probe(2, False, ("all dropped",), {}))
    found: dict[str, Any] = as_json(Capacity(1, "bound", probes), Bounds())
    assert json.loads(json.dumps(found))["probes"][1]["reasons"] == ["all dropped"]
    assert capacity_table(found).row_count == 2
