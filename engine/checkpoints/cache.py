"""The user's cache folder: what was downloaded or made once, whole or not there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock


@contextmanager
def filling(target: Path) -> Iterator[Path | None]:
    """An empty folder to fill, which takes the place of `target` if the block ends well, and is
    gone if not. None: target is there already.

    Who fills the same one meanwhile is waited for; what somebody who was killed left behind is
    cleared away. Raises OSError.
    """
    if target.is_dir():
        yield None
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.draft")
    with FileLock(target.with_name(f".{target.name}.lock")):
        if target.is_dir():
            yield None
            return
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            yield draft
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
