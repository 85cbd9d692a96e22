"""SwiGLU and GELU: one pass over what a projection gave."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.triton.configs import tile


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up, silu(x) = x * sigmoid(x), in float32.

    gate_up: [..., 2 * width], any float dtype, the gate's half first. Returns [..., width] in its
    dtype. Grid: (rows, width / tile). silu(gate) is rounded before the product, as torch does.
    """
    gate_up = gate_up.contiguous()
    width = gate_up.shape[-1] // 2
    out = torch.empty((*gate_up.shape[:-1], width), dtype=gate_up.dtype, device=gate_up.device)
    if out.numel() > 0:
        size, warps, _ = tile("elementwise", width)
        grid = (out.numel() // width, triton.cdiv(width, size))
        _swiglu_kernel[grid](gate_up, out, width, SIZE=size, num_warps=warps)
    return out


def gelu(x: Tensor) -> Tensor:
    """x * Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2, in float32.

    x: any shape and float dtype. Returns the same. Grid: (elements / tile,).
    """
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel() > 0:
        size, warps, _ = tile("elementwise", x.numel())
        _gelu_kernel[(triton.cdiv(x.numel(), size),)](x, out, x.numel(), SIZE=size, num_warps=warps)
    return out


@triton.jit
def _swiglu_kernel(gate_up_ptr, out_ptr, width, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    real = column < width
    gate = tl.load(gate_up_ptr + row * 2 * width + column, mask=real, other=0.0)
    up = tl.load(gate_up_ptr + (row * 2 + 1) * width + column, mask=real, other=0.0)
    exact = gate.to(tl.float32)
    silu = (exact * tl.sigmoid(exact)).to(gate.dtype).to(tl.float32)
    y = silu * up.to(tl.float32)
    tl.store(out_ptr + row * width + column, y.to(out_ptr.dtype.element_ty), mask=real)


@triton.jit
def _gelu_kernel(x_ptr, out_ptr, count, SIZE: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    real = place < count
    x = tl.load(x_ptr + place, mask=real, other=0.0).to(tl.float32)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + place, y.to(out_ptr.dtype.element_ty), mask=real)
