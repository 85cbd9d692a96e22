"""The report for issues: what is here, what is not, and no secrets."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import lookhear
from lookhear.commands import machine, main
from lookhear.commands.environment import PACKAGES, report


def rows(**environ: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in report(environ))


def test_it_says_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["env"]) == 0
    told = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert told["lookhear"] == lookhear.__version__
    assert told["python"].startswith(platform.python_version())
    assert told["torch"] == metadata.version("torch")
    assert told["memory"].endswith(" GiB") and "cores" in told["processor"]
    assert "demo-whisper (packaged)" in told["models"]
    assert told["LOOKHEAR_MODEL"] == "demo-whisper"  # of the tests
    assert told.keys() >= set(PACKAGES)


def test_no_secret_is_in_it() -> None:
    told = rows(
        LOOKHEAR_API_KEY="sk-secret", HF_TOKEN="hf-secret", LOOKHEAR_PORT="9", PASSWORD="secret",
        LOOKHEAR_SERVER="https://me:secret@example.org/v1",
        HF_HOME=str(Path.home() / "models"), HOME="elsewhere",
    )  # fmt: skip
    assert "secret" not in "".join(told.values())
    assert told["LOOKHEAR_API_KEY"] == told["HF_TOKEN"] == "set, not shown"
    assert told["LOOKHEAR_PORT"] == "9" and "HOME" not in told and "PASSWORD" not in told
    assert told["LOOKHEAR_SERVER"] == "https://***@example.org/v1"
    assert told["HF_HOME"] == "~/models"


def test_the_light_client_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: metadata.EntryPoints())
    monkeypatch.setattr(machine, "version", lambda name: None)
    told = rows()
    assert told["torch"] == told["uvicorn"] == "not installed"
    assert "lookhear[server]" in told["models"]


def test_it_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom lookhear.commands.environment import _machine, _packages\n"
        "list(_machine()), list(_packages())\n"
        "print({'torch', 'transformers', 'starlette'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
