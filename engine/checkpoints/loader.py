"""Reading a checkpoint folder: its JSON files and its weights, each mistake named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lookhear.engine.checkpoints.ctranslate2 import Ct2Whisper
from lookhear.engine.checkpoints.layout import IntegerMatrix
from lookhear.engine.checkpoints.openai_pt import OpenAiWhisper
from lookhear.engine.checkpoints.quantised import Quantised
from lookhear.engine.checkpoints.torch_file import FILE as TORCH_FILE
from lookhear.engine.checkpoints.torch_file import TorchFile
from lookhear.engine.config.quantisation import refusal

T = TypeVar("T")

# A precision in the name ("variant" in Hugging Face's words) is read where there is no other.
_PRECISIONS = ("", ".fp32", ".bf16", ".fp16")
SINGLE_FILES = tuple(f"model{precision}.safetensors" for precision in _PRECISIONS)
INDEX_FILES = tuple(f"model.safetensors.index{precision}.json" for precision in _PRECISIONS)
MAPPED_BYTES = 64 << 20  # of a file that are kept mapped, or a sixteenth of it


class CheckpointError(Exception):
    """A checkpoint cannot be served; says which file or tensor, what was expected, what came."""

    @classmethod
    def of(cls, source: Path, key: str, expected: str, got: object) -> CheckpointError:
        """About a value of a JSON file or folder."""
        return cls(f"{source}: {key}: expected {expected}, got {got!r}")


def read_any_json(path: Path) -> Any:
    """What is in a JSON file. Raises `CheckpointError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: expected JSON, got {error}") from error


def read_json(path: Path, *, required: bool = True) -> dict[str, Any]:
    """The object in a JSON file; {} if it may be absent and is."""
    if not path.is_file():
        if not required:
            return {}
        raise CheckpointError(f"{path.parent}: expected a file {path.name}, found none")
    value = read_any_json(path)
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def section(config: Mapping[str, Any], key: str, source: Path) -> dict[str, Any]:
    """An object inside a parsed config; `source` is named in errors."""
    value = config.get(key)
    if not isinstance(value, dict):
        raise CheckpointError.of(source, key, "an object", value)
    return value


def rope_section(
    config: Mapping[str, Any], source: Path, kinds: Sequence[str] = ("default",)
) -> Mapping[str, Any]:
    """What a parsed config says of rotary positions, {} if nothing: its rope_scaling, as
    transformers 4 wrote it, before its rope_parameters. Neither may be of other than those kinds,
    so that no stretched context is taken for a plain one."""
    ropes = [config.get(key) or {} for key in ("rope_scaling", "rope_parameters")]
    for rope in ropes:
        if (kind := rope.get("rope_type", rope.get("type", "default"))) not in kinds:
            raise CheckpointError.of(source, "rope_type", "'default'", kind)
    return ropes[0] or ropes[1]


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


class TensorContainer(Protocol):
    """Weights by Hugging Face's names, however they are stored. Methods raise OSError, ValueError
    or SafetensorError for a file that cannot be read."""

    @property
    def names(self) -> Collection[str]:
        """Of all tensors."""

    def path_of(self, name: str) -> Path:
        """The file that holds a tensor."""

    def read(self, name: str) -> Tensor:
        """A tensor as it is stored, on the CPU."""


class CheckpointReader:
    """The weights of a folder, in any container, each taken once by name. reads_torch: whether
    `pytorch_model.bin` is read, too, where there are no safetensors files."""

    def __init__(
        self, folder: Path, *, reads_torch: bool = False, **loading: Unpack[Loading]
    ) -> None:
        self._dtype = loading.get("dtype", torch.float32)
        self._device = loading.get("device", "cpu")
        self._progress = loading.get("progress")
        self._container = _readable(_container(folder, reads_torch), folder)
        self._taken: set[str] = set()
        self._folder = folder

    @property
    def dtype(self) -> torch.dtype:
        """Of what is taken."""
        return self._dtype

    def __contains__(self, name: str) -> bool:
        return name in self._container.names

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor in the reader's dtype on its device, checked for its shape and for NaN."""
        return self.take_either(name, shape)

    def take_either(self, name: str, *shapes: tuple[int, ...]) -> Tensor:
        """The same of one that may have several shapes."""
        tensor = self._found(name, shapes, self._container.read)
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"{self._container.path_of(name)}: tensor {name}: "
                f"expected floating-point numbers, got {tensor.dtype}"
            )
        self._finish(name, tensor)
        # A copy: one small tensor within a mapped file would keep all of that file in memory.
        return tensor.to(device=self._device, dtype=self._dtype, copy=True)

    def take_whole(self, name: str, *shape: int) -> Tensor:
        """The tensor in int64 on the CPU, of whole numbers, or of what is so and what is not."""
        tensor = self._found(name, (shape,), self._container.read)
        if tensor.is_floating_point() or tensor.is_complex():
            raise CheckpointError(
                f"{self._container.path_of(name)}: tensor {name}: "
                f"expected whole numbers, got {tensor.dtype}"
            )
        self._finish(name, tensor)
        return tensor.to(torch.int64, copy=True)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Of a tensor that is there."""
        return tuple(self._container.read(name).shape)

    def are_alike(self, one: str, other: str) -> bool:
        """Whether two stored tensors are the same, which is found out without copies of them."""
        first, second = (self._reading(name, self._container.read) for name in (one, other))
        return first.dtype == second.dtype and torch.equal(first, second)

    def all_whole(self) -> dict[str, Tensor]:
        """Every tensor by name, multiplied out, in the reader's dtype: to hand them to others."""
        found = {}
        for name in self._container.names:
            tensor = self._reading(name, self._container.read)
            dtype = self._dtype if tensor.is_floating_point() else tensor.dtype
            found[name] = tensor.to(self._device, dtype, copy=True)
        return found

    def take_scaled(
        self, name: str, dtype: torch.dtype, *shape: int
    ) -> tuple[Tensor, Tensor] | None:
        """A matrix in dtype, float8 or int8, and the scale of each row, [rows] float32, if it is
        stored so; None if not: then it can still be taken."""
        container = self._container
        if not isinstance(container, Quantised) or name not in container.names:
            return None
        found = self._reading(name, container.rows)
        if found is None or found[0].dtype != dtype:
            return None
        values, scales = found
        self._check_shape(name, values, (shape,))
        self._finish(name, values.float() * scales[:, None])
        return values.to(self._device, copy=True), scales.to(self._device, copy=True)

    def take_integers(self, name: str, *shape: int) -> IntegerMatrix | None:
        """A matrix of integers of 2 or 4 bits, if it is stored so and its groups are stretches of
        inputs; None if not: then it can still be taken."""
        container = self._container
        if not isinstance(container, Quantised) or name not in container.names:
            return None
        found = self._reading(name, container.integers)
        if found is None or found.group_of is not None:
            return None
        self._check_shape(name, found.values, (shape,))
        self._finish(name, found.scales)
        return found.to(self._device)

    def _found(
        self, name: str, shapes: Sequence[tuple[int, ...]], read: Callable[[str], Tensor]
    ) -> Tensor:
        """The tensor of that name, which has one of the shapes."""
        names = self._container.names
        if name not in names:
            raise CheckpointError(
                f"{self._folder}: expected a tensor {name} of shape {_either(shapes)}, found none "
                f"among {len(names)} tensors"
            )
        tensor = self._reading(name, read)
        self._check_shape(name, tensor, shapes)
        return tensor

    def _reading(self, name: str, read: Callable[[str], T]) -> T:
        try:
            return read(name)
        except (SafetensorError, OSError, ValueError) as error:
            path = self._container.path_of(name)
            raise CheckpointError(f"{path}: tensor {name} cannot be read: {error}") from error

    def _check_shape(self, name: str, tensor: Tensor, shapes: Sequence[tuple[int, ...]]) -> None:
        if tuple(tensor.shape) not in shapes:
            raise CheckpointError(
                f"{self._container.path_of(name)}: tensor {name}: expected shape "
                f"{_either(shapes)}, got {list(tensor.shape)}"
            )

    def _finish(self, name: str, tensor: Tensor) -> None:
        """It is taken, if all its numbers are."""
        if not all_finite(tensor):
            path = self._container.path_of(name)
            raise CheckpointError(f"{path}: tensor {name}: expected finite numbers, got NaN or inf")
        self._taken.add(name)
        if self._progress is not None:
            self._progress(len(self._taken) / len(self._container.names))

    def finish(self, ignore: Iterable[str] = (), *, parts: tuple[str, ...] = ()) -> None:
        """Raises if the checkpoint holds tensors that nobody took: it is not the model we think.
        ignore: their names; parts: what the names of whole parts begin with."""
        left = set(self._container.names) - self._taken - set(ignore)
        if isinstance(container := self._container, Quantised):
            left = {name for name in left if not container.adds_nothing(name)}
        extra = sorted(name for name in left if not name.startswith(parts))
        if extra:
            shown = ", ".join(extra[:5]) + (", ..." if len(extra) > 5 else "")
            path = self._container.path_of(extra[0])
            raise CheckpointError(f"{path}: {len(extra)} unexpected tensors: {shown}")


def all_finite(tensor: Tensor) -> bool:
    """Whether all its numbers are, of any shape. Its extremes tell, of which NaN is both;
    `torch.isfinite` takes thirty times as long: 7 ms for a million numbers of float32."""
    if tensor.itemsize > 1 and tensor.is_floating_point() and tensor.numel():
        tensor = torch.stack(tensor.aminmax())
    return bool(torch.isfinite(tensor).all())


def _either(shapes: Sequence[tuple[int, ...]]) -> str:
    return " or ".join(str(list(shape)) for shape in shapes)


class _Safetensors:
    """One file or several. A file is mapped, and what was read of it counts as this process's
    memory until it is closed: it is opened anew now and then. Not for every tensor, as reading the
    header of a model of thousands of experts takes its time."""

    def __init__(self, files: dict[str, Path]) -> None:
        self._file_of = files
        self._open: dict[Path, Any] = {}
        self._bytes_read = 0

    @property
    def names(self) -> Collection[str]:
        return self._file_of.keys()

    def path_of(self, name: str) -> Path:
        return self._file_of[name]

    def read(self, name: str) -> Tensor:
        tensor: Tensor = self._file(name).get_tensor(name)
        self._bytes_read += tensor.nbytes
        if self._bytes_read >= max(MAPPED_BYTES, self._file_of[name].stat().st_size // 16):
            self._open.clear()  # the tensor holds on to its file until it is copied
            self._bytes_read = 0
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._file(name).get_slice(name).get_shape())

    def _file(self, name: str) -> Any:
        path = self._file_of[name]
        if path not in self._open:
            self._open[path] = safe_open(path, framework="pt", device="cpu")
        return self._open[path]


def num_elements(folder: Path, within: Callable[[str], bool] = lambda name: True) -> int:
    """Of all its tensors, or those of such names, when they are whole, by the headers of its
    safetensors files; 0 for other containers. Raises `CheckpointError`."""
    if not has_safetensors(folder):
        return 0
    container = _readable(_container(folder), folder)
    if isinstance(container, Quantised):
        try:
            return sum(map(container.num_elements, filter(within, container.names)))
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(f"{folder}: {error}") from error
    assert isinstance(container, _Safetensors)
    return sum(math.prod(container.shape(name)) for name in filter(within, container.names))


def has_safetensors(folder: Path) -> bool:
    """Whether its weights are in safetensors files."""
    return any((folder / name).is_file() for name in (*SINGLE_FILES, *INDEX_FILES))


def _container(folder: Path, reads_torch: bool = False) -> TensorContainer:
    for single, index in zip(SINGLE_FILES, INDEX_FILES, strict=True):
        if (path := folder / single).is_file():
            return _Safetensors(dict.fromkeys(_names(path), path))
        if (path := folder / index).is_file():
            return _Safetensors(_sharded(folder, path))
    try:  # others' containers, of which a view makes a folder
        if (path := folder / "model.bin").is_file():
            return Ct2Whisper(path)
        if (path := folder / "model.pt").is_file():
            return OpenAiWhisper(path)
        if reads_torch and (path := folder / TORCH_FILE).is_file():
            return TorchFile(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(str(error)) from error
    there = sorted(path.name for path in folder.glob("*")) if folder.is_dir() else []
    expected = [SINGLE_FILES[0], INDEX_FILES[0], *([TORCH_FILE] if reads_torch else [])]
    raise CheckpointError(
        f"{folder}: expected {' or '.join(expected)}, found {', '.join(there) or 'nothing'}"
    )


def _readable(container: TensorContainer, folder: Path) -> TensorContainer:
    """The container, or one that multiplies out what is stored in fewer bits."""
    path = folder / "config.json"
    config = read_json(path, required=False)
    if (why := refusal(config)) is not None:
        raise CheckpointError(f"{path}: {why}")
    if config.get("quantization_config") is None:
        return container
    if not isinstance(container, _Safetensors | TorchFile):
        raise CheckpointError(f"{path}: quantization_config: expected safetensors beside it")
    return Quantised(container, config)


def _sharded(folder: Path, index: Path) -> dict[str, Path]:
    """Which file holds each tensor."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise CheckpointError(f"{index}: expected an object weight_map, got {weight_map!r}")
    files = {name: folder / str(file) for name, file in weight_map.items()}
    held = {path: _names(path) for path in set(files.values())}
    for name, path in files.items():
        if name not in held[path]:
            raise CheckpointError(f"{path}: expected a tensor {name}, as {index.name} says")
    return files


def _names(path: Path) -> set[str]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return set(file.keys())
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: expected a safetensors file, got {error}") from error
