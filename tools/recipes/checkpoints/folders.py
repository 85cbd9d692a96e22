"""Checkpoint folders that are written beside their place and then moved there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch


@contextmanager
def drafted(folder: Path) -> Iterator[Path]:
    """An empty folder to write into, whose files replace those of `folder` at the end; others that
    are there stay. A reader may meet old and new files for a moment, none half written."""
    draft = folder.with_name(folder.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    yield draft
    folder.mkdir(exist_ok=True)
    for path in sorted(draft.iterdir()):
        path.chmod(0o644)
        os.replace(path, folder / path.name)
    draft.rmdir()


def write_json(path: Path, value: object, indent: int | None = 2) -> None:
    """Writes UTF-8 with a newline at its end."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def model_weights(net: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Those of the model in float32, without what only training needs beside it."""
    return {
        name: weight.detach().float().contiguous()
        for name, weight in net.state_dict().items()
        if name.startswith("model.")
    }
