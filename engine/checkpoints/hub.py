"""Where a checkpoint's files are: packaged, in a folder, or on the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.loader import CheckpointError

PACKAGED = {"demo-whisper": "whisper", "demo-qwen3-asr": "qwen3_asr", "demo-qwen3-vl": "qwen3_vl"}
FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]  # never pickled weights
_REPO_ID = re.compile(r"[\w.-]+/[\w.-]+")

Progress = Callable[[str, float], None]  # a stage in words, the share of it that is done


def resolve_checkpoint(name_or_folder: str | Path, progress: Progress | None = None) -> Path:
    """The folder of a checkpoint, downloaded first if it is the repo id of one on the hub.

    name_or_folder: the name of a packaged checkpoint, a folder, or `owner/name`. progress hears a
    stage in words and the share of bytes done, 0 to 1; without it, a bar is drawn on a terminal.
    Raises `CheckpointError`.
    """
    name = str(name_or_folder)
    if name in PACKAGED:
        return _packaged(name)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not _REPO_ID.fullmatch(name) or folder.is_absolute():
        raise CheckpointError(
            f"model: expected {', '.join(PACKAGED)}, a folder, or a repo id like "
            f"openai/whisper-tiny, got {name!r}"
        )
    return _download(name, progress)


def _packaged(name: str) -> Path:
    """A folder of the distribution lookhear-demo, which is data alone."""
    spec = find_spec("lookhear_demo")
    if spec is None or spec.origin is None:
        raise CheckpointError(
            f"{name}: expected the packaged checkpoints, which `pip install lookhear-demo` brings; "
            "they are not installed"
        )
    return Path(spec.origin).parent / PACKAGED[name]


def _download(repo_id: str, progress: Progress | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    options: dict[str, Any] = {"allow_patterns": FILES}
    if progress is not None:
        options["tqdm_class"] = _reporting_bar(f"downloading {repo_id}", progress)
    try:
        return Path(snapshot_download(repo_id, **options))
    except (LocalEntryNotFoundError, ConnectionError) as error:
        raise CheckpointError(
            f"{repo_id}: not in the local cache and the hub cannot be reached ({_first(error)}); "
            "give a local folder, or connect once to download it"
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise CheckpointError(f"{repo_id}: cannot be downloaded: {_first(error)}") from error


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
