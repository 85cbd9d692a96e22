"""Products with weights of 4 bits against torch's, under the interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels.int4.weights import Int4Weights, int4_product, round_int4
from lookhear.kernels.linear import in_int4
from lookhear.kernels.linear import linear as chosen_linear
from lookhear.kernels.linear import norm_linear as chosen_norm_linear
from lookhear.kernels.triton import linear
from lookhear.kernels.triton.configs import Tile, tile, trying

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-6, torch.float16: 2**-9}
torch_linear = chosen_linear.__wrapped__  # type: ignore[attr-defined]
torch_norm_linear = chosen_norm_linear.__wrapped__  # type: ignore[attr-defined]


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def matrix(outs: int, inner: int, group: int, *, zeros: bool) -> Int4Weights:
    weights = round_int4(draw(1, outs, inner) / inner**0.5, group)
    if not zeros:
        return weights
    drawn = torch.randint(0, 16, weights.scales.shape, generator=torch.Generator().manual_seed(2))
    return Int4Weights(weights.numbers, weights.scales, drawn.to(torch.uint8))


def close(ours: Tensor, exact: Tensor, dtype: torch.dtype) -> None:
    assert ours.dtype == dtype and ours.shape == exact.shape
    scale = exact.abs().max().clamp(min=1.0)
    torch.testing.assert_close(
        ours.float() / scale, exact / scale, atol=4 * TOLERANCE[dtype], rtol=2 * TOLERANCE[dtype]
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("rows", "outs", "inner", "group"),
    [(1, 16, 32, 32), (2, 20, 384, 128), (3, 48, 320, 64), (9, 24, 192, 64), (33, 70, 96, 32)],
)
def test_products(
    rows: int, outs: int, inner: int, group: int, zeros: bool, dtype: torch.dtype
) -> None:
    """Few rows and many, whole tiles and not."""
    weights, x = matrix(outs, inner, group, zeros=zeros), draw(0, rows, inner, dtype=dtype)
    for bias in (None, draw(4, outs)):
        added = None if bias is None else bias.to(dtype)
        close(
            linear.linear(x, in_int4(weights, added)), int4_product(x.float(), weights, bias), dtype
        )


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_scales_may_be_of_another_type(kind: torch.dtype) -> None:
    made = matrix(16, 128, 64, zeros=False)
    weights = Int4Weights(made.numbers, made.scales.to(kind), None)
    for rows in (2, 20):
        x = draw(0, rows, 128)
        close(linear.linear(x, in_int4(weights)), int4_product(x, weights, None), x.dtype)


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        *(("few rows 4 bits", t) for t in (Tile(4, 1, 1), Tile(16, 4, 8), Tile(64, 8, 2))),
        *(("rows int4", t) for t in (Tile(16, 4, 2), Tile(64, 4, 1), Tile(128, 8, 3))),
    ],
)
def test_every_tile_gives_the_same(kernel: str, found: Tile) -> None:
    rows = 3 if kernel == "few rows 4 bits" else 6
    x, weights = draw(0, rows, 192), matrix(40, 192, 64, zeros=True)
    with trying(kernel, found):
        ours = linear.linear(x, in_int4(weights))
    close(ours, int4_product(x, weights, None), x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "zeros"), [(1, False), (3, True), (4, False), (7, True)])
def test_what_lies_around_a_product_is_done(rows: int, zeros: bool, dtype: torch.dtype) -> None:
    """Of few rows within the same kernel."""
    four, bias = matrix(44, 192, 64, zeros=zeros), draw(5, 44)
    weights, mine = in_int4(four, bias), in_int4(four, bias.to(dtype))
    x, change, norm = (
        draw(seed, *shape, dtype=dtype)
        for seed, shape in enumerate([(rows, 192), (rows, 192), (192,)])
    )
    for activation in ("none", "gelu", "gelu_tanh"):
        expected = torch_linear(x[None].float(), weights, activation)
        close(linear.linear(x[None], mine, activation), expected, dtype)
    for gated in (False, True):
        for before in (None, change):
            y, total = linear.norm_linear(x, before, norm, 1e-6, mine, gated=gated)
            summed = x if before is None else x + before
            assert torch.equal(total, summed) or dtype == torch.bfloat16  # it cuts off there
            exact = torch_norm_linear(total.float(), None, norm.float(), 1e-6, weights, gated=gated)
            close(y, exact[0], dtype)


@pytest.mark.parametrize("found", [Tile(2, 1, 1), Tile(16, 4, 4), Tile(8, 2, 8)])
def test_every_tile_behind_a_norm_gives_the_same(found: Tile) -> None:
    weights, norm = in_int4(matrix(40, 256, 32, zeros=True)), draw(3, 256)
    x = draw(0, 2, 256)
    with trying("few rows 4 bits, norm", found), trying("few rows 4 bits, gated", found):
        for gated in (False, True):
            ours = linear.norm_linear(x, x, norm, 1e-6, weights, gated=gated)[0]
            close(ours, torch_norm_linear(x, x, norm, 1e-6, weights, gated=gated)[0], x.dtype)


def test_nobody_reads_beyond_its_row_and_nothing_is_nothing() -> None:
    weights = matrix(20, 64, 32, zeros=True)
    for count in (3, 5):
        held = torch.full((count + 1, 64), torch.nan)
        held[:count] = draw(0, count, 64)
        assert linear.linear(held[:count], in_int4(weights)).isfinite().all()
        held[1] = torch.nan
        y = linear.linear(held[:count], in_int4(weights))
        assert y[1].isnan().all() and y[[0, 2]].isfinite().all()
    held = torch.full((3, 64), torch.nan)
    held[:2] = draw(0, 2, 64)
    norm = draw(3, 64)
    for gated in (False, True):
        few = linear.norm_linear(held[:2], held[:2], norm, 1e-6, in_int4(weights), gated=gated)
        assert few[0].isfinite().all() and few[0].shape == (2, 10 if gated else 20)
    assert linear.linear(draw(0, 0, 64), in_int4(weights)).shape == (0, 20)


def test_the_table_knows_from_where_on_rows_are_many() -> None:
    assert tile("few rows 4 bits", 4).size > 1 and tile("few rows 4 bits", 5).size == 1
