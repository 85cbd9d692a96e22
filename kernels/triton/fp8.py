"""Activations rounded to float8 with a scale for each row, behind a residual sum and a norm or
without: a row is read once, kept in registers, written once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.fp8 import FP8, LARGEST, LEAST
from lookhear.kernels.triton.configs import tile
from lookhear.kernels.triton.softmax import INTERPRETED

_LARGEST = tl.constexpr(LARGEST)
_LEAST = tl.constexpr(LEAST * LARGEST)


def round_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """x / scale in float8, scale = max |x| / 448 of a row.

    x: [rows, width], any float dtype. Returns ([rows, width] float8, [rows] float32). Grid:
    (rows,).
    """
    values, scales, _ = _rounded(x, None, None, 0.0)
    return values, scales


def norm_round_rows(
    x: Tensor, change: Tensor | None, norm: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """y / scale in float8, y = (x + change) / sqrt(mean((x + change)^2) + eps) * norm.

    x, change: [rows, width] of one dtype, change may be None; norm: [width]. Returns ([rows, width]
    float8, [rows] float32, x + change). Grid: (rows,). Rounded to x's dtype where the separate
    operations round.
    """
    return _rounded(x, change, norm, eps)


def _rounded(
    x: Tensor, change: Tensor | None, norm: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    x = x.contiguous()
    rows, width = x.shape
    values = torch.empty((rows, width), dtype=FP8, device=x.device)
    scales = torch.empty(rows, dtype=torch.float32, device=x.device)
    total = x if change is None else torch.empty_like(x)
    if x.numel() > 0:
        _round_kernel[(rows,)](
            x,
            x if change is None else change.contiguous(),
            x if norm is None else norm.contiguous(),
            values,
            scales,
            total,
            width,
            eps,
            WIDTH=triton.next_power_of_2(width),
            HAS_CHANGE=change is not None,
            HAS_NORM=norm is not None,
            num_warps=tile("norm", width).warps,
        )
    return values, scales, total


@triton.jit
def to_fp8(x):
    """x: float32, of no more than 448. Rounded to the nearest, to even where two are."""
    if INTERPRETED:  # it loses what is carried into the exponent: rounded by hand, nothing is
        bits = x.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000
        near = bits.to(tl.float32, bitcast=True)
        # Below 2^-6 the steps are 2^-9, as those of a float32 around 1.5 * 2^14 are.
        small = (x + 24576.0) - 24576.0
        x = tl.where(tl.abs(x) < 0.015625, small, tl.where(x == x, near, x))
    return x.to(tl.float8e4nv)


@triton.jit
def saturated_fp8(x):
    """x: any float. Rounded to float8 without a scale: what is beyond 448 is 448, NaN stays."""
    x = x.to(tl.float32)
    return to_fp8(tl.where(x > _LARGEST, _LARGEST, tl.where(x < -_LARGEST, -_LARGEST, x)))


@triton.jit
def _round_kernel(
    x_ptr,
    change_ptr,
    norm_ptr,
    values_ptr,
    scales_ptr,
    total_ptr,
    width,
    eps,
    WIDTH: tl.constexpr,
    HAS_CHANGE: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)
    real = column < width
    place = row * width + column
    x = tl.load(x_ptr + place, mask=real, other=0.0)
    if HAS_CHANGE:
        change = tl.load(change_ptr + place, mask=real, other=0.0)
        x = (change.to(tl.float32) + x.to(tl.float32)).to(x.dtype)
        tl.store(total_ptr + place, x, mask=real)
    exact = x.to(tl.float32)
    if HAS_NORM:
        mean = tl.sum(exact * exact, axis=0) / width
        quotient = (exact * (1.0 / tl.sqrt(mean + eps))).to(x.dtype).to(tl.float32)
        norm = tl.load(norm_ptr + column, mask=real, other=0.0).to(tl.float32)
        exact = (quotient * norm).to(x.dtype).to(tl.float32)
    # Not tl.max, to which a NaN is nothing: where one is, all of the row shall be.
    broken = tl.sum(exact * 0.0, axis=0)
    scale = tl.maximum(tl.max(tl.abs(exact), axis=0), _LEAST) / _LARGEST + broken
    tl.store(values_ptr + place, to_fp8(exact / scale), mask=real)
    tl.store(scales_ptr + row, scale)
