"""Which models can be served here: packaged and downloaded ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

# `model_type` of the checkpoints that the engine runs, and what people call them.
SUPPORTED = {
    "whisper": "Whisper",
    "qwen3": "Qwen3",
    "qwen3_asr": "Qwen3-ASR",
    "qwen3_vl": "Qwen3-VL",
}


class Row(NamedTuple):
    """A checkpoint in words. where: packaged or downloaded."""

    name: str
    kind: str
    size: str
    where: str


def packaged_folder() -> Path | None:
    """Where the packaged checkpoints and recordings lie; None without lookhear-demo."""
    spec = find_spec("lookhear_demo")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def packaged() -> list[Row]:
    """The demo checkpoints, demo-whisper first."""
    folder = packaged_folder()
    if folder is None or not folder.is_dir():
        return []
    rows = []
    for path in sorted(folder.glob("*/config.json"), reverse=True):
        name = f"demo-{path.parent.name.replace('_', '-')}"  # like demo-qwen3-asr
        rows.append(Row(name, _model_type(path), _size(path.parent), "packaged"))
    return rows


def downloaded() -> list[Row]:
    """What the Hugging Face cache of this machine holds that we can run."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return []
    rows = []
    for repo in sorted(cache.repos, key=lambda repo: repo.repo_id):
        kinds = {_model_type(path) for path in _configs(repo)}
        for kind in sorted(kind for kind in kinds if kind in SUPPORTED):
            rows.append(Row(repo.repo_id, kind, repo.size_on_disk_str, "downloaded"))
    return rows


def _configs(repo: Any) -> Iterator[Path]:
    for revision in repo.revisions:
        for file in revision.files:
            if file.file_name == "config.json":
                yield file.file_path


def similar(model: str) -> str | None:
    """Find the packaged or downloaded model that an unknown name was probably to be."""
    if Path(model).is_dir():
        return None
    names = [row.name for row in (*packaged(), *downloaded())]
    found = [] if model in names else get_close_matches(model, names, n=1)
    return found[0] if found else None


def _model_type(config: Path) -> str:
    """ "?" if the file does not say."""
    try:
        return str(json.loads(config.read_text())["model_type"])
    except (OSError, ValueError, KeyError, TypeError):
        return "?"


def _size(folder: Path) -> str:
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{total / 1e6:.0f} MB"
