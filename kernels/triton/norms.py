"""RMS and layer normalisation: a row is read once, kept in registers, written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.triton.configs import tile


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis, the quotient in float32.

    x: [..., width], any strides if it has three axes; weight: [width], or [heads, width] for x
    [..., heads, width]. Any float dtypes. Returns the shape and dtype of x, contiguous.
    Grid: (rows of x / tile,). The quotient is rounded to x's dtype before the weight, as in torch.
    """
    return _rms_norm(x, None, weight, eps)[0]


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The sum of a layer's output and its residual stream, and that sum normalised: one pass.

    x, residual: [..., width] of one dtype. Returns (rms_norm(x + residual), x + residual). The sum
    is rounded to the dtype before it is normalised, so that both agree. Grid as in `rms_norm`.
    """
    assert x.shape == residual.shape and x.dtype == residual.dtype, (x, residual)
    normed, total = _rms_norm(x, residual, weight, eps)
    assert total is not None
    return normed, total


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis, all in float32.

    x: [..., width]; weight, bias: [width], any float dtypes. Returns [..., width] in x's dtype.
    Grid: (rows of x / tile,). The variance is that of differences from the mean: two sums over
    registers, exact where the mean is large.
    """
    return _layer_norm(x, None, weight, bias, eps)


def add_layer_norm_(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> Tensor:
    """Adds a layer's output to its residual stream, in place; returns that sum normalised: one
    pass.

    x, residual: [..., width] of one dtype; residual is contiguous, and becomes x + residual,
    rounded before it is normalised, so that both agree. Returns layer_norm(x + residual).
    Grid as in `layer_norm`.
    """
    assert x.shape == residual.shape and x.dtype == residual.dtype, (x, residual)
    assert residual.is_contiguous(), residual.stride()
    return _layer_norm(x, residual, weight, bias, eps)


def _layer_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, eps: float
) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    width = x.shape[-1]
    rows = x.numel() // width
    if rows > 0:
        size, warps, _ = tile("norm", width)
        _layer_norm_kernel[(triton.cdiv(rows, size),)](
            x,
            x if residual is None else residual,
            weight.contiguous(),
            bias.contiguous(),
            out,
            rows,
            width,
            eps,
            HAS_RESIDUAL=residual is not None,
            ROWS=size,
            WIDTH=triton.next_power_of_2(width),
            num_warps=warps,
        )
    return out


def _rms_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor | None]:
    width = x.shape[-1]
    heads = weight.shape[0] if weight.dim() == 2 else 1
    if residual is not None or x.dim() != 3 or x.stride(-1) != 1:
        x = x.contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    total = None
    if residual is not None:
        residual = residual.contiguous()
        total = torch.empty_like(out)
    rows = x.numel() // width
    # Rows lie in groups (the heads of a token) that may be apart: queries and keys are normalised
    # where the fused projection left them.
    inner = x.shape[1] if x.dim() == 3 else 1
    group_stride, row_stride = (x.stride(0), x.stride(1)) if x.dim() == 3 else (width, 0)
    if rows > 0:
        size, warps, _ = tile("norm", width)
        _rms_norm_kernel[(triton.cdiv(rows, size),)](
            x,
            x if residual is None else residual,
            weight.contiguous(),
            out,
            out if total is None else total,
            rows,
            inner,
            heads,
            group_stride,
            row_stride,
            width,
            eps,
            HAS_RESIDUAL=residual is not None,
            ROWS=size,
            WIDTH=triton.next_power_of_2(width),
            num_warps=warps,
        )
    return out, total


@triton.jit(do_not_specialize=["rows"])
def _rms_norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    out_ptr,
    total_ptr,
    rows,
    inner,  # rows of a group
    heads,  # rows of weight; row r of x has that of head r % heads
    group_stride,
    row_stride,
    width,
    eps,
    HAS_RESIDUAL: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    # int64: tokens times a fused projection's stride pass 2^31 in long prefills.
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    real = (row < rows) & (column < width)
    places = row * width + column
    source = (row // inner) * group_stride + (row % inner) * row_stride + column
    x = tl.load(x_ptr + source, mask=real, other=0.0)
    if HAS_RESIDUAL:
        residual = tl.load(residual_ptr + places, mask=real, other=0.0)
        x = (x.to(tl.float32) + residual.to(tl.float32)).to(x.dtype)
        tl.store(total_ptr + places, x, mask=real)
    exact = x.to(tl.float32)
    mean = tl.sum(exact * exact, axis=1)[:, None] / width
    quotient = (exact * (1.0 / tl.sqrt(mean + eps))).to(x.dtype).to(tl.float32)
    weight = tl.load(weight_ptr + (row % heads) * width + column, mask=real, other=0.0)
    y = quotient * weight.to(tl.float32)
    tl.store(out_ptr + places, y.to(out_ptr.dtype.element_ty), mask=real)


@triton.jit(do_not_specialize=["rows"])
def _layer_norm_kernel(
    x_ptr,
    residual_ptr,  # read and written, if there is one
    weight_ptr,
    bias_ptr,
    out_ptr,
    rows,
    width,
    eps,
    HAS_RESIDUAL: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    exists = column < width
    real = (row < rows) & exists
    x = tl.load(x_ptr + row * width + column, mask=real, other=0.0)
    if HAS_RESIDUAL:
        residual = tl.load(residual_ptr + row * width + column, mask=real, other=0.0)
        x = (x.to(tl.float32) + residual.to(tl.float32)).to(x.dtype)
        tl.store(residual_ptr + row * width + column, x, mask=real)
    x = x.to(tl.float32)
    mean = tl.sum(x, axis=1)[:, None] / width
    apart = tl.where(real, x - mean, 0.0)
    variance = tl.sum(apart * apart, axis=1)[:, None] / width
    weight = tl.load(weight_ptr + column, mask=exists, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + column, mask=exists, other=0.0).to(tl.float32)
    y = apart * (1.0 / tl.sqrt(variance + eps)) * weight + bias
    tl.store(out_ptr + row * width + column, y.to(out_ptr.dtype.element_ty), mask=real)
