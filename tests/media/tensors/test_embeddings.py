"""Embeddings in files: what torch and safetensors write is read as they read it, without either;
whatever else comes is one error that says what was expected."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from lookhear.media.base import MediaError
from lookhear.media.tensors.embeddings import EmbeddingsMediaIO

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def torch_file(what: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(what, file, **options)
    return file.getvalue()


def safe_file(tensor: Tensor) -> bytes:
    return save({"embeddings": tensor.contiguous()})


def load(data: bytes, max_bytes: int | None = None) -> np.ndarray[Any, Any]:
    return EmbeddingsMediaIO(max_bytes=max_bytes).load_bytes(data).media


def refusal(data: bytes, max_bytes: int | None = None) -> MediaError:
    with pytest.raises(MediaError) as told:
        load(data, max_bytes)
    return told.value


@pytest.mark.parametrize("write", [torch_file, safe_file])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_are_those_that_were_saved(
    write: Callable[[Tensor], bytes], dtype: torch.dtype
) -> None:
    tensor = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)).to(dtype)
    for held in (tensor, tensor[2:5], tensor.T, tensor[:, ::2], tensor[None], tensor[:1]):
        rows = load(write(held))
        wanted = held[0] if held.ndim == 3 else held
        assert rows.dtype == np.float32 and rows.flags.c_contiguous
        assert np.array_equal(rows, wanted.float().numpy())


def test_a_parameter_is_a_tensor() -> None:
    tensor = torch.nn.Parameter(torch.randn(3, 4))
    assert np.array_equal(load(torch_file(tensor)), tensor.detach().numpy())
    grown = torch.randn(3, 4, requires_grad=True)
    assert np.array_equal(load(torch_file(grown)), grown.detach().numpy())


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("false",)


def repacked(data: bytes, name: str, content: bytes, compression: int = 0) -> bytes:
    """The archive with another content of one file."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", compression) as new:
        for file in old.namelist():
            new.writestr(file, content if file.endswith(name) else old.read(file))
    return out.getvalue()


GOOD = torch_file(torch.ones(3, 4))


@pytest.mark.parametrize(
    ("data", "expected", "got"),
    [
        (b"", "expected embeddings", "got nothing"),
        (b"hello", "expected embeddings", "got text/plain"),
        (b"\x89PNG....", "expected embeddings", "got a PNG image"),
        (GOOD[:-30], "as torch.save writes it", "damaged archive"),
        (safe_file(torch.ones(3, 4))[:-3], "expected embeddings", "damaged safetensors"),
        (torch_file(torch.ones(4)), "[tokens, width]", "got [4]"),
        (torch_file(torch.ones(2, 3, 4)), "[tokens, width]", "got [2, 3, 4]"),
        (torch_file(torch.ones(0, 4)), "[tokens, width]", "got [0, 4]"),
        (torch_file(torch.ones(3, 4, dtype=torch.int64)), "float32, float16, bfloat16", "got long"),
        (torch_file(torch.ones(3, 4).double()), "float32, float16, bfloat16", "got double"),
        (safe_file(torch.ones(3, 4).double()), "float32, float16, bfloat16", "got F64"),
        (save({"a": torch.ones(1, 2), "b": torch.ones(1, 2)}), "of one tensor", "got 2"),
        (torch_file({"a": torch.ones(3, 4)}), "expected one tensor", "instruction"),
        (torch_file([torch.ones(3, 4)]), "expected one tensor", "instruction"),
        (torch_file(torch.ones(1, 4).expand(9, 4)), "expected one tensor", "strides (0, 1)"),
        (repacked(GOOD, "data.pkl", b"\x80\x02K\x01."), "expected one tensor", "something else"),
        (repacked(GOOD, "data.pkl", pickle.dumps(Evil())), "one tensor", "instruction"),
        (repacked(GOOD, "data.pkl", pickle.dumps(Evil(), 2)), "one tensor", "would call"),
        (repacked(GOOD, "data.pkl", b"\x80\x02" + b"(" * 70_000), "at most 65536", "got 7000"),
        (repacked(GOOD, "data.pkl", b"\x80\x02(("), "expected one tensor", "cannot be read"),
        (repacked(GOOD, "data/0", b"\0" * 12), "expected one tensor", "a storage of 12 bytes"),
        (repacked(GOOD, "byteorder", b"big"), "expected one tensor", "byte order big"),
        (repacked(GOOD, "-", b"", zipfile.ZIP_DEFLATED), "one tensor", "compressed"),
        (torch_file(torch.ones(3, 4), _use_new_zipfile_serialization=False), "embeddings", "got"),
    ],
)
def test_what_is_not_embeddings_is_refused(data: bytes, expected: str, got: str) -> None:
    told = str(refusal(data))
    assert expected in told and got in told


def test_what_is_not_finite_is_named() -> None:
    tensor = torch.ones(3, 4)
    tensor[1, 2] = float("nan")
    told = refusal(torch_file(tensor))
    assert told.reason == "not_finite" and "got nan at [1, 2]" in told.detail
    tensor[1, 2] = float("-inf")
    assert "got -inf at [1, 2]" in refusal(safe_file(tensor)).detail


def test_sizes_are_bounded_before_anything_is_read() -> None:
    for data in (GOOD, safe_file(torch.ones(3, 4))):
        assert refusal(data, 50).reason == "too_large"
        assert load(data, len(data)).shape == (3, 4)


def test_a_slice_of_something_large_is_bounded_by_all_of_it() -> None:
    """torch saves the whole storage behind a slice."""
    data = torch_file(torch.ones(1000, 8)[:2])
    assert len(data) > 32_000 and load(data).shape == (2, 8)
    assert refusal(data, 2000).reason == "too_large"


def test_shapes_that_leave_their_storage_are_refused() -> None:
    with zipfile.ZipFile(io.BytesIO(GOOD)) as archive:
        name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        program = archive.read(name)
    larger = program.replace(b"K\x03K\x04\x86", b"K\x09K\x04\x86")
    assert larger != program
    assert "in a storage of 12 numbers" in str(refusal(repacked(GOOD, "data.pkl", larger)))
    wider = program.replace(b"K\x04K\x01\x86", b"K\x04K\x07\x86")
    assert wider != program
    assert "in a storage of 12 numbers" in str(refusal(repacked(GOOD, "data.pkl", wider)))
    overlapping = program.replace(
        b"K\x03K\x04\x86q\x06K\x04K\x01", b"K\x06K\x06\x86q\x06K\x01K\x01"
    )
    assert overlapping != program
    assert "in a storage of 12 numbers" in str(refusal(repacked(GOOD, "data.pkl", overlapping)))


@pytest.mark.parametrize("good", [GOOD, safe_file(torch.ones(3, 4))], ids=["torch", "safetensors"])
def test_damage_is_an_error_of_the_file_and_of_nothing_else(good: bytes) -> None:
    rng = random.Random(7)
    with zipfile.ZipFile(io.BytesIO(GOOD)) as archive:
        program = archive.read("archive/data.pkl")
    for _ in range(1500):
        damaged = bytearray(good if rng.random() < 0.5 else program)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(damaged))
            if rng.random() < 0.3:
                del damaged[at : at + rng.randint(1, 20)]
            else:
                damaged[at : at + 1] = rng.randbytes(rng.randint(1, 3))
            if not damaged:
                break
        is_whole = len(damaged) > 400 or good is not GOOD
        data = bytes(damaged) if is_whole else repacked(GOOD, "data.pkl", bytes(damaged))
        with contextlib.suppress(MediaError):
            assert load(data).ndim == 2
