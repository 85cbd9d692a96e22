"""The slim copy of the checkout, for bare machines with a GPU: whole enough, and small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import slim


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slim") / "copy"
    assert slim.copy(folder) < 42_000_000
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Of Python, with nothing of the checkout in reach."""
    path = os.pathsep.join(str(folder / name) for name in ("clients", "tools/demo"))
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


def test_what_is_left_out_is_large_or_of_no_use_there(copied: Path) -> None:
    assert not list(copied.rglob("*.opus")) and not list(copied.rglob("*.md"))
    assert not (copied / "docs").exists() and not (copied / "gateway").exists()
    assert len(list(copied.rglob("model.safetensors"))) == 3
    assert all(path.exists() for path in copied.rglob("*") if path.is_symlink())


def test_gpu_check_starts_from_it(copied: Path) -> None:
    said = run(copied, "benchmarks.gpu_check")
    assert said.returncode == 1, said.stderr
    assert said.stdout == "gpu-check: expected a CUDA device, torch sees none\n"
    dry = run(
        copied, "benchmarks.gpu_check", "--dry-run", "tests/gpu/test_choices.py::test_grammar"
    )
    assert dry.returncode == 0 and "1 passed, 0 failed" in dry.stdout, dry.stdout + dry.stderr


def test_every_test_of_the_device_finds_what_it_imports(copied: Path) -> None:
    found = run(
        copied, "pytest", "-c", "tests/gpu/pytest.ini", "-p", "no:cacheprovider", "-qq",
        "--collect-only", "tests/gpu",
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_documented_commands_start_from_it(copied: Path) -> None:
    page = (slim.ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    script = next(part for part in page.split("```sh\n") if "OUT=$PWD" in part).partition("```")[0]
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    said = subprocess.run(
        ["bash", "-c", script], cwd=copied, env={**os.environ, "PATH": places},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    lines = said.stdout.splitlines()
    assert len(lines) == script.count("python -m") == 7
    assert all(line.endswith("expected a CUDA device, torch sees none") for line in lines), lines


def test_nothing_is_overwritten(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert slim.main([str(copied)]) == 1
    assert "expected a new or empty folder" in capsys.readouterr().err
