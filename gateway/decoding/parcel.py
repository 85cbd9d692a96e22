"""What gateway and decoders hand each other: an anonymous file in memory that holds a small header
and raw arrays. Only its descriptor travels, so an hour of samples is written once and copied never.

Who reads a parcel does not trust who wrote it: a decoder has had a stranger's file in its hands.
The header is JSON, arrays are of known kinds and lie inside the file, and the file can no longer
shrink (a mapped page that is gone would end the reader) where the system can promise that.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Header", "ParcelError", "pack", "unpack"]

Header = dict[str, Any]
Array = NDArray[Any]

DTYPES = ("uint8", "float32", "float64", "int64")
ALIGNED = 64  # bytes: where an array may begin
MAX_HEADER = 1024 * 1024  # bytes
LENGTH = 8  # bytes of the header's length, little endian


class ParcelError(ValueError):
    """A file that is no parcel."""


def pack(header: Header, arrays: Sequence[Array | bytes]) -> int:
    """-> the descriptor of a new parcel, the caller's to close. Raises OSError: no room for it."""
    plain = [np.frombuffer(a, np.uint8) if isinstance(a, bytes) else a for a in arrays]
    forms = [{"dtype": array.dtype.name, "shape": array.shape} for array in plain]
    text = json.dumps({"header": header, "arrays": forms}).encode()
    descriptor = _new_file()
    try:
        _write(descriptor, len(text).to_bytes(LENGTH, "little") + text)
        for array in plain:
            position = os.lseek(descriptor, 0, os.SEEK_CUR)
            os.lseek(descriptor, _aligned(position), os.SEEK_SET)
            if array.size:
                _write(descriptor, np.ascontiguousarray(array).data.cast("B"))
        end = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.ftruncate(descriptor, end)  # a file may end in an empty array behind a gap
        with contextlib.suppress(OSError, AttributeError):  # not a file in memory
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def unpack(descriptor: int) -> tuple[Header, list[Array]]:
    """-> the header and read-only arrays that lie in the file, which goes with the last of them.
    The descriptor stays the caller's to close. Raises ParcelError."""
    held = _mapped(descriptor)
    length = int.from_bytes(held[:LENGTH], "little")
    if not 0 < length <= min(MAX_HEADER, len(held) - LENGTH):
        raise ParcelError(f"expected a header inside {len(held)} bytes; got one of {length}")
    try:
        told = json.loads(held[LENGTH : LENGTH + length])
        header, forms = told["header"], told["arrays"]
        if not isinstance(header, dict):
            raise ParcelError("expected a header with names")
        arrays: list[Array] = []
        position = LENGTH + length
        for form in forms:
            if form["dtype"] not in DTYPES:
                raise ParcelError(f"expected one of {', '.join(DTYPES)}; got {form['dtype']!r}")
            dtype, shape = np.dtype(form["dtype"]), tuple(int(side) for side in form["shape"])
            if any(side < 0 for side in shape):
                raise ParcelError(f"expected a shape; got {shape}")
            position, count = _aligned(position), _product(shape)
            if position + count * dtype.itemsize > len(held):
                raise ParcelError(f"expected arrays inside {len(held)} bytes; got {shape}")
            flat = np.frombuffer(held, dtype, count, position) if count else np.zeros(0, dtype)
            arrays.append(flat.reshape(shape))
            position += count * dtype.itemsize
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise error if isinstance(error, ParcelError) else ParcelError(str(error)) from error
    return header, arrays


def _new_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("lookhear", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with tempfile.TemporaryFile() as file:  # has no name
        return os.dup(file.fileno())


def _write(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _mapped(descriptor: int) -> mmap.mmap | bytes:
    """The file's bytes: mapped if it cannot shrink, else read."""
    size = os.fstat(descriptor).st_size
    if size <= LENGTH:
        raise ParcelError(f"expected a parcel; got {size} bytes")
    sealed = 0
    with contextlib.suppress(OSError, AttributeError):
        sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    if sealed and sealed & _SEALS == _SEALS:
        # Private: some systems take no shared mapping of a file that is sealed against writing.
        return mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read(size)


def _aligned(position: int) -> int:
    return -(-position // ALIGNED) * ALIGNED


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count


_SEALS = (
    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    if hasattr(fcntl, "F_ADD_SEALS")
    else 0
)
