"""Files of `torch.save`: numbers, text and tensors are read from them, and nothing is executed."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FILE = "pytorch_model.bin"  # Hugging Face's, before there was safetensors


def load_file(path: Path) -> dict[str, Any]:
    """The dictionary in a file, read where it lies if it is of the format that can be mapped into
    memory. Raises ValueError, saying what was expected, for one that is damaged or holds anything
    but numbers, text and tensors; OSError if it cannot be opened."""
    try:
        held = torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path) or None
        )
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path}: expected numbers and tensors alone, got a file that is damaged or holds "
            "other objects, which are not loaded"
        ) from error
    except (RuntimeError, EOFError, UnicodeDecodeError, LookupError) as error:
        raise ValueError(f"{path}: expected a file of torch.save, got {error}") from error
    if not isinstance(held, dict):
        raise ValueError(f"{path}: expected a dictionary, got {type(held).__name__}")
    return held


class TorchFile:
    """A dictionary of tensors. Raises as `load_file`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        held = load_file(path)
        other = [str(name) for name, tensor in held.items() if not isinstance(tensor, Tensor)]
        if other or not held:
            got = ", ".join(other[:3]) or "nothing"
            raise ValueError(f"{path}: expected tensors by name alone, got {got}")
        self._tensors: dict[str, Tensor] = {str(name): tensor for name, tensor in held.items()}

    @property
    def names(self) -> Collection[str]:
        """Of all tensors."""
        return self._tensors.keys()

    def path_of(self, name: str) -> Path:
        """The file."""
        return self._path

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor."""
        return tuple(self._tensors[name].shape)

    def read(self, name: str) -> Tensor:
        """A tensor as it is stored."""
        return self._tensors[name]
