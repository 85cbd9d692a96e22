"""Triton's kernels against torch's, under the interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import activations, add_rms_norm, norms, rms_norm, swiglu
from lookhear.kernels.triton import activations as triton_activations
from lookhear.kernels.triton import norms as triton_norms

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# The interpreter cuts bfloat16 off where a GPU rounds: at every cast up to one place off.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-6, torch.float16: 2**-10}


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(ours: Tensor, theirs: Tensor) -> None:
    tolerance = TOLERANCE[theirs.dtype]
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 123), (1, 1023), (2, 3, 16), (0, 8), (9, 1)])
def test_rms_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = draw(0, *shape, dtype=dtype), draw(1, shape[-1], dtype=dtype)
    residual = draw(2, *shape, dtype=dtype)
    close(triton_norms.rms_norm(x, weight, 1e-6), rms_norm(x, weight, 1e-6))
    ours, theirs = (f(x, residual, weight, 1e-6) for f in (triton_norms.add_rms_norm, add_rms_norm))
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_of_heads_within_a_fused_projection(dtype: torch.dtype) -> None:
    fused, weight = draw(0, 7, 6, 20, dtype=dtype), draw(1, 4, 20, dtype=dtype)
    fused[:, 4:] = torch.nan
    qk = fused[:, :4]
    close(triton_norms.rms_norm(qk, weight, 1e-6), rms_norm(qk, weight, 1e-6))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 123), (1, 1023), (2, 3, 16), (0, 8)])
def test_layer_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = draw(0, *shape, dtype=dtype) + 3.0
    weight, bias = draw(1, shape[-1], dtype=dtype), draw(2, shape[-1], dtype=dtype)
    close(triton_norms.layer_norm(x, weight, bias), norms.layer_norm(x, weight, bias))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 123), (1, 1023), (2, 3, 16), (0, 8)])
def test_layer_norm_of_a_sum(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, total = draw(0, *shape, dtype=dtype), draw(1, *shape, dtype=dtype)
    weight, bias = draw(2, shape[-1], dtype=dtype), draw(3, shape[-1], dtype=dtype)
    expected = total.clone()
    normed = norms.add_layer_norm_(x, expected, weight, bias)
    close(triton_norms.add_layer_norm_(x, total, weight, bias), normed)
    close(total, expected)
    assert torch.equal(norms.layer_norm(expected, weight, bias), normed)


def test_layer_norm_of_a_large_mean_is_exact() -> None:
    x = draw(0, 2, 256) + 1000.0
    one, zero = torch.ones(256), torch.zeros(256)
    ours = triton_norms.layer_norm(x, one, zero)
    exact = norms.layer_norm(x.double(), one.double(), zero.double())
    torch.testing.assert_close(ours, exact.float(), atol=2e-3, rtol=0.0)


def test_one_broken_row_breaks_no_other() -> None:
    x, weight = draw(0, 9, 33), draw(1, 33)
    before = triton_norms.rms_norm(x, weight, 1e-6)
    x[4] = torch.nan
    after = triton_norms.rms_norm(x, weight, 1e-6)
    others = torch.arange(9) != 4
    assert torch.equal(after[others], before[others])
    assert after[4].isnan().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 246), (1, 2046), (2, 3, 8), (0, 8)])
def test_swiglu(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = draw(0, *shape, dtype=dtype) * 3.0
    close(triton_activations.swiglu(x), swiglu(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("approximation", ["none", "tanh"])
@pytest.mark.parametrize("shape", [(5, 123), (1, 1023), (0, 8)])
def test_gelu(shape: tuple[int, ...], approximation: str, dtype: torch.dtype) -> None:
    ours = draw(0, *shape, dtype=dtype) * 3.0
    theirs = ours.clone()
    assert triton_activations.gelu_(ours, approximation) is ours
    close(ours, activations.gelu_(theirs, approximation))


@pytest.mark.parametrize("approximation", ["none", "tanh"])
def test_gelu_far_from_zero(approximation: str) -> None:
    ours = torch.tensor([-9.0, -5.0, -3.0, -1e-30, 0.0, 3.0, 5.0, 9.0, 40.0])
    exact = activations.gelu_(ours.double(), approximation)
    triton_activations.gelu_(ours, approximation)
    torch.testing.assert_close(ours, exact.float(), atol=2e-6, rtol=1e-6)


def test_gelu_where_channels_are_last() -> None:
    ours = draw(0, 2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    expected = activations.gelu_(ours.clone())
    close(triton_activations.gelu_(ours), expected)
    assert ours.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(AssertionError):
        triton_activations.gelu_(ours[:, :2])
