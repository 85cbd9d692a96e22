"""Every kernel compiles for a GPU, where there is none: what the interpreter takes, Triton's
compiler may refuse. Down to machine code, at the sizes of real models, and where sizes are 1:
Triton makes constants of arguments that are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.triton.compilation import compiled as compilation

KERNELS = Path(__file__).parents[4] / "kernels" / "triton"


@pytest.fixture(scope="module")
def compiled() -> list[list[str]]:
    """A line for each kernel; see `compile_kernels.py`."""
    return compilation.compiled("others")


def test_every_kernel_compiles_and_fits(compiled: list[list[str]]) -> None:
    defined = {
        line.removeprefix("def ").split("(")[0]
        for path in KERNELS.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("def ") and "_kernel(" in line
    }
    of_8_bits = {"few_rows_8_bits_kernel"}  # those are all of a real width: `test_products.py`
    assert {line[0] for line in compiled} == defined - of_8_bits
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
        "_few_rows_kernel", "_few_rows_int4_kernel", "_decode_kernel", "_join_kernel"
    }  # fmt: skip
    # The first are those of one row of a real width: two outputs a warp, 2048 inputs of each.
    products = [line for line in early if line[0] == "_few_rows_kernel"][:3]
    assert min(int(line[3]) for line in products) >= 16
    assert {line[5] for line in products} == {"0"}


def test_products_with_weights_of_4_bits_spill_nothing(compiled: list[list[str]]) -> None:
    """By rows and groups; plain, behind a norm, and gated."""
    products = [line for line in compiled if line[0] == "_few_rows_int4_kernel"]
    assert len(products) == 3 * 2 * 3 and {line[5] for line in products} == {"0"}
