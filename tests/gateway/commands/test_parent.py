"""What `lookhear serve --workers N` needs of the machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

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


@pytest.mark.parametrize(
    ("memory", "disk", "chosen"),
    [(10, 10, "memory"), (0.4, 10, "disk"), (0.4, 0.4, "memory"), (10, 0, "memory")],
)
def test_workers_share_a_folder_where_there_is_room(
    memory: float, disk: float, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """memory, disk: megabytes that are free."""
    free = {str(tmp_path / "memory"): memory, str(tmp_path / "disk"): disk}
    for folder in free:
        Path(folder).mkdir()
    monkeypatch.setattr(parent, "MEMORY", str(tmp_path / "memory"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "disk"))
    monkeypatch.setattr(
        shutil, "disk_usage", lambda folder: SimpleNamespace(free=free[folder] * 1e6)
    )
    with parent._shared_folder(2) as made:
        assert Path(made).parent == tmp_path / chosen
        assert len([*tmp_path.glob("*/*")]) == 1, "there is no other"
