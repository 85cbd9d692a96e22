"""Rows rounded to float8, and products of few rows with weights in it, against torch's, under the
interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import fp8 as chosen
from lookhear.kernels.linear import LinearWeights, pack_linear
from lookhear.kernels.linear import linear as chosen_linear
from lookhear.kernels.linear import norm_linear as chosen_norm_linear
from lookhear.kernels.triton import fp8, linear
from lookhear.kernels.triton.configs import Tile, tile, trying

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-6, torch.float16: 2**-9}
torch_round = chosen.round_rows.__wrapped__  # type: ignore[attr-defined]
torch_norm_round = chosen.norm_round_rows.__wrapped__  # type: ignore[attr-defined]
torch_linear = chosen_linear.__wrapped__  # type: ignore[attr-defined]
torch_norm_linear = chosen_norm_linear.__wrapped__  # type: ignore[attr-defined]


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def matrix(outs: int, inner: int, *, bias: Tensor | None = None) -> LinearWeights:
    values, scales = torch_round(draw(1, outs, inner) / inner**0.5)
    return pack_linear(values, bias, scales=scales)


def same_rows(ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor], exact: bool) -> None:
    """Of the two nearest numbers either may be taken where the inputs differ in their last bits."""
    torch.testing.assert_close(ours[1], theirs[1], rtol=0.0 if exact else 2**-6, atol=0.0)
    if exact:
        assert torch.equal(ours[0].view(torch.uint8), theirs[0].view(torch.uint8))
    else:
        mine, other = (v.float() * s[:, None] for v, s in (ours, theirs))
        torch.testing.assert_close(mine, other, rtol=0.14, atol=float(theirs[1].max()) / 100)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(1, 16), (3, 123), (2, 2048)])
def test_rows_are_rounded_alike(rows: int, width: int, dtype: torch.dtype) -> None:
    x = (draw(0, rows, width) * torch.logspace(-3, 3, rows)[:, None]).to(dtype)
    same_rows(fp8.round_rows(x), torch_round(x), exact=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_change", [False, True])
def test_rows_behind_a_norm(has_change: bool, dtype: torch.dtype) -> None:
    x, norm = draw(0, 3, 200, dtype=dtype), draw(1, 200, dtype=dtype)
    change = draw(2, 3, 200, dtype=dtype) if has_change else None
    values, scales, total = fp8.norm_round_rows(x, change, norm, 1e-6)
    summed = x if change is None else x + change
    assert torch.equal(total, summed) or dtype == torch.bfloat16  # the interpreter cuts off there
    theirs = torch_norm_round(total, None, norm, 1e-6)
    same_rows((values, scales), theirs[:2], exact=False)


def test_a_broken_row_breaks_no_other() -> None:
    x = draw(0, 3, 64)
    before, scales = fp8.round_rows(x)
    x[1, 5] = torch.nan
    after, others = fp8.round_rows(x)
    assert torch.equal(after[[0, 2]].float(), before[[0, 2]].float())
    assert (after.float() * others[:, None])[1].isnan().all() and scales.isfinite().all()
    assert fp8.round_rows(draw(0, 0, 64))[0].shape == (0, 64)
    assert (fp8.round_rows(torch.zeros(1, 64))[0].float() == 0.0).all()


def close(ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> None:
    assert ours.dtype == dtype and ours.shape == theirs.shape
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(ours.float(), theirs, atol=4 * tolerance, rtol=2 * tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "inner", "outs"), [(1, 16, 16), (3, 1040, 32), (4, 304, 48)])
def test_products_of_few_rows(rows: int, inner: int, outs: int, dtype: torch.dtype) -> None:
    """Weights are in float8, activations are not rounded."""
    x, change, norm = (
        draw(seed, *shape, dtype=dtype)
        for seed, shape in enumerate([(rows, inner), (rows, inner), (inner,)])
    )
    for bias in (None, draw(4, outs)):
        weights = matrix(outs, inner, bias=bias)
        mine = weights if bias is None else matrix(outs, inner, bias=bias.to(dtype))
        for activation in ("none", "gelu"):
            y = linear.linear(x, mine, activation)
            close(y, torch_linear(x.float(), weights, activation), dtype)
    for gated in (False, True):
        y, total = linear.norm_linear(x, change, norm, 1e-6, weights, gated=gated)
        exact = total.float(), None, norm.float(), 1e-6, weights
        close(y, torch_norm_linear(*exact, gated=gated)[0], dtype)


@pytest.mark.parametrize("gated", [False, True])
def test_of_many_rows_activations_are_rounded(gated: bool) -> None:
    x, change, norm = draw(0, 9, 64), draw(2, 9, 64), draw(3, 64)
    weights = matrix(32, 64, bias=draw(4, 32))
    assert (
        tile("few rows 8 bits", 9).size == 1 and tile("few rows 8 bits", chosen.FEW_ROWS).size > 1
    )
    assert tile("few rows 8 bits", chosen.FEW_ROWS + 1).size == 1  # the twin's place is the table's
    for activation in ("none", "gelu", "gelu_tanh"):
        ours = linear.linear(x, weights, activation)
        torch.testing.assert_close(ours, torch_linear(x, weights, activation))
    ours, total = linear.norm_linear(x, change, norm, 1e-6, weights, gated=gated)
    theirs, summed = torch_norm_linear(x, change, norm, 1e-6, weights, gated=gated)
    torch.testing.assert_close(total, summed)
    # A number between two steps may be taken for either of them.
    torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("found", [Tile(4, 4, 1), Tile(16, 4, 3), Tile(8, 8, 8), Tile(2, 1, 2)])
def test_every_tile_gives_the_same(found: Tile) -> None:
    x, norm, weights = draw(0, 2, 704), draw(3, 704), matrix(32, 704)
    expected, _ = torch_norm_linear(x, x, norm, 1e-6, weights, gated=True)
    with trying("few rows 8 bits", found), trying("few rows 8 bits, gated", found):
        ours = linear.norm_linear(x, x, norm, 1e-6, weights, gated=True)[0]
        close(ours, expected, x.dtype)
        close(linear.linear(x, weights), torch_linear(x, weights), x.dtype)


def test_nothing_at_all() -> None:
    assert linear.linear(draw(0, 0, 32), matrix(16, 32)).shape == (0, 16)
    assert linear.linear(draw(0, 0, 32), in_int8(16, 32)).shape == (0, 16)


def in_int8(outs: int, inner: int, *, bias: Tensor | None = None) -> LinearWeights:
    values, scales = chosen.round_int8(draw(1, outs, inner) / inner**0.5)
    return pack_linear(values, bias, scales=scales)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "inner", "outs"), [(1, 16, 16), (4, 304, 48), (9, 128, 48), (70, 272, 32)]
)
def test_weights_in_int8_meet_whole_inputs(
    rows: int, inner: int, outs: int, dtype: torch.dtype
) -> None:
    x, change, norm = (
        draw(seed, *shape, dtype=dtype)
        for seed, shape in enumerate([(rows, inner), (rows, inner), (inner,)])
    )
    for bias in (None, draw(4, outs)):
        weights = in_int8(outs, inner, bias=bias)
        mine = weights if bias is None else in_int8(outs, inner, bias=bias.to(dtype))
        for activation in ("none", "gelu_tanh"):
            y = linear.linear(x, mine, activation)
            close(y, torch_linear(x.float(), weights, activation), dtype)
    for gated in (False, True):
        y, total = linear.norm_linear(x, change, norm, 1e-6, weights, gated=gated)
        exact = total.float(), None, norm.float(), 1e-6, weights
        expected = torch_norm_linear(*exact, gated=gated)[0]
        scale = expected.abs().max().clamp(min=1.0)  # of many rows, what is normalised is rounded
        close(y / scale.to(dtype), expected / scale, dtype)


@pytest.mark.parametrize("found", [Tile(16, 4, 2), Tile(64, 4, 1), Tile(128, 8, 3)])
def test_every_tile_of_weights_in_int8_gives_the_same(found: Tile) -> None:
    x, weights = draw(0, 5, 208), in_int8(80, 208, bias=draw(4, 80))
    with trying("rows int8", found):
        close(linear.linear(x, weights), torch_linear(x, weights), x.dtype)
