"""`lookhear listen`: a microphone (a false one), pipes, files, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lookhear.commands import main as cli
from lookhear.terminal import subtitles
from lookhear.terminal.status_line import StatusLine
from tests.clients.counting_server import CountingServer, Drop, said, speech
from tests.clients.threads import on_thread

WORDS = [101, 102]
PCM = speech(WORDS, gap_ms=300)


@pytest.fixture
def counting() -> Iterator[CountingServer]:
    counting = CountingServer()
    with on_thread(counting.running()):
        yield counting


class FalseDevice:
    """sounddevice with one microphone, into which `PCM` is spoken before Ctrl-C is pressed."""

    PortAudioError = RuntimeError
    rates = (24_000,)

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.default = type("Default", (), {"device": (1, 0)})

    def query_devices(self, device: object = None, kind: object = None) -> Any:
        found = [
            {"name": "Loudspeaker", "max_input_channels": 0},
            {"name": "Webcam", "max_input_channels": 1, "default_samplerate": 48_000.0},
        ]
        if kind is None:
            return found
        if device not in (None, 1, "Webcam"):
            raise ValueError(f"No input device matching {device!r}")
        return found[1]

    def RawInputStream(self, **options: Any) -> FalseDevice:
        if options["samplerate"] not in self.rates:
            raise RuntimeError("Error opening RawInputStream: Invalid sample rate")
        self.options = options
        return self

    def start(self) -> None:
        size = 2 * self.options["blocksize"]
        for first in range(0, len(PCM), size):
            self.options["callback"](PCM[first : first + size], 480, None, None)
        signal.raise_signal(signal.SIGINT)

    def close(self) -> None:
        pass


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FalseDevice:
    device = FalseDevice()
    monkeypatch.setitem(sys.modules, "sounddevice", device)
    return device


def test_the_microphone_until_ctrl_c(
    counting: CountingServer, device: FalseDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["listen", "--server", counting.url, "--device", "1"]) == 0
    assert capsys.readouterr().out == " ".join(said(WORDS)) + "\n"
    assert device.options["device"] == 1 and device.options["samplerate"] == 24_000


def test_a_microphone_that_has_only_another_rate(
    counting: CountingServer, device: FalseDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    device.rates = (48_000,)
    assert cli.main(["listen", "--server", counting.url]) == 0
    assert device.options["samplerate"] == 48_000 and capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--device", "9"], ["--list-devices"]])
def test_what_is_said_without_a_microphone(
    options: list[str],
    device: FalseDevice,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def nothing(named: object = None, kind: object = None) -> Any:
        if kind is None:
            return []
        raise RuntimeError("Error querying device -1")

    monkeypatch.setattr(device, "query_devices", nothing)
    assert cli.main(["listen", *options]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "plug one in" in said and "listen -" in said


def test_the_wrong_microphone_names_the_right_ones(
    device: FalseDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["listen", "--device", "Headset"]) == 1
    said = capsys.readouterr().err
    assert said == "lookhear: no microphone 'Headset'; there are 1 (Webcam)\n"
    assert cli.main(["listen", "--list-devices"]) == 0
    assert capsys.readouterr().out == "*   1  Webcam\n"


def test_without_sounddevice_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert cli.main(["listen"]) == 2
    expected = 'lookhear: the microphone needs `pip install "lookhear[microphone]"`\n'
    assert capsys.readouterr().err == expected


@contextmanager
def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> Iterator[None]:
    """Standard input is a pipe that somebody writes this into."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with os.fdopen(reading, "rb") as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            yield
    finally:
        writer.join()


def wav(path: Path) -> bytes:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24_000)
        file.writeframes(PCM)
    return path.read_bytes()


@pytest.mark.parametrize("form", ["wav", "pcm"])
@pytest.mark.parametrize("dash", ["-", "--stdin"])
def test_a_pipe(
    counting: CountingServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    form: str,
    dash: str,
) -> None:
    data = PCM if form == "pcm" else wav(tmp_path / "talk.wav")
    out = tmp_path / "talk.srt"
    with piped(monkeypatch, data):
        command = ["listen", dash, "--server", counting.url, "--language", "en"]
        assert cli.main([*command, "--prompt", "numbers", "--out", str(out)]) == 0
    assert capsys.readouterr().out == " ".join(said(WORDS)) + "\n"
    assert out.read_text().splitlines()[2] == " ".join(said(WORDS))
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.name != "talk.wav") == [".srt"]
    transcription = counting.updates[0]["audio"]["input"]["transcription"]
    assert transcription == {"language": "en", "prompt": "numbers"}


def test_a_file_as_standard_input(
    counting: CountingServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    wav(tmp_path / "talk.wav")
    with (tmp_path / "talk.wav").open("rb") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert cli.main(["listen", "-", "--server", counting.url, "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[0]["event"] == "SessionReady"
    assert events[-1]["text"] == " ".join(said(WORDS))


def test_the_server_comes_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counting = CountingServer(drops=[Drop(after_events=4)])
    with on_thread(counting.running()), piped(monkeypatch, PCM):
        assert cli.main(["listen", "-", "--server", counting.url]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[-1] == " ".join(said(WORDS)) and counting.connections == 2


def test_ctrl_c_ends_a_pipe_that_does_not(
    counting: CountingServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.write(writing, PCM)
    seen = StatusLine.take
    keys = iter([signal.SIGINT])  # once: a second Ctrl-C would end the program

    def take(self: Any, event: Any) -> None:
        seen(self, event)
        if type(event).__name__ == "TextDelta" and self.meter.seconds == len(PCM) / 48_000:
            for key in keys:
                signal.raise_signal(key)

    monkeypatch.setattr(StatusLine, "take", take)
    with os.fdopen(reading, "rb") as stdin, os.fdopen(writing, "wb"):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert cli.main(["listen", "-", "--server", counting.url]) == 0
    assert capsys.readouterr().out == " ".join(said(WORDS)) + "\n"


def test_ctrl_c_ends_the_waiting_for_somebody_who_reads_the_text(
    counting: CountingServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wait_for_a_reader(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    os.mkfifo(tmp_path / "talk.srt")
    monkeypatch.setattr(subtitles, "write_file", wait_for_a_reader)
    with piped(monkeypatch, PCM):
        command = ["listen", "-", "--server", counting.url]
        assert cli.main([*command, "--out", f"{tmp_path}/talk.srt"]) == 130


class Typed:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["-"], 2, "expected sound through a pipe, as `ffmpeg"),
        (["--rate", "0"], 2, "--rate: expected 4000 to 384000 Hz, got 0"),
        (["--out", "talk.doc"], 2, ".srt, .vtt or .txt, got talk.doc"),
        (["--out", "/no/such/folder/talk.srt"], 1, "cannot write /no/such/folder/talk.srt"),
    ],
)
def test_wrong_usage(
    device: FalseDevice,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    status: int,
    words: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", Typed())
    assert cli.main(["listen", *options]) == status
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and words in said


@pytest.mark.parametrize(
    ("begins", "kind"), [(b"OggS", "ogg"), (b"FORM", "aiff"), (b".snd", "basic"), (b"#!AMR", "amr")]
)
def test_a_pipe_with_something_else(
    counting: CountingServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    begins: bytes,
    kind: str,
) -> None:
    with piped(monkeypatch, begins + bytes(100)):
        assert cli.main(["listen", "-", "--server", counting.url]) == 1
    assert f"expected WAV or bare 16-bit PCM, got audio/{kind}" in capsys.readouterr().err


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_turn_that_fails_is_no_success(
    counting: CountingServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: list[str],
) -> None:
    counting.failing_turns = (0,)
    with piped(monkeypatch, PCM):
        assert cli.main(["listen", "-", "--server", counting.url, *form]) == 1
    told = capsys.readouterr()
    assert "out of memory" in told.out
    assert ("lookhear: a turn failed: out of memory\n" in told.err) == bool(form)


def test_a_pipe_with_nothing(
    counting: CountingServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What should have written into it has failed."""
    with piped(monkeypatch, b""):
        assert cli.main(["listen", "-", "--server", counting.url]) == 1
    assert capsys.readouterr().err == "lookhear: stdin: expected sound, got nothing\n"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_disk_is_one_line(
    counting: CountingServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: list[str],
) -> None:
    with piped(monkeypatch, PCM), open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["listen", "-", "--server", counting.url, *form]) == 1
    assert capsys.readouterr().err == (
        "lookhear: cannot write the output: No space left on device\n"
    )
