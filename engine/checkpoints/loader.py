"""Reading a checkpoint folder: its JSON files and its safetensors weights, each mistake named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


class CheckpointError(Exception):
    """A checkpoint cannot be served; says which file or tensor, what was expected, what came."""

    @classmethod
    def of(cls, source: Path, key: str, expected: str, got: object) -> CheckpointError:
        """About a value of a JSON file or folder."""
        return cls(f"{source}: {key}: expected {expected}, got {got!r}")


def read_json(path: Path, *, required: bool = True) -> dict[str, Any]:
    """The object in a JSON file; {} if it may be absent and is."""
    if not path.is_file():
        if not required:
            return {}
        raise CheckpointError(f"{path.parent}: expected a file {path.name}, found none")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: expected JSON, got {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def section(config: Mapping[str, Any], key: str, source: Path) -> dict[str, Any]:
    """An object inside a parsed config; `source` is named in errors."""
    value = config.get(key)
    if not isinstance(value, dict):
        raise CheckpointError.of(source, key, "an object", value)
    return value


def whole_number(config: Mapping[str, Any], source: Path, key: str, *aliases: str) -> int:
    """A number >= 1 of a parsed config, under the first of its names that is there."""
    names = (key, *aliases)
    value = next((config[name] for name in names if name in config), None)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError.of(source, key, "a whole number >= 1", value)
    return value


class Loading(TypedDict, total=False):
    """dtype: float32 by default. device: the CPU by default. progress hears the share of the
    tensors taken so far, 0 to 1."""

    dtype: torch.dtype
    device: torch.device | str
    progress: Callable[[float], None] | None


class CheckpointReader:
    """The weights of a folder, one file or sharded, each taken once by name."""

    def __init__(self, folder: Path, **loading: Unpack[Loading]) -> None:
        self._dtype = loading.get("dtype", torch.float32)
        self._device = loading.get("device", "cpu")
        self._progress = loading.get("progress")
        self._file_of = _tensor_files(folder)
        self._open: dict[Path, Any] = {}
        self._taken: set[str] = set()
        self._folder = folder

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor in the reader's dtype on its device, checked for its shape and for NaN."""
        path = self._file_of.get(name)
        if path is None:
            raise CheckpointError(
                f"{self._folder}: expected a tensor {name} of shape {list(shape)}, found none "
                f"among {len(self._file_of)} tensors"
            )
        try:
            if path not in self._open:
                self._open[path] = safe_open(path, framework="pt", device="cpu")
            tensor: Tensor = self._open[path].get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path}: tensor {name} cannot be read: {error}") from error
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"{path}: tensor {name}: expected shape {list(shape)}, got {list(tensor.shape)}"
            )
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"{path}: tensor {name}: expected floating-point numbers, got {tensor.dtype}"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(f"{path}: tensor {name}: expected finite numbers, got NaN or inf")
        self._taken.add(name)
        if self._progress is not None:
            self._progress(len(self._taken) / len(self._file_of))
        return tensor.to(device=self._device, dtype=self._dtype)

    def finish(self, ignore: Iterable[str] = ()) -> None:
        """Raises if the checkpoint holds tensors that nobody took: it is not the model we think."""
        self._open.clear()
        extra = sorted(self._file_of.keys() - self._taken - set(ignore))
        if extra:
            shown = ", ".join(extra[:5]) + (", ..." if len(extra) > 5 else "")
            path = self._file_of[extra[0]]
            raise CheckpointError(f"{path}: {len(extra)} unexpected tensors: {shown}")


def _tensor_files(folder: Path) -> dict[str, Path]:
    """Which file holds each tensor."""
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if single.is_file():
        return dict.fromkeys(_names(single), single)
    if index.is_file():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict):
            raise CheckpointError(f"{index}: expected an object weight_map, got {weight_map!r}")
        files = {name: folder / str(file) for name, file in weight_map.items()}
        held = {path: _names(path) for path in set(files.values())}
        for name, path in files.items():
            if name not in held[path]:
                raise CheckpointError(f"{path}: expected a tensor {name}, as {index.name} says")
        return files
    there = sorted(path.name for path in folder.glob("*")) if folder.is_dir() else []
    raise CheckpointError(
        f"{folder}: expected {SINGLE_FILE} or {INDEX_FILE}, found {', '.join(there) or 'nothing'}"
    )


def _names(path: Path) -> set[str]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return set(file.keys())
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: expected a safetensors file, got {error}") from error
