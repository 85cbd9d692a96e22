from __future__ import annotations

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from lookhear.engine.checkpoints import hub
from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert resolve_checkpoint(tmp_path) == tmp_path
    assert resolve_checkpoint(str(tmp_path)) == tmp_path


def test_the_packaged_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (resolve_checkpoint("demo-qwen3-asr") / "config.json").is_file()
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match="pip install lookhear-demo"):
        resolve_checkpoint("demo-whisper")


@pytest.mark.parametrize("name", ["whisper", "/no/such", "a/b/c", "./here/there"])
def test_neither_folder_nor_repo(name: str) -> None:
    with pytest.raises(CheckpointError, match="expected demo-whisper, .*, a folder, or a repo id"):
        resolve_checkpoint(name)


def test_download_reports_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    def snapshot(repo_id: str, *, allow_patterns: list[str], tqdm_class: Any = None) -> str:
        asked.update(repo_id=repo_id, allow_patterns=allow_patterns)
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
