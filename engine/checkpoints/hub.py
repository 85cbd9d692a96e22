"""Where a checkpoint's files are: packaged, in a folder, on the Hugging Face hub, in a package."""

from __future__ import annotations

import logging
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.loader import CheckpointError, has_safetensors
from lookhear.engine.checkpoints.packages import Progress, download, downloaded, has_package
from lookhear.engine.checkpoints.torch_file import FILE as TORCH_FILE
from lookhear.engine.checkpoints.views import as_huggingface

PACKAGED = {
    "demo-whisper": "whisper",
    "demo-qwen3-asr": "qwen3_asr",
    "demo-qwen3-vl": "qwen3_vl",
    "demo-qwen3-aligner": "qwen3_aligner",
}
# CTranslate2's model.bin is read by a parser of ours. Pickled weights are not downloaded, but those
# of a draft head that has no others, which torch reads without executing anything. Of several
# precisions of one checkpoint only that which bears no name is; nor are the same weights once more,
# as Mistral keeps them for its own programs.
FILES = ["*.json", "*.safetensors", "model.bin", "*.txt", "*.model", "*.jinja"]
COPIES = ["*.fp32*", "*.fp16*", "*.bf16*", "consolidated*"]
_REPO_ID = re.compile(r"\w([\w.-]*\w)?/\w([\w.-]*\w)?")  # neither begins nor ends with - or .


def resolve_checkpoint(
    name_or_folder: str | Path, progress: Progress | None = None, *, reads_torch: bool = False
) -> Path:
    """The Hugging Face folder of a checkpoint, or a view of it (see `views`); downloaded first if
    it is the repo id of one on the hub, or of one that a package has.

    name_or_folder: the name of a packaged checkpoint, a folder of Hugging Face's or CTranslate2's,
    a `.pt` of openai/whisper, or `owner/name`. progress hears a stage in words and the share of
    bytes done, 0 to 1; without it, a bar is drawn on a terminal. reads_torch: whether
    `pytorch_model.bin` will do where the hub has no safetensors. Raises `CheckpointError`.
    """
    name = str(name_or_folder)
    if name in PACKAGED:
        return packaged_checkpoint(name)
    path = Path(name).expanduser()
    try:
        is_file = path.is_file()
        is_there = path.is_dir() or (is_file and path.suffix == ".pt")
    except OSError as error:  # a folder that one may not enter, a name that is too long
        raise CheckpointError(f"model: cannot read {name!r}: {error.strerror}") from error
    if is_there:
        return as_huggingface(path, progress or _unheard)
    if is_file or not _REPO_ID.fullmatch(name) or path.is_absolute():
        is_absent = name[:1] in ("/", ".", "~") and not path.exists()
        other = ", which is a file of another kind" if is_file else ""
        absent = ", which is not there" if is_absent else other
        raise CheckpointError(
            f"model: expected {', '.join(PACKAGED)}, a folder, a .pt of openai/whisper, or a repo "
            f"id like openai/whisper-tiny, got {name!r}{absent}"
        )
    folder = _of_repo(name, progress)
    if reads_torch and not has_safetensors(folder) and not (folder / "model.bin").is_file():
        folder = snapshot(name, progress, beside=(TORCH_FILE,))
    return as_huggingface(folder, progress or _unheard)


def _unheard(stage: str, share: float) -> None:
    """Nobody asked for progress."""


def _of_repo(repo_id: str, progress: Progress | None) -> Path:
    before = downloaded(repo_id)
    if before is not None and in_cache(repo_id) is None:
        return before
    try:
        return snapshot(repo_id, progress)
    except CheckpointError as error:
        if not has_package(repo_id):
            raise
        try:
            return download(repo_id, progress or _unheard)
        except CheckpointError as second:
            raise CheckpointError(f"{error}; {second}") from second


def packaged_checkpoint(name: str) -> Path:
    """A folder of the distribution lookhear-demo, which is data alone. Raises `CheckpointError`."""
    spec = find_spec("lookhear_demo")
    if spec is None or spec.origin is None:
        raise CheckpointError(
            f"{name}: expected the packaged checkpoints, which `pip install lookhear-demo` brings; "
            "they are not installed"
        )
    return Path(spec.origin).parent / PACKAGED[name]


def in_cache(repo_id: str) -> Path | None:
    """What the hub's cache on this machine holds of it, weights and all; None: not that."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(
            snapshot_download(
                repo_id,
                local_files_only=True,
                allow_patterns=FILES,
                ignore_patterns=COPIES,
            )
        )
    except (OSError, ValueError):  # both kinds are of the library's errors
        return None
    return folder if has_safetensors(folder) or (folder / "model.bin").is_file() else None


def snapshot(
    repo_id: str, progress: Progress | None = None, *, beside: tuple[str, ...] = ()
) -> Path:
    """Of the hub, as it is now if it can be reached; else of its cache. beside: files that are
    wanted, too. Raises `CheckpointError`."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    _log_once()
    options: dict[str, Any] = {"allow_patterns": [*FILES, *beside], "ignore_patterns": COPIES}
    if progress is not None:
        options["tqdm_class"] = _reporting_bar(f"downloading {repo_id}", progress)
    try:
        return Path(snapshot_download(repo_id, **options))
    except (LocalEntryNotFoundError, ConnectionError) as error:
        raise CheckpointError(
            f"{repo_id}: not in the local cache and the hub cannot be reached ({_first(error)}); "
            "give a local folder, or connect once to download it"
        ) from error
    except Exception as error:  # also those of the library's own library, which are of no one kind
        raise CheckpointError(f"{repo_id}: cannot be downloaded: {_first(error)}") from error


def check_answers(repo_id: str, seconds: float) -> None:
    """Ask the hub about a repo; raises `CheckpointError` if it has it not, or says nothing for so
    long."""
    from huggingface_hub import HfApi, constants

    _log_once()
    if constants.HF_HUB_OFFLINE:
        raise CheckpointError(f"{repo_id}: not asked for on the hub, HF_HUB_OFFLINE is set")
    try:
        HfApi().model_info(repo_id, timeout=seconds)
    except Exception as error:  # as above
        raise CheckpointError(
            f"{repo_id}: not in the local cache and the hub cannot be reached ({_first(error)})"
        ) from error


def _log_once() -> None:
    """The library prints its records by a handler of its own; ours has them, too."""
    logging.getLogger("huggingface_hub").handlers.clear()


def _first(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _reporting_bar(stage: str, progress: Progress) -> type[Any]:
    """A tqdm class that draws nothing and reports its bytes."""
    from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)  # an argument of the hub's own bars
            kwargs["disable"] = False  # a disabled bar counts nothing
            super().__init__(*args, **kwargs)

        def display(self, *args: Any, **kwargs: Any) -> bool:
            if self.unit == "B" and self.total:
                progress(stage, min(1.0, self.n / self.total))
            return True

    return Bar
