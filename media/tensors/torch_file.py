"""A tensor that `torch.save` wrote, read without torch and without unpickling.

    name/data.pkl   a pickle that says how the tensor lies in its storage
    name/data/0     the storage, as it lay in memory

A pickle is a program. Of its instructions only those are followed that a tensor is written with,
by a small machine of our own that calls nothing: whatever else stands there is an error.

Source: `torch.serialization` and `torch._utils` (the layout), `pickletools` (the instructions).
"""

from __future__ import annotations

import io
import math
import pickletools
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from lookhear.media.base import MediaError

__all__ = ["KINDS", "read_torch_file"]

# torch's names of storages whose numbers can be read, and what we call those.
STORAGES = {
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
}
KINDS = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}  # numpy has no bfloat16
PICKLE, STORAGE, BYTE_ORDER = "data.pkl", "data/", "byteorder"
MAX_PICKLE = 64 * 1024  # bytes: of one tensor it has some two hundred
MAX_FILES = 64  # in the archive
EXPECTED = "expected one tensor as torch.save writes it"
# What zipfile raises for damaged files. The last come from its parser's assumptions.
DAMAGE = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    KeyError,
    struct.error,
)


class Name(NamedTuple):
    """Of something in a module, which is never looked up."""

    module: str
    name: str


class Nothing(NamedTuple):
    """An empty OrderedDict: a tensor's hooks."""


@dataclass(frozen=True, slots=True)
class Storage:
    """A file in the archive. dtype: "float32", "float16" or "bfloat16"; count: numbers in it."""

    dtype: str
    file: str
    count: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the numbers of a tensor lie in its storage, counted in numbers."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


TENSOR = Name("torch._utils", "_rebuild_tensor_v2")
PARAMETER = Name("torch._utils", "_rebuild_parameter")
HOOKS = Name("collections", "OrderedDict")


def read_torch_file(data: bytes, max_bytes: int | None) -> tuple[NDArray[Any], str]:
    """The tensor in the file, its numbers as they lie there (bfloat16: as uint16), and the name of
    their type. max_bytes: of the tensor; None: any number. Raises MediaError."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _read(archive, max_bytes)
    except DAMAGE as error:
        _refuse(f"got a damaged archive ({error})")


def _read(archive: zipfile.ZipFile, max_bytes: int | None) -> tuple[NDArray[Any], str]:
    files = archive.infolist()
    if len(files) > MAX_FILES:
        _refuse(f"got an archive of {len(files)} files")
    pickle = next((f for f in files if f.filename.rpartition("/")[2] == PICKLE), None)
    if pickle is None:
        _refuse(f"got an archive without {PICKLE}")
    root = pickle.filename.removesuffix(PICKLE)
    named = {file.filename.removeprefix(root): file for file in files}
    if (order := named.get(BYTE_ORDER)) is not None:
        told = _bytes_of(archive, order, 16)
        if told != b"little":
            _refuse(f"got one of byte order {told.decode('ascii', 'replace')}; it is little here")
    layout = _Machine().run(_bytes_of(archive, pickle, MAX_PICKLE))
    storage = layout.storage
    kind: np.dtype[Any] = np.dtype(KINDS[storage.dtype])
    held = named.get(STORAGE + storage.file)
    if held is None:
        _refuse(f"got an archive without {STORAGE}{storage.file}")
    if held.file_size != storage.count * kind.itemsize:
        _refuse(f"got a storage of {held.file_size} bytes for {storage.count} of {storage.dtype}")
    flat = np.frombuffer(_bytes_of(archive, held, max_bytes), kind)
    return _laid_out(flat, layout), storage.dtype


def _bytes_of(archive: zipfile.ZipFile, file: zipfile.ZipInfo, most: int | None) -> bytes:
    """torch compresses nothing, so what is compressed may be a bomb."""
    if file.compress_type != zipfile.ZIP_STORED:
        _refuse("got a compressed archive")
    if most is not None and file.file_size > most:
        raise MediaError(
            "too_large", f"expected at most {most} bytes of {file.filename}; got {file.file_size}"
        )
    return archive.read(file)


def _laid_out(flat: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """A view of the storage; of a part of it, where a slice of a tensor was saved."""
    shape, strides = layout.shape, layout.strides
    if 0 in shape:
        return np.zeros(shape, flat.dtype)
    spans = [(side - 1) * step for side, step in zip(shape, strides, strict=True)]
    last = layout.offset + sum(spans)
    # A step of 0 repeats numbers that were sent once.
    if layout.offset < 0 or any(s < 1 and n > 1 for n, s in zip(shape, strides, strict=True)):
        _refuse(f"got one of shape {shape} with strides {strides}")
    if last >= len(flat) or math.prod(shape) > len(flat):
        _refuse(f"got one of shape {shape} in a storage of {len(flat)} numbers")
    steps = [step * flat.itemsize for step in strides]
    view = np.lib.stride_tricks.as_strided(flat[layout.offset :], shape, steps, writeable=False)
    return np.ascontiguousarray(view)


def _refuse(got: str) -> NoReturn:
    raise MediaError("not_embeddings", f"{EXPECTED}; {got}")


class _Machine:
    """Follows the instructions of one pickle. What it makes are numbers, texts, tuples and the
    things above."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, pickle: bytes) -> Layout:
        """Raises MediaError."""
        stream = io.BytesIO(pickle)
        try:
            while self._next(stream) != "STOP":
                pass
            made = self._stack.pop()
        except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
            _refuse(f"got one that cannot be read ({error})")
        if not isinstance(made, Layout):
            _refuse("got something else: a dict or a list of tensors, or an object")
        return made

    def _next(self, stream: io.BytesIO) -> str:
        """Reads one instruction, and follows it; returns its name."""
        instruction = INSTRUCTIONS[stream.read(1).decode("latin-1")]
        name: str = instruction.name
        if name not in KNOWN:
            _refuse(f"got one with the instruction {name}")
        stack = self._stack
        if name == "GLOBAL":
            stack.append(Name(_line(stream), _line(stream)))
            return name
        argument: Any = None if instruction.arg is None else instruction.arg.reader(stream)
        if name in VALUES:
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name]())
        elif name in TUPLES:
            count = TUPLES[name]
            stack[-count:] = [tuple(stack[-count:])]
        elif name == "MARK":
            self._marks.append(len(stack))
        elif name == "TUPLE":
            at = self._marks.pop()
            stack[at:] = [tuple(stack[at:])]
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments, made = stack.pop(), stack.pop()
            stack.append(_made(made, arguments))
        return name


INSTRUCTIONS = {instruction.code: instruction for instruction in pickletools.opcodes}
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "NONE": lambda: None,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": Nothing,
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
VALUES = ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE")
KNOWN = {
    *(*VALUES, *CONSTANTS, *TUPLES, "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "MEMOIZE"),
    *("MARK", "TUPLE", "GLOBAL", "BINPERSID", "REDUCE", "PROTO", "FRAME", "STOP"),
}


def _line(stream: io.BytesIO) -> str:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise ValueError("a name has no end")
    return line[:-1].decode("utf-8")


def _storage(told: Any) -> Storage:
    kind, of, file, _, count = told
    if kind != "storage" or not isinstance(of, Name) or of.module != "torch":
        _refuse("got one with something else in it")
    if of.name not in STORAGES:
        known = ", ".join(KINDS)
        got = of.name.removesuffix("Storage").lower()
        raise MediaError("unsupported", f"expected numbers of {known}; got {got}")
    if not isinstance(file, str) or not _is_count(count):
        _refuse("got one with something else in it")
    return Storage(STORAGES[of.name], file, count)


def _made(what: Any, arguments: Any) -> Any:
    """What a call would give that is in every tensor's pickle."""
    match what:
        case Name() if what == HOOKS and arguments == ():
            return Nothing()
        case Name() if what == TENSOR:
            storage, offset, shape, strides, *_ = arguments
            if not isinstance(storage, Storage) or not _are_counts([offset, *shape, *strides]):
                _refuse("got one with something else in it")
            if len(shape) != len(strides):
                _refuse(f"got one of shape {shape} with strides {strides}")
            return Layout(storage, offset, tuple(shape), tuple(strides))
        case Name() if what == PARAMETER and isinstance(arguments[0], Layout):
            return arguments[0]
        case Name():
            _refuse(f"got one that would call {what.module}.{what.name}")
        case _:
            _refuse("got one that would call something")


def _are_counts(values: Sequence[Any]) -> bool:
    return all(map(_is_count, values))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**48
