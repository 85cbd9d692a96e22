"""Which models can be served here: packaged and downloaded ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from lookhear.engine.config.caches import openai_cache, packages_cache
from lookhear.engine.config.quantisation import refusal

# `model_type` of the checkpoints that the engine runs, and what people call them.
SUPPORTED = {
    "whisper": "Whisper",
    "qwen3": "Qwen3",
    "qwen3_asr": "Qwen3-ASR",
    "qwen3_vl": "Qwen3-VL",
    "qwen3_moe": "Qwen3-MoE",
    "qwen3_vl_moe": "Qwen3-VL-MoE",
    "qwen3_omni_moe": "Qwen3-Omni",
    "qwen3_omni_moe_thinker": "Qwen3-Omni",
    "smolvlm": "SmolVLM",
    "idefics3": "SmolVLM",
    "moonshine": "Moonshine",
    "moonshine_streaming": "Moonshine-Streaming",
    "nemotron3_diarization": "Nemotron-3-Diarization",
    "nemotron_asr_streaming": "Nemotron-ASR",
    "nemotron3_5_asr": "Nemotron-ASR",
    "voxtral": "Voxtral",
    "voxtral_realtime": "Voxtral-Realtime",
    "parakeet_tdt": "Parakeet",
    "parakeet_rnnt": "Parakeet",
    "parakeet_ctc": "Parakeet",
}
# Behind the `model_type` of what is given to --aligner, beside a Qwen3-ASR.
ALIGNER = ", --aligner"


class Row(NamedTuple):
    """A checkpoint in words. name: as `--model` takes it. where: packaged, or how downloaded."""

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
        rows.append(Row(name, _kind(path), _size(path.parent), "packaged"))
    return rows


def downloaded() -> list[Row]:
    """What the caches of this machine hold that we can run: the hub's, in Hugging Face's format and
    in CTranslate2's; what came from the package index; what openai/whisper keeps."""
    of_hub = _of_hub()
    names = {row.name for row in of_hub}
    return [*of_hub, *(row for row in _of_packages() if row.name not in names), *_of_openai()]


def _of_packages() -> list[Row]:
    folders = (path.parent for path in sorted(packages_cache().glob("[!.]*/model.bin")))
    return [
        Row(folder.name.replace("--", "/"), "whisper", _size(folder), "downloaded, package index")
        for folder in folders
    ]


def _of_openai() -> list[Row]:
    return [
        Row(
            str(path),
            "whisper",
            f"{path.stat().st_size / 1e6:.0f} MB",
            "downloaded, openai/whisper",
        )
        for path in sorted(openai_cache().glob("*.pt"))
    ]


def _of_hub() -> list[Row]:
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except CacheNotFound:
        return []
    rows = []
    for repo in sorted(cache.repos, key=lambda repo: repo.repo_id):
        kinds = {(_kind(path), _stored(path)) for path in _files(repo, "config.json")}
        for kind, stored in sorted(kinds):
            if kind.removesuffix(ALIGNER) in SUPPORTED:
                where = f"downloaded{stored}"
                rows.append(Row(repo.repo_id, kind, repo.size_on_disk_str, where))
        if any(_is_ct2_whisper(path) for path in _files(repo, "model.bin")):
            rows.append(
                Row(repo.repo_id, "whisper", repo.size_on_disk_str, "downloaded, CTranslate2")
            )
    return rows


def _files(repo: Any, name: str) -> Iterator[Path]:
    for revision in repo.revisions:
        for file in revision.files:
            if file.file_name == name:
                yield file.file_path


def _is_ct2_whisper(path: Path) -> bool:
    """By the name of the kind, which follows the version and its own length (`engine.checkpoints.
    ctranslate2` reads the rest)."""
    try:
        with path.open("rb") as file:
            return file.read(18)[6:] == b"WhisperSpec\0"
    except OSError:
        return False


def similar(model: str) -> str | None:
    """Find the packaged or downloaded model that an unknown name was probably to be."""
    if os.path.isdir(model):
        return None
    names = [row.name for row in (*packaged(), *downloaded())]
    found = [] if model in names else get_close_matches(model, names, n=1)
    return found[0] if found else None


def _kind(config: Path) -> str:
    """`model_type`, and whether it is an aligner; "?" if the file does not say."""
    try:
        said = json.loads(config.read_text())
        kind = str(said["model_type"])
    except (OSError, ValueError, KeyError, TypeError):
        return "?"
    thinker = said.get("thinker_config")
    is_aligner = said.get("architectures") == ["Qwen3ASRForTokenClassification"]
    if isinstance(thinker, dict) and thinker.get("classify_num") is not None:
        is_aligner = True  # in its original form it names the architecture of Qwen3-ASR
    return kind + ALIGNER if is_aligner else kind


def _stored(config: Path) -> str:
    """In what its weights are stored, where these are fewer bits, and whether that can be read."""
    try:
        said = json.loads(config.read_text())
        method = str(said["quantization_config"]["quant_method"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f", {method}" if refusal(said) is None else f", {method}: cannot be read"


def _size(folder: Path) -> str:
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{total / 1e6:.0f} MB"
