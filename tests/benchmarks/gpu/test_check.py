"""`gpu_check`: a line for every test as it ends, whatever the tests do to their processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_check

SUITE = """
import os, threading
import pytest

def test_passes(record_property):
    record_property("max_error", "1.5e-03")

def test_fails():
    assert 1 + 1 == 3

def test_hangs():
    threading.Event().wait()

def test_dies():
    os._exit(9)

@pytest.mark.skip(reason="not here")
def test_skips(): ...

@pytest.fixture
def broken():
    raise OSError("no such thing")

def test_has_a_broken_fixture(broken): ...

def test_comes_last(): ...
"""


def checked(tmp_path: Path, suite: str, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    (tmp_path / "test_suite.py").write_text(suite)
    output = tmp_path / "gpu-check.json"
    status = gpu_check.main(
        ["--dry-run", "--output", str(output), *options, str(tmp_path / "test_suite.py")]
    )
    lines = [json.loads(line) for line in output.with_suffix(".jsonl").read_text().splitlines()]
    whole = json.loads(output.read_text())
    assert lines[0]["device"] == whole["device"] and lines[1:] == whole["tests"]
    return status, {test["name"].partition("::")[2]: test for test in lines[1:]}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_every_test_has_its_outcome(
    workers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, tests = checked(tmp_path, SUITE, "-n", workers, "--test-seconds", "2")
    assert status == 1
    assert {name: test["outcome"] for name, test in tests.items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_hangs": "timeout",
        "test_dies": "died",
        "test_skips": "skipped",
        "test_has_a_broken_fixture": "failed",
        "test_comes_last": "passed",
    }
    assert tests["test_passes"]["properties"] == {"max_error": "1.5e-03"}
    assert "1 + 1" in tests["test_fails"]["message"]
    assert "no such thing" in tests["test_has_a_broken_fixture"]["message"]
    assert "not here" in tests["test_skips"]["message"] and "(9)" in tests["test_dies"]["message"]
    shown = capsys.readouterr().out
    assert "2 passed, 4 failed, 1 skipped" in shown and "TIMEOUT" in shown


def test_it_ends_in_time_and_names_what_it_left_out(tmp_path: Path) -> None:
    suite = "import threading\n\ndef test_hangs(): threading.Event().wait()\n\ndef test_b(): ...\n"
    status, tests = checked(tmp_path, suite, "--seconds", "20")
    assert (status, tests) == (124, {})
    whole = json.loads((tmp_path / "gpu-check.json").read_text())
    left_out = [name.partition("::")[2] for name in whole["left_out"]]
    assert left_out == ["test_hangs", "test_b"] and whole["seconds"] < 22


def test_a_file_that_cannot_be_collected_is_a_failure(tmp_path: Path) -> None:
    status, tests = checked(tmp_path, "import no_such_module\n")
    assert (status, tests) == (1, {})


def test_the_folder_in_OUT_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): ...\n")
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    assert gpu_check.main(["--dry-run", str(tmp_path / "test_one.py")]) == 0
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["gpu-check.json", "gpu-check.jsonl"]
