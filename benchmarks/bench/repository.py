"""What is measured only in a checkout of the repository: other people's engines and servers."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from lookhear.errors import NotInstalled

ROOT = Path(__file__).resolve().parents[2]  # of the repository, where this file lies in one


def from_repository(module: str, wanted_by: str) -> ModuleType:
    """A module of benchmarks/ that no wheel has. wanted_by: what the user asked for.

    NotInstalled without the repository, or without a package that only these need.
    """
    if not (ROOT / "benchmarks" / "peers").is_dir():
        raise NotInstalled(
            f"{wanted_by} needs the repository (benchmarks/peers is not in the package): "
            "run it from a checkout, after make .venv/.bench"
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # before a folder `benchmarks` of the user's
    try:
        return importlib.import_module(f"benchmarks.{module}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("benchmarks", "lookhear"):
            raise  # our own code is broken: that is not the user's to install
        raise NotInstalled(
            f"{wanted_by} needs pip install -e '.[peers]' ({error.name} is missing)"
        ) from None
