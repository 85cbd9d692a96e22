"""What `lookhear serve --workers N` needs of the machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from lookhear.gateway.commands import command, parent

WORKERS = ["--port", "0", "--workers", "2"]


@pytest.fixture(autouse=True)
def _no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "MEMORY", "/nowhere")


@pytest.mark.parametrize("name", ["missing", pytest.param("x" * 100, id="long")])
def test_no_folder_to_share_is_one_line(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """There is none, or a socket in it would have too long a name."""
    folder = tmp_path / name
    if name != "missing":
        folder.mkdir()
    with monkeypatch.context() as changed:
        changed.setattr(tempfile, "tempdir", str(folder))
        assert command.serve(WORKERS) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("lookhear serve: workers: there is no folder that they could share: ")
    assert not folder.exists() or not os.listdir(folder), "nothing is left there"
