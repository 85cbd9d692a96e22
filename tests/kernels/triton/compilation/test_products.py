"""Products of few rows, of every kind that a model has: see `PRODUCTS` in `compile_kernels.py`. By
themselves, since their loops are unrolled: to compile them takes as long as all other kernels."""

from __future__ import annotations

from collections import Counter

from tests.kernels.triton.compilation.compiled import compiled

# Bytes of a thread, the most of Triton 3.6, 3.7 and 3.9; what is not here spills nothing. Most of
# that in float8 is 3.9's, which puts all products of four rows behind all loads; with 3.6 it is 36.
SPILLED = {
    "layer, 2": 12, "layer, 4": 106, "gated, 2": 32, "gated, 4": 56, "down, 1": 176,
    "gated fp8, 4": 640, "down fp8, 4": 8,
}  # fmt: skip


def test_they_compile_and_spill_no_more_than_is_known() -> None:
    products = compiled("products")
    # What a program may have on any card since Ampere.
    assert not {line[0]: line[1] for line in products if int(line[1]) > 99 * 1024}
    by_kernel = Counter(line[0] for line in products)
    assert by_kernel == {"_few_rows_kernel": 33, "few_rows_8_bits_kernel": 21}
    assert {line[2] for line in products} == {"early"}
    spilled = {" ".join(line[6:]): int(line[5]) for line in products}
    assert len(spilled) == len(products) == 33 + 21
    assert not {name: n for name, n in spilled.items() if n > SPILLED.get(name, 0)}
