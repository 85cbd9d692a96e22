"""Weights of 4 bits: how they are rounded and laid out, what their products are worth."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import in_int4, linear, norm_linear, rms_norm
from lookhear.kernels.int4.weights import (
    Int4Weights,
    int4_group,
    join_int4,
    pack_int4,
    round_int4,
)


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def drawn_int4(out: int, inside: int, group: int, *, zeros: bool) -> tuple[Int4Weights, Tensor]:
    """And what they stand for."""
    values = torch.randint(0, 16, (out, inside), generator=torch.Generator().manual_seed(out))
    scales = draw(1, out, inside // group)
    middle = torch.randint(0, 16, scales.shape) if zeros else torch.full_like(scales, 8).int()
    wide = scales.repeat_interleave(group, 1), middle.repeat_interleave(group, 1)
    whole = (values - wide[1]) * wide[0]
    told = middle.to(torch.uint8) if zeros else None
    return pack_int4(values.to(torch.uint8), scales, told), whole


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("group", [32, 64, 128])
def test_what_is_packed_is_what_it_stands_for(group: int, zeros: bool) -> None:
    weights, whole = drawn_int4(6, 384, group, zeros=zeros)
    assert weights.group == group and weights.numbers.shape == (6, 192)
    assert torch.equal(weights.whole(), whole)


def test_rounding() -> None:
    weight = draw(0, 48, 256) * torch.logspace(-4, 2, 48)[:, None]
    weights = round_int4(weight, 128)
    back = weights.whole()
    largest = weight.view(48, 2, 128).abs().amax(2)
    # A quarter of the furthest may be cut off; what was rounded so stays as it is.
    assert ((back - weight).view(48, 2, 128).abs().amax(2) <= largest * 0.35).all()
    assert torch.equal(round_int4(back, 128).whole(), back)
    error = (back - weight).pow(2).mean(1).sqrt() / weight.std(1)
    assert error.mean() < 0.1
    in_bfloat16 = round_int4(weight.bfloat16(), 128)
    assert in_bfloat16.scales.dtype == torch.bfloat16
    error = (in_bfloat16.whole() - weight).pow(2).mean(1).sqrt() / weight.std(1)
    assert error.mean() < 0.1


def test_zeros_stay() -> None:
    weight = torch.zeros(2, 64)
    weight[1, 40] = 3.0
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert torch.equal(round_int4(weight.to(dtype), 32).whole(), weight)


def test_groups() -> None:
    assert [int4_group(n) for n in (2048, 192, 96, 48)] == [128, 64, 32, None]
    assert int4_group(2048, 64) == 64 and int4_group(2048, 2048) == 128
    assert int4_group(2048, 16) is None


def test_parts_beside_each_other_are_one() -> None:
    one, first = drawn_int4(6, 64, 32, zeros=False)
    other, second = drawn_int4(9, 64, 32, zeros=True)
    assert torch.equal(join_int4([one, other]).whole(), torch.cat([first, second]))
    both = join_int4([one, one])
    assert both.zeros is None and torch.equal(both.whole(), torch.cat([first, first]))


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_products(rows: int) -> None:
    weights, whole = drawn_int4(24, 192, 64, zeros=True)
    x, bias = draw(2, rows, 192), draw(3, 24)
    for added in (None, bias):
        packed = in_int4(weights, added)
        expected = torch.nn.functional.linear(x, whole, added)
        torch.testing.assert_close(linear(x, packed), expected, atol=1e-3, rtol=1e-5)
        activated = torch.nn.functional.gelu(expected)
        torch.testing.assert_close(linear(x, packed, "gelu"), activated, atol=1e-3, rtol=1e-5)
    assert linear(x[:, None].bfloat16(), in_int4(weights)).shape == (rows, 1, 24)
    norm = draw(4, 192)
    y, total = norm_linear(x, x, norm, 1e-6, in_int4(weights), gated=True)
    assert torch.equal(total, x + x)
    gate, up = linear(rms_norm(total, norm, 1e-6), in_int4(weights)).chunk(2, 1)
    torch.testing.assert_close(y, torch.nn.functional.silu(gate) * up)
