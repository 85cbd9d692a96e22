from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from lookhear.kernels import (
    default_cpu_dtype,
    linear,
    pack_conv,
    pack_linear,
    supports_half_weights,
)
from lookhear.kernels.linear import FEW_ROWS, PACK_ROWS, padded_rows


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["none", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("rows", [1, 3, 16, 70])
def test_linear_plain_and_packed(rows: int, activation: str, bias: bool, pack: bool) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight, b = torch.randn(37, 20, generator=generator), torch.randn(37, generator=generator)
    x = torch.randn(2, rows, 20, generator=generator)
    weights = pack_linear(weight, b if bias else None, pack=pack)
    expected = x.double() @ weight.T.double() + (b.double() if bias else 0)
    if activation == "gelu":
        expected = expected * 0.5 * (1 + torch.erf(expected / 2**0.5))
    elif activation == "gelu_tanh":
        inside = (2 / torch.pi) ** 0.5 * (expected + 0.044715 * expected**3)
        expected = expected * 0.5 * (1 + inside.tanh())
    out = linear(x, weights, activation)
    assert out.shape == (2, rows, 37)
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)


def test_large_weights_are_packed_and_small_ones_are_not() -> None:
    assert not pack_linear(torch.zeros(64, 64)).packed
    assert pack_linear(torch.zeros(1024, 1024)).packed


def test_few_rows_are_multiplied_plainly_by_small_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(37, 20, generator=generator), torch.randn(37, generator=generator)
    weights = pack_linear(weight, bias, pack=True)
    assert weights.packed == (weights.plain is not None)
    x = torch.randn(2 * FEW_ROWS, 20, generator=generator)
    few = torch.cat([linear(x[:FEW_ROWS], weights), linear(x[FEW_ROWS:], weights)])
    torch.testing.assert_close(few, linear(x, weights), atol=1e-5, rtol=1e-5)


@given(st.integers(1, 100_000))
def test_a_product_has_few_sizes_and_little_padding(rows: int) -> None:
    assert rows <= padded_rows(rows) <= max(PACK_ROWS, rows * 9 / 8 + 1)
    assert padded_rows(padded_rows(rows)) == padded_rows(rows)
    assert padded_rows(rows) <= padded_rows(rows + 1)


def test_sizes_up_to_a_minute_of_sound_are_few() -> None:
    assert len({padded_rows(rows) for rows in range(1, 3001)}) < 150


@pytest.mark.parametrize("rows", [17, 33, 101, 1499])
def test_padding_changes_no_row(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight, bias = torch.randn(48, 40, generator=generator), torch.randn(48, generator=generator)
    x = torch.randn(1, rows, 40, generator=generator)
    out = linear(x, pack_linear(weight, bias, pack=True), "gelu")
    assert out.shape == (1, rows, 48) and out.is_contiguous()
    torch.testing.assert_close(out, F.gelu(F.linear(x, weight, bias)), atol=1e-5, rtol=1e-5)


def test_bfloat16() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = torch.randn(64, 32, generator=generator), torch.randn(5, 32, generator=generator)
    out = linear(x.bfloat16(), pack_linear(weight.bfloat16()))
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), x @ weight.T, atol=0.2, rtol=0.05)


def test_a_dtype_that_cannot_be_packed_stays_plain() -> None:
    weights = pack_linear(torch.eye(4, dtype=torch.float64), pack=True)
    assert not weights.packed
    x = torch.arange(4, dtype=torch.float64)
    assert torch.equal(linear(x, weights), x)


@pytest.mark.parametrize(("inside", "height"), [(1, 6), (5, 6), (5, 1)])
def test_convolutions_with_channels_last(inside: int, height: int) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(4, inside, min(3, height), 3, generator=generator)
    x = torch.randn(2, inside, height, 8, generator=generator)
    y = F.conv2d(x, pack_conv(weight, channels_last=True), stride=2, padding=1)
    torch.testing.assert_close(y, F.conv2d(x, weight, stride=2, padding=1))
    if inside > 1:
        assert y.is_contiguous(memory_format=torch.channels_last)
    assert pack_conv(weight) is weight


@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.skipif(not supports_half_weights(), reason="this torch has no FBGEMM")
def test_half_weights_are_float16_and_nothing_else_is(activation: str) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(400, 300, generator=generator), torch.randn(400, generator=generator)
    x = torch.randn(2, 5, 300, generator=generator)
    weights = pack_linear(weight, bias, half=True)
    assert weights.half is not None and weights.weight.numel() == 0
    expected = x.double() @ weight.half().double().T + bias.double()
    if activation == "gelu":
        expected = expected * 0.5 * (1 + torch.erf(expected / 2**0.5))
    out = linear(x, weights, activation)
    assert out.shape == (2, 5, 400)
    torch.testing.assert_close(out.double(), expected, atol=1e-4, rtol=1e-5)
    alone = linear(x[1, 3:4], weights, activation)
    # Whatever its batch mates, but for the order of sums: without AVX-512 it depends on the rows.
    torch.testing.assert_close(alone[0], out[1, 3], atol=1e-4, rtol=1e-5)


@pytest.mark.skipif(not supports_half_weights(), reason="this torch has no FBGEMM")
@pytest.mark.parametrize("rows", [1, 2, 3, 40])
@pytest.mark.parametrize("activation", ["none", "gelu_tanh"])
def test_beside_bfloat16_a_half_copy_is_for_few_rows(rows: int, activation: str) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(400, 300, generator=generator), torch.randn(400, generator=generator)
    x = torch.randn(rows, 300, generator=generator).bfloat16()
    without = pack_linear(weight.bfloat16(), bias.bfloat16(), pack=True)
    if not without.packed:
        pytest.skip("this torch does not pack bfloat16")
    copied = pack_linear(weight.bfloat16(), bias.bfloat16(), pack=True, half=True)
    assert copied.half is not None and copied.packed
    out, expected = linear(x, copied, activation), linear(x, without, activation)
    assert out.dtype == torch.bfloat16
    if rows > 2:
        assert torch.equal(out, expected)
    else:  # rounded once, at the end
        torch.testing.assert_close(out, expected, atol=0.02, rtol=0.02)


def test_half_is_for_large_matrices() -> None:
    assert pack_linear(torch.zeros(64, 64), half=True).half is None
    assert pack_linear(torch.zeros(64, 64, dtype=torch.bfloat16), pack=True, half=True).half is None


def test_the_dtype_of_this_cpu_is_one_that_works() -> None:
    dtype = default_cpu_dtype()
    assert dtype in (torch.float32, torch.bfloat16)
    x = torch.ones(2, 16, dtype=dtype)
    out = linear(x, pack_linear(torch.eye(16, dtype=dtype), pack=True))
    assert torch.equal(out, x)
