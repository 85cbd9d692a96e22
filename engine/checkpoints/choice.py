"""Which checkpoint is served where nobody names one: a real one if it can be had, else a toy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lookhear.engine.checkpoints.hub import (
    check_answers,
    in_cache,
    packaged_checkpoint,
    snapshot,
)
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.checkpoints.packages import Progress, download, downloaded
from lookhear.engine.checkpoints.views import as_huggingface
from lookhear.engine.config import DEFAULT_REAL, DEFAULT_TOY

# Who waits for the first text would rather have a toy than wait longer for a network that says
# nothing. pip takes some seconds to begin.
HUB_SECONDS = 3.0
PACKAGE_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Choice:
    """name: of the checkpoint, as `--model` takes it. reason: for people, in words."""

    name: str
    folder: Path
    reason: str


def choose_checkpoint(progress: Progress) -> Choice:
    """The real one from a cache, without the network; else from the hub or the package index; else
    the toy, with the reasons why not. Raises `CheckpointError` if there is no toy either."""
    sources: list[tuple[str, Callable[[], Path | None]]] = [
        ("from the Hugging Face cache of this machine", lambda: in_cache(DEFAULT_REAL)),
        ("from the Python package index, downloaded before", lambda: downloaded(DEFAULT_REAL)),
        ("from the Hugging Face hub", lambda: _of_hub(progress)),
        ("from the Python package index", lambda: _of_package(progress)),
    ]
    failures = []
    for source, get in sources:
        try:
            if (folder := get()) is not None:
                return Choice(DEFAULT_REAL, as_huggingface(folder, progress), source)
        except CheckpointError as error:
            failures.append(str(error))
    reason = f"{DEFAULT_REAL} cannot be had: {'; '.join(failures)}"
    try:
        return Choice(DEFAULT_TOY, packaged_checkpoint(DEFAULT_TOY), reason)
    except CheckpointError as error:
        raise CheckpointError(f"{reason}; {error}") from error


def _of_hub(progress: Progress) -> Path:
    progress("asking the Hugging Face hub", 0.0)
    check_answers(DEFAULT_REAL, HUB_SECONDS)
    return snapshot(DEFAULT_REAL, progress)


def _of_package(progress: Progress) -> Path:
    progress("asking the Python package index", 0.0)
    return download(DEFAULT_REAL, progress, patience=PACKAGE_SECONDS)
