"""Where checkpoints lie that were downloaded to this machine, by whom ever."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def our_cache() -> Path:
    """Ours in it."""
    return user_cache() / "lookhear"


def packages_cache() -> Path:
    """Of packages: a folder for each checkpoint, called `owner--name`."""
    return our_cache() / "packages"


def openai_cache() -> Path:
    """Of openai/whisper: a `.pt` for each size."""
    return user_cache() / "whisper"
