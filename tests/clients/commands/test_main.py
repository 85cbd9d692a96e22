"""The `lookhear` command: what it prints, what it returns, what it says when something lacks."""

from __future__ import annotations

import json
import os
import pwd
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import soundfile
from websockets.frames import Close

from lookhear import __main__ as command
from lookhear.commands import demo, server_choice
from lookhear.commands import main as cli
from lookhear.commands import private_server as server
from lookhear.errors import LookhearError
from lookhear.live.stream import LiveStream
from lookhear.transport.address import Server
from lookhear.transport.realtime import final_close
from tests.clients.counting_server import CountingServer, said, speech
from tests.clients.threads import on_thread

WORDS = [101, 102]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("argv", [["chat"], ["listen", "-"], ["transcribe", "-"]])
def test_a_closed_stdin_is_an_empty_one(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As some supervisors leave it."""
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main([*argv, "--server", "http://127.0.0.1:1"]) in (1, 2)
    sys.stdin.close()
    assert capsys.readouterr().err.count("lookhear: ") == 1


CLOSED = """
import sys, tempfile
from lookhear.commands import main

def run(arguments):
    print("heard by nobody"), print("nor this", file=sys.stderr)
    with tempfile.TemporaryFile() as file:
        is_a_file = file.fileno() > 2 and not file.read()
    return 7 if is_a_file and not sys.stderr.isatty() and sys.stdin.read() == "" else 1

main._run = run
sys.exit(main.main([]))
"""


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams_lead_nowhere(closed: str) -> None:
    """Nobody gets their numbers."""
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    done = subprocess.run([*shell, sys.executable, "-c", CLOSED], stdin=subprocess.DEVNULL)
    assert done.returncode == 7


def test_no_tokens_are_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["chat", "hello", "--max-tokens", "0"]) == 2
    assert "--max-tokens: expected at least 1, got 0" in capsys.readouterr().err


@pytest.mark.parametrize("temperature", ["nan", "inf"])
def test_a_temperature_is_a_number(temperature: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["chat", "hello", "--temperature", temperature]) == 2
    assert f"--temperature: expected a number, got {temperature}" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-1", "70000"])
def test_the_demo_has_a_port_that_there_is(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--once", "--port", port]) == 2
    assert f"--port: expected 0 to 65535, got {port}" in capsys.readouterr().err


def test_the_demo_may_take_any_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> NoReturn:
        raise server.ServerFailed("no server today")

    monkeypatch.setattr(demo, "server_installed", lambda: True)
    monkeypatch.setattr(demo, "started_server", failing)
    assert cli.main(["demo", "--once", "--port", "0"]) == 1
    assert capsys.readouterr().out == "the demo failed: no server today\n"


@pytest.mark.parametrize("argv", [["env"], ["models"]])
def test_a_user_whom_the_system_does_not_know(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in containers with any user number, and no variables."""

    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setenv("HOME", "")  # so that it is as it was, afterwards
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert cli.main(argv) == 0
    assert "demo-whisper" in capsys.readouterr().out


def test_ctrl_c_while_the_command_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes half a second: no traceback then either."""

    class Pressed(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "lookhear.commands.main":
                raise KeyboardInterrupt

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"lookhear": "lookhear.__main__:main"}
    monkeypatch.delitem(sys.modules, "lookhear.commands.main")
    monkeypatch.setattr(sys, "meta_path", [Pressed(), *sys.meta_path])
    assert command.main() == 130


ENDING = """
import atexit, gc, runpy, sys
atexit.register(lambda: print(len(gc.get_objects())))
module, *sys.argv[1:] = sys.argv[1:]
runpy.run_module(module, run_name="__main__")
"""


@pytest.mark.parametrize(
    "command",
    [
        ["lookhear", "--version"],
        ["lookhear.engine.process", "--help"],
        ["lookhear.gateway.commands.worker", "--help"],
    ],
)
def test_a_process_that_ends_leaves_the_collector_nothing_to_look_at(command: list[str]) -> None:
    """Which takes it longer than many a command."""
    said = subprocess.run(
        [sys.executable, "-c", ENDING, *command], capture_output=True, text=True, check=True
    )
    assert int(said.stdout.splitlines()[-1]) < 1000, said.stdout


def test_a_command_that_has_loaded_triton_ends_without_a_word(tmp_path: Path) -> None:
    """Which complains of what is left of it."""
    (tmp_path / "triton.py").write_text(
        "import atexit, gc\natexit.register(lambda: print('frozen', gc.get_freeze_count()))"
    )
    begin = "import triton; from lookhear.__main__ import main; import sys; sys.argv[1:] = "
    said = subprocess.run(
        [sys.executable, "-c", f"{begin}['--version']; main()"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.endswith("frozen 0\n"), said


@pytest.fixture
def counting() -> Iterator[CountingServer]:
    counting = CountingServer()
    with on_thread(counting.running()):
        yield counting


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "talk.wav"
    soundfile.write(path, np.frombuffer(speech(WORDS, gap_ms=20), "<i2"), 24_000)
    return str(path)


def test_live_text_is_one_line_per_turn_when_piped(
    counting: CountingServer, recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["transcribe", "--live", "--server", counting.url, recording]) == 0
    assert capsys.readouterr().out == " ".join(said(WORDS)) + "\n"
    assert counting.updates[0]["lookhear"]["provisional"] is True


def test_live_json_is_one_event_per_line(
    counting: CountingServer, recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["transcribe", "--live", "--json", "--server", counting.url, recording]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[0]["event"] == "SessionReady" and events[-1]["event"] == "TurnCompleted"
    assert "".join(e["text"] for e in events if e["event"] == "TextDelta") == events[-1]["text"]


def test_live_subtitles(
    counting: CountingServer, recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["transcribe", "--live", "--format", "srt", "--server", counting.url, recording]
    assert cli.main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1" and lines[1].startswith("00:00:00,000 --> 00:00:00,")


@pytest.mark.parametrize("suffix", ["srt", "vtt", "txt"])
def test_live_into_a_file(
    counting: CountingServer,
    recording: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    suffix: str,
) -> None:
    out = tmp_path / f"said.{suffix}"
    command = ["transcribe", "--live", "--server", counting.url, "--out", str(out), recording]
    assert cli.main(command) == 0
    text = " ".join(said(WORDS))
    assert capsys.readouterr().out == text + "\n"
    assert text in out.read_text().splitlines()


def test_where_a_live_turn_fails_subtitles_say_so_and_keep_what_was_there(
    counting: CountingServer,
    recording: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    counting.failing_turns = (0,)
    out = tmp_path / "said.srt"
    out.write_text("of yesterday")
    command = ["transcribe", "--live", "--server", counting.url, recording, "--format", "srt"]
    assert cli.main([*command, "--out", str(out)]) == 1
    assert "lookhear: a turn failed: out of memory\n" in capsys.readouterr().err
    assert out.read_text() == "of yesterday"


def test_a_server_that_is_not_there(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = server.free_port()
    command = ["transcribe", "--live", "--server", f"http://127.0.0.1:{port}", recording]
    assert cli.main(command) == 1
    assert f"cannot reach http://127.0.0.1:{port}: Connection refused\n" in capsys.readouterr().err


def test_no_server_and_none_installed(
    recording: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_choice, "is_running", lambda address: False)
    monkeypatch.setattr(server_choice, "server_installed", lambda: False)
    assert cli.main(["transcribe", recording]) == 2
    assert 'pip install "lookhear[server]"' in capsys.readouterr().err


def test_a_missing_key_says_where_it_goes(
    recording: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a server that has closed before anything could be asked."""
    closed = Close(3000, "invalid_request_error.invalid_api_key")

    def refuse(*_: object, **__: object) -> None:
        error = final_close(Server(), closed.code, closed.reason, None)
        assert error is not None
        raise error

    monkeypatch.setattr(LiveStream, "_connect", refuse)
    assert cli.main(["transcribe", "--live", "--server", "http://127.0.0.1:1", recording]) == 1
    assert capsys.readouterr().err == (
        "lookhear: expected an API key that the server knows, got none; "
        "it goes to --api-key or into LOOKHEAR_API_KEY\n"
    )


def test_no_command_shows_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    out = capsys.readouterr().out
    assert " transcribe files\n" in out and " start a server\n" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("lookhear ")


def with_command(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    points = EntryPoints([EntryPoint("serve", value, cli.COMMANDS)])
    monkeypatch.setattr(metadata, "entry_points", lambda group: points.select(group=group))


def test_a_command_of_the_server_gets_the_rest_of_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_command(monkeypatch, "tests.clients.commands.test_main:fake_serve")
    assert cli.main(["serve", "--port", "9"]) == 42


def fake_serve(argv: list[str]) -> int:
    assert argv == ["--port", "9"]
    return 42


def test_a_missing_server_package_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "half_installed.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with_command(monkeypatch, "half_installed:serve")
    assert cli.main(["serve"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and 'needs pip install "lookhear[server]"' in said


def test_a_taken_port_is_not_chosen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert server.free_port(port) != port
    assert server.free_port(port) == port


def test_where_no_temporary_file_can_be_made_there_is_no_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(LookhearError, match="no folder for temporary files: No such file"):
        server.ServerProcess()


def test_windows_has_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.server_installed()
    monkeypatch.setattr(sys, "platform", "win32")
    assert not server.server_installed()


def test_a_server_that_cannot_start_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    with pytest.raises(LookhearError, match=r"ended with status \d+"):
        server.ServerProcess().__enter__()


class Printing(server.ChildServer):
    def _answers(self) -> bool:
        return bool(self.log)


def test_what_a_server_prints_is_read_while_it_prints() -> None:
    script = "for number in range(100_000): print(number, flush=True)"
    with Printing("the child", [sys.executable, "-c", script], start_seconds=60.0) as child:
        for _ in range(100):
            assert child.log_tail(1)
        assert child.wait() == 0
        assert child.log.splitlines() == [str(number) for number in range(100_000)]


def test_the_progress_of_a_server_is_that_of_the_first_model_not_ready() -> None:
    def told(*models: tuple[str, str, str, float]) -> tuple[str, float | None]:
        keys = ("name", "state", "stage", "progress")
        listed = [dict(zip(keys, model, strict=True)) for model in models]
        return server.loading_stage(json.dumps({"status": "starting", "models": listed}).encode())

    a, loading = ("a", "ready", "", 1.0), ("b", "loading", "loading b", 0.5)
    assert told(loading) == told(a, loading) == ("loading b", 0.5)
    assert told(("b", "loading", "loading torch", 0.0)) == ("loading torch", None)
    assert told(a, ("b", "loading", "loading torch", 0.0)) == ("b: loading torch", None)
    nothing = ("starting the server", None)
    assert told(a) == told() == nothing
    for odd in (b"", b"[]", b'{"models": 3}', b'{"status": "starting"}'):
        assert server.loading_stage(odd) == nothing
