"""Products of few rows, norm and activation within them, against torch's, under the interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels.linear import LinearWeights
from lookhear.kernels.linear import linear as chosen_linear
from lookhear.kernels.linear import norm_linear as chosen_norm_linear
from lookhear.kernels.triton import linear as triton_linear
from lookhear.kernels.triton.configs import Tile, tile, trying

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-6, torch.float16: 2**-9}
torch_linear = chosen_linear.__wrapped__  # type: ignore[attr-defined]
torch_norm_linear = chosen_norm_linear.__wrapped__  # type: ignore[attr-defined]


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def matrix(outs: int, inner: int, dtype: torch.dtype, *, bias: bool = False) -> LinearWeights:
    """As a GPU has it: where it was read to, in no other layout."""
    weight = (draw(1, outs, inner) / inner**0.5).to(dtype)
    added = draw(2, outs, dtype=dtype) if bias else None
    return LinearWeights(weight, added, False, outs, inner)


def exact(weights: LinearWeights) -> LinearWeights:
    bias = None if weights.bias is None else weights.bias.float()
    return LinearWeights(
        weights.weight.float(), bias, False, weights.out_features, weights.in_features
    )


def close(ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> None:
    """theirs: in float32."""
    assert ours.dtype == dtype and ours.shape == theirs.shape
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(ours.float(), theirs, atol=2 * tolerance, rtol=tolerance)


@pytest.fixture
def is_fused(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the products that went another way than the kernel's."""
    others: list[int] = []

    def passed_on(x: Tensor, *args: object) -> Tensor:
        others.append(x.numel() // x.shape[-1])
        y: Tensor = torch_linear(x, *args)
        return y

    monkeypatch.setattr(chosen_linear, "__wrapped__", passed_on)
    return others


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "inner", "outs"),
    [(1, 5, 3), (1, 123, 17), (2, 256, 8), (3, 1023, 9), (4, 2304, 5), (1, 4400, 11)],
)
def test_linear(rows: int, inner: int, outs: int, dtype: torch.dtype, is_fused: list[int]) -> None:
    x = draw(0, rows, inner, dtype=dtype)
    for bias in (False, True):
        weights = matrix(outs, inner, dtype, bias=bias)
        for activation in ("none", "gelu", "gelu_tanh"):
            ours = triton_linear.linear(x, weights, activation)
            close(ours, torch_linear(x.float(), exact(weights), activation), dtype)
    assert is_fused == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("has_change", [False, True])
@pytest.mark.parametrize(("rows", "inner", "outs"), [(1, 123, 18), (2, 1040, 10), (3, 300, 34)])
def test_norm_linear(
    rows: int,
    inner: int,
    outs: int,
    has_change: bool,
    gated: bool,
    dtype: torch.dtype,
    is_fused: list[int],
) -> None:
    x, norm = draw(0, rows, inner, dtype=dtype), draw(3, inner, dtype=dtype)
    change = draw(4, rows, inner, dtype=dtype) if has_change else None
    weights = matrix(outs, inner, dtype, bias=True)
    y, total = triton_linear.norm_linear(x, change, norm, 1e-6, weights, gated=gated)
    # The sum is rounded before it is normalised.
    summed = x if change is None else x + change
    assert torch.equal(total, summed) or dtype == torch.bfloat16  # the interpreter cuts off there
    expected, _ = torch_norm_linear(
        total.float(), None, norm.float(), 1e-6, exact(weights), gated=gated
    )
    close(y, expected, dtype)
    assert is_fused == []


def test_three_axes_are_rows_too() -> None:
    x, weights = draw(0, 3, 1, 40), matrix(6, 40, torch.float32)
    close(triton_linear.linear(x, weights), torch_linear(x, weights), torch.float32)


def test_many_rows_are_the_librarys(is_fused: list[int]) -> None:
    x, weights, norm = draw(0, 9, 40), matrix(6, 40, torch.float32), draw(3, 40)
    assert tile("few rows", 9).size == 1
    assert torch.equal(triton_linear.linear(x, weights), torch_linear(x, weights))
    ours = triton_linear.norm_linear(x, x, norm, 1e-6, weights, gated=True)
    theirs = torch_norm_linear(x, x, norm, 1e-6, weights, gated=True)
    for mine, other in zip(ours, theirs, strict=True):
        close(mine, other, torch.float32)
    assert is_fused == [9, 9]


def test_nothing_at_all() -> None:
    weights = matrix(6, 40, torch.float32)
    assert triton_linear.linear(draw(0, 0, 40), weights).shape == (0, 6)


def test_one_broken_row_breaks_no_other() -> None:
    x, weights, norm = draw(0, 3, 300), matrix(10, 300, torch.float32), draw(3, 300)
    before = triton_linear.norm_linear(x, x, norm, 1e-6, weights)[0]
    x[1] = torch.nan
    after = triton_linear.norm_linear(x, x, norm, 1e-6, weights)[0]
    assert torch.equal(after[[0, 2]], before[[0, 2]]) and after[1].isnan().all()


@pytest.mark.parametrize("found", [Tile(4, 4, 1), Tile(16, 4, 3), Tile(8, 8, 8), Tile(2, 1, 2)])
def test_every_tile_gives_the_same(found: Tile) -> None:
    x, norm = draw(0, 2, 700), draw(3, 700)
    weights = matrix(20, 700, torch.float32)
    expected, _ = torch_norm_linear(x, x, norm, 1e-6, weights, gated=True)
    with trying("few rows", found):
        close(
            triton_linear.norm_linear(x, x, norm, 1e-6, weights, gated=True)[0], expected, x.dtype
        )
        close(triton_linear.linear(x, weights), torch_linear(x, weights), x.dtype)
