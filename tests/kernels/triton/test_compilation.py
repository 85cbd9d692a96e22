"""Every kernel compiles for a GPU, where there is none: what the interpreter takes, Triton's
compiler may refuse. Down to machine code, at the sizes of real models, and where sizes are 1:
Triton makes constants of arguments that are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "compile_kernels.py"
ROOT = Path(__file__).parents[3]
PRODUCTS = "_few_rows_kernel", "few_rows_8_bits_kernel"


@pytest.fixture(scope="module")
def compiled() -> list[list[str]]:
    """A line for each kernel; see `compile_kernels.py`."""
    outcome = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT)],
        env={**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT / "clients")},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    return [line.split() for line in outcome.stdout.splitlines()]


def test_every_kernel_compiles_and_fits(compiled: list[list[str]]) -> None:
    defined = {
        line.removeprefix("def ").split("(")[0]
        for path in (ROOT / "kernels" / "triton").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("def ") and "_kernel(" in line
    }
    assert {line[0] for line in compiled} == defined
    # What a program may have on any card since Ampere.
    assert not {line[0]: line[1] for line in compiled if int(line[1]) > 99 * 1024}


def test_attention_of_many_queries_keeps_the_tensor_cores_of_a_hopper_busy(
    compiled: list[list[str]],
) -> None:
    by_warpgroups = [line for line in compiled if "wgmma" in line]
    # Prefill, an encoder's attention over whole inputs and that inside windows; experts of many,
    # and products of weights in int8 and of 4 bits.
    assert {line[0] for line in by_warpgroups} == {
        "_attend_kernel", "_window_kernel", "_gate_up_kernel", "_down_kernel", "_rows_kernel",
        "_rows_int4_kernel",
    }  # fmt: skip
    assert {tuple(line[5:]) for line in by_warpgroups} == {("0", "parallel")}
    # The encoders': two programs on a multiprocessor, one multiplies while one has exponentials.
    registers = [32 * int(line[3]) * int(line[4]) for line in by_warpgroups[-4:]]
    assert max(registers) <= 65_536 // 2


def test_products_of_few_rows_fetch_weights_while_the_kernel_before_still_runs(
    compiled: list[list[str]],
) -> None:
    early = [line for line in compiled if "early" in line]
    assert {line[0] for line in early} == {
        *PRODUCTS, "_few_rows_int4_kernel", "_decode_kernel", "_join_kernel"
    }  # fmt: skip
    # The first are those of one row of a real width: two outputs a warp, 2048 inputs of each.
    products = [line for line in early if line[0] in PRODUCTS][:3]
    assert min(int(line[3]) for line in products) >= 16
    assert {line[5] for line in products} == {"0"}


# Bytes of a thread, the most of Triton 3.6, 3.7 and 3.9; what is not here spills nothing. Most of
# that in float8 is 3.9's, which puts all products of four rows behind all loads; with 3.6 it is 36.
SPILLED = {
    "layer, 2": 12, "layer, 4": 106, "gated, 2": 32, "gated, 4": 56, "down, 1": 176,
    "gated fp8, 4": 640, "down fp8, 4": 8,
}  # fmt: skip


def test_products_with_weights_of_4_bits_spill_nothing(compiled: list[list[str]]) -> None:
    """By rows and groups; plain, behind a norm, and gated."""
    products = [line for line in compiled if line[0] == "_few_rows_int4_kernel"]
    assert len(products) == 3 * 2 * 3 and {line[5] for line in products} == {"0"}


def test_products_of_few_rows_spill_no_more_than_is_known(compiled: list[list[str]]) -> None:
    """Of every kind that a model has: see `PRODUCTS` in `compile_kernels.py`."""
    products = [line for line in compiled if line[0] in PRODUCTS and len(line) > 6]
    spilled = {" ".join(line[6:]): int(line[5]) for line in products}
    assert len(spilled) == 33 + 21
    assert not {name: n for name, n in spilled.items() if n > SPILLED.get(name, 0)}
