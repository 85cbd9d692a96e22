"""Parcels: what is put in comes out, and what is no parcel is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from lookhear.gateway.decoding.parcel import ALIGNED, ParcelError, pack, unpack

DTYPES = st.sampled_from(["uint8", "float32", "float64", "int64"])
SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)
ARRAYS = st.lists(DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, SHAPES)), max_size=4)


@contextmanager
def file_of(data: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("test") if hasattr(os, "memfd_create") else -1
    try:
        os.write(descriptor, data)
        yield descriptor
    finally:
        os.close(descriptor)


def as_bytes(told: Any, rest: bytes = b"") -> bytes:
    text = json.dumps(told).encode()
    head = len(text).to_bytes(8, "little") + text
    return head + bytes(-len(head) % ALIGNED) + rest


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), ARRAYS)
def test_what_is_packed_comes_out(header: dict[str, Any], given: list[NDArray[Any]]) -> None:
    descriptor = pack(header, given)
    try:
        found, unpacked = unpack(descriptor)
    finally:
        os.close(descriptor)
    assert found == header and len(unpacked) == len(given)
    for ours, theirs in zip(given, unpacked, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert ours.tobytes() == theirs.tobytes()


def test_arrays_live_as_long_as_anybody_has_them_and_are_not_written_to() -> None:
    descriptor = pack({}, [np.arange(100_000, dtype=np.float32)])
    _, [found] = unpack(descriptor)
    os.close(descriptor)
    half = found[50_000:]
    del found
    assert half[0] == 50_000
    with pytest.raises(ValueError, match="read-only"):
        half[0] = 1


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory are Linux's")
def test_a_parcel_can_neither_shrink_nor_change() -> None:
    descriptor = pack({}, [b"x" * 100_000])
    try:
        for change in (lambda: os.ftruncate(descriptor, 0), lambda: os.pwrite(descriptor, b"y", 0)):
            with pytest.raises(PermissionError):
                change()
    finally:
        os.close(descriptor)


FORM = {"dtype": "uint8", "shape": [4]}


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory are Linux's")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"12345678",
        (1 << 40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{]",
        as_bytes([]),
        as_bytes({"header": {}}),
        as_bytes({"header": [], "arrays": []}),
        as_bytes({"header": {}, "arrays": [FORM]}),
        as_bytes({"header": {}, "arrays": [FORM]}, b"123"),
        as_bytes({"header": {}, "arrays": [{**FORM, "dtype": "object"}]}, bytes(64)),
        as_bytes({"header": {}, "arrays": [{**FORM, "shape": [-4, -1]}]}, bytes(64)),
        as_bytes({"header": {}, "arrays": [{**FORM, "shape": [1 << 62, 1 << 62]}]}, bytes(64)),
        as_bytes({"header": {}, "arrays": [{**FORM, "shape": None}]}, bytes(64)),
    ],
)
def test_what_is_no_parcel_is_refused(data: bytes) -> None:
    with file_of(data) as descriptor, pytest.raises(ParcelError):
        unpack(descriptor)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory are Linux's")
@given(st.binary(max_size=300))
def test_any_bytes_are_a_parcel_or_refused(data: bytes) -> None:
    with file_of(data) as descriptor:
        try:
            header, found = unpack(descriptor)
        except ParcelError:
            return
        assert isinstance(header, dict) and sum(array.nbytes for array in found) <= len(data)
