"""Matrices of bitsandbytes are what it makes of them itself; the others stay as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError, CheckpointReader, num_elements

# By `make_packed.py`.
DATA = Path(__file__).parents[2] / "data" / "bitsandbytes.safetensors"
SHAPES = {"nf4": (130, 128), "fp4": (9, 7), "wide": (16, 40), "int8": (10, 24)}
STATE = "nf4.weight.quant_state.bitsandbytes__nf4"


def stored(name: str) -> dict[str, Tensor]:
    """One matrix, and what stands beside it."""
    return {k: tensor for k, tensor in load_file(DATA).items() if k.startswith(f"{name}.")}


def reader(folder: Path, tensors: dict[str, Tensor]) -> CheckpointReader:
    config = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({**tensors, "norm.weight": torch.ones(5)}, folder / "model.safetensors")
    return CheckpointReader(folder)


@pytest.mark.parametrize("name", SHAPES)
def test_it_is_what_the_library_makes_of_it(tmp_path: Path, name: str) -> None:
    found = reader(tmp_path, stored(name))
    whole, expected = (
        found.take(f"{name}.weight", *SHAPES[name]),
        load_file(DATA)[f"expected.{name}"],
    )
    some = whole if name == "int8" else torch.cat([whole[:4], whole[-4:]])
    torch.testing.assert_close(some, expected, atol=2e-7, rtol=2e-7)
    assert torch.equal(found.take("norm.weight", 5), torch.ones(5))
    found.finish()
    rows, columns = SHAPES[name]
    assert num_elements(tmp_path) == rows * columns + 5


def test_numbers_kept_in_another_type_are_the_same(tmp_path: Path) -> None:
    tensors = stored("nf4")
    expected = reader(tmp_path, tensors).take("nf4.weight", 130, 128)
    in_pairs = tensors["nf4.weight"].flatten().view(torch.bfloat16)
    as_bfloat16 = {**tensors, "nf4.weight": in_pairs[:, None]}
    assert torch.equal(reader(tmp_path, as_bfloat16).take("nf4.weight", 130, 128), expected)


def test_int8_with_a_scale_for_each_output_stays_so(tmp_path: Path) -> None:
    tensors = stored("int8")
    kept = reader(tmp_path, tensors).take_scaled("int8.weight", torch.int8, 10, 24)
    assert kept is not None and torch.equal(kept[0], tensors["int8.weight"])
    torch.testing.assert_close(kept[1], tensors["int8.SCB"] / 127)


def told(**change: object) -> Tensor:
    """The quantisation state, changed."""
    state = {**json.loads(bytes(stored("nf4")[STATE].tolist())), **change}
    return torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("nf4", {"nf4.weight.absmax": None}, "expected a tensor nf4.weight.absmax beside it"),
        ("nf4", {"nf4.weight.nested_absmax": torch.ones(3)},
         r"nf4.weight.nested_absmax: expected shape \[2\], got \[3\]"),
        ("nf4", {"nf4.weight.quant_map": torch.ones(15)}, r"quant_map: expected shape \[16\]"),
        ("nf4", {"nf4.weight": torch.zeros(10, 1, dtype=torch.uint8)},
         r"expected 8320 bytes for shape \[130, 128\], got 10"),
        ("nf4", {STATE: torch.zeros(4, dtype=torch.uint8)}, f"{STATE}: expected JSON"),
        ("nf4", {STATE: told(shape=[130, 0])}, f"{STATE}: shape: expected numbers >= 1"),
        ("nf4", {STATE: told(blocksize="a")}, f"{STATE}: blocksize: expected a number >= 1"),
        ("nf4", {STATE: told(nested_offset=None)}, "expected nested_blocksize >= 1 and a number"),
        ("nf4", {STATE: told(shape=[65, 256])}, r"expected shape \[130, 128\], got \[65, 256\]"),
        ("int8", {"int8.SCB": torch.ones(9)}, r"int8.SCB: expected shape \[10\], got \[9\]"),
        ("int8", {"int8.weight_format": torch.tensor(2, dtype=torch.uint8)},
         "int8.weight_format: expected 0, .* got 2"),
        ("int8", {"int8.SCB": None}, "expected floating-point numbers, got torch.int8"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_named(
    tmp_path: Path, name: str, change: dict[str, Tensor | None], message: str
) -> None:
    tensors: dict[str, Tensor | None] = {**stored(name), **change}
    there = {key: tensor for key, tensor in tensors.items() if tensor is not None}
    with pytest.raises(CheckpointError, match=f"tensor {name}.weight.*{message}"):
        reader(tmp_path, there).take(f"{name}.weight", *SHAPES[name])
