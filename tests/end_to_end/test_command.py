"""The commands as a person types them, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

from lookhear.commands.private_server import ServerProcess, free_port
from lookhear.wer import word_errors
from tests.end_to_end.conftest import Talk


@pytest.fixture
def recording(talks: dict[str, Talk], tmp_path: Path) -> Path:
    """The first utterance of the English talk, as `talk.flac` and `talk.json`."""
    talk = talks["en"]
    said = talk.utterances[0]
    soundfile.write(tmp_path / "talk.flac", talk.first, 24_000)
    words = [{"word": w.word, "start_s": 1 + w.start, "end_s": 1 + w.end} for w in said.words]
    (tmp_path / "talk.json").write_text(json.dumps({"text": said.text, "words": words}))
    return tmp_path / "talk.flac"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lookhear", *arguments], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("live", [[], ["--live"]], ids=["whole", "live"])
def test_transcribe(
    server: ServerProcess, talks: dict[str, Talk], recording: Path, live: list[str]
) -> None:
    done = run("transcribe", *live, "--server", server.address.base_url, str(recording))
    assert done.returncode == 0, done.stderr
    assert word_errors(talks["en"].utterances[0].text, done.stdout).rate <= 0.15, done.stdout
    assert "demo-whisper is a toy" in done.stderr and "toy" not in done.stdout


def test_subtitles(server: ServerProcess, recording: Path) -> None:
    done = run("transcribe", "--format", "srt", "--server", server.address.base_url, str(recording))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1\n00:00:0") and " --> " in done.stdout


def test_a_file_that_is_no_audio(server: ServerProcess, recording: Path) -> None:
    broken = recording.with_suffix(".wav")
    broken.write_bytes(b"RIFF, or so it says")
    for live in ([], ["--live"]):
        done = run("transcribe", *live, "--server", server.address.base_url, str(broken))
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.splitlines()[-1].startswith("lookhear: "), done.stderr
        assert "Traceback" not in done.stderr


def test_the_demo_starts_its_own_server_and_ends_it(recording: Path) -> None:
    port = free_port()
    done = run("demo", "--once", "--port", str(port), "--file", str(recording))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "word error rate" in done.stdout and "final text" in done.stdout
    assert "demo-whisper is a toy" in done.stdout and "synthesiser" not in done.stdout
    assert free_port(port) == port, "the server was left running"


def test_models_of_the_running_server(server: ServerProcess) -> None:
    done = run("models", "--server", server.address.base_url)
    assert done.returncode == 0 and "demo-whisper" in done.stdout
