"""Weights and activations in float8: how they are rounded, what their products are worth."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import fp8
from lookhear.kernels.fp8 import FP8, norm_round_rows, round_rows, scaled_product
from lookhear.kernels.linear import linear, norm_linear, pack_linear
from lookhear.kernels.norms import rms_norm


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_a_row_is_its_values_times_its_scale() -> None:
    x = draw(0, 7, 96) * torch.logspace(-6, 6, 7)[:, None]
    values, scales = round_rows(x)
    assert values.dtype == FP8 and scales.dtype == torch.float32
    assert torch.equal(values.float().abs().amax(1), torch.full((7,), fp8.LARGEST))
    back = values.float() * scales[:, None]
    # Four bits count, or for small numbers steps of 2^-9 of a scale.
    most = torch.maximum(x.abs() / 16, scales[:, None] / 1024) * 1.001
    assert ((back - x).abs() <= most).all()


def test_what_was_in_float8_stays_as_it_was() -> None:
    values, scales = round_rows(draw(0, 5, 64))
    again, found = round_rows(values.float() * scales[:, None])
    assert torch.equal(again.view(torch.uint8), values.view(torch.uint8))
    torch.testing.assert_close(found, scales, rtol=1e-6, atol=0.0)


def test_zeros_stay_and_a_broken_row_breaks_no_other() -> None:
    x = draw(0, 4, 32)
    x[0], x[1, 3], x[2, 5] = 0.0, torch.nan, torch.inf
    values, scales = round_rows(x)
    back = values.float() * scales[:, None]
    assert (back[0] == 0.0).all() and back[1:3].isnan().any(1).all()
    assert back[3].isfinite().all()
    weight, factors = round_rows(draw(1, 16, 32))
    y = scaled_product(x, weight, factors, None, rounds=True)
    assert (y[0] == 0.0).all() and y[1:3].isnan().all() and y[3].isfinite().all()


@pytest.mark.parametrize("rows", [1, fp8.FEW_ROWS, fp8.FEW_ROWS + 1, 40])
def test_products_are_near_those_of_whole_weights(rows: int) -> None:
    """Few rows are not rounded: their error is that of the weights alone."""
    weight, bias, x = draw(0, 48, 256), draw(1, 48), draw(2, rows, 256)
    values, scales = round_rows(weight)
    packed = pack_linear(values, bias, scales=scales)
    exact = torch.nn.functional.linear(x, weight, bias)
    error = float((linear(x, packed) - exact).pow(2).mean().sqrt() / exact.std())
    assert error < (0.035 if rows <= fp8.FEW_ROWS else 0.05)
    known = torch.nn.functional.linear(x, values.float() * scales[:, None], bias)
    if rows <= fp8.FEW_ROWS:
        torch.testing.assert_close(linear(x, packed), known, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("count", [3, 9])
def test_a_row_does_not_depend_on_its_neighbours(count: int) -> None:
    values, scales = round_rows(draw(0, 32, 64))
    packed, x = pack_linear(values, scales=scales), draw(1, count, 64)
    before = linear(x, packed)
    other = x.clone()
    other[0] *= 1000.0
    torch.testing.assert_close(linear(other, packed)[1:], before[1:])


@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("gated", [False, True])
def test_a_norm_in_front_is_the_same_as_one_before(rows: int, gated: bool) -> None:
    values, scales = round_rows(draw(0, 32, 64))
    packed, norm = pack_linear(values, scales=scales), draw(3, 64)
    x, change = draw(1, rows, 64), draw(2, rows, 64)
    y, total = norm_linear(x, change, norm, 1e-6, packed, gated=gated)
    assert torch.equal(total, x + change)
    alone = linear(rms_norm(total, norm, 1e-6), packed)
    if gated:
        gate, up = alone.chunk(2, dim=1)
        alone = torch.nn.functional.silu(gate) * up
    torch.testing.assert_close(y, alone, atol=1e-4, rtol=1e-4)
    rounded, factors, again = norm_round_rows(x, change, norm, 1e-6)
    expected, its = round_rows(rms_norm(total, norm, 1e-6))
    assert torch.equal(again, total)
    torch.testing.assert_close(
        rounded.float() * factors[:, None], expected.float() * its[:, None], atol=1e-4, rtol=0.07
    )


def test_devices_without_it_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "expected a GPU of compute capability 8.9 or more"
    refused = fp8.fp8_refusal("cpu")
    assert refused is not None and refused.startswith(expected) and "'cpu'" in refused
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100")
    for found, accepted in (((8, 0), False), ((8, 9), True), ((9, 0), True), ((12, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, is_=found: is_)
        refused = fp8.fp8_refusal("cuda:0")
        assert (refused is None) == accepted
        assert accepted or (refused is not None and "NVIDIA A100 has 8.0" in refused)


def test_sizes_that_the_library_does_not_take_do_not_fit() -> None:
    assert fp8.fits_fp8(16, 2048) and not fp8.fits_fp8(17, 2048) and not fp8.fits_fp8(16, 40)
