"""SwiGLU and GELU: one pass over what a projection gave."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.triton.configs import tile


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


def gelu_(x: Tensor, approximation: str = "none") -> Tensor:
    """x * Phi(x) in place, in float32. "none": Phi(x) = 1 - pdf(x) p(1 / (1 + 0.2316419 x)) for
    x >= 0, p of degree 5, and 1 - Phi(-x) below, exact to 7.5e-8 (Abramowitz and Stegun, 26.2.17):
    half the instructions of erf. "tanh": Phi(x) = sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).

    x: any shape and float dtype, its elements side by side, in any order. Returns x.
    Grid: (elements / tile,).
    """
    assert x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last), x.stride()
    assert approximation in ("none", "tanh"), approximation
    if x.numel() > 0:
        size, warps, _ = tile("elementwise", x.numel())
        _gelu_kernel[(triton.cdiv(x.numel(), size),)](
            x, x.numel(), IS_TANH=approximation == "tanh", SIZE=size, num_warps=warps
        )
    return x


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
def _gelu_kernel(x_ptr, count, IS_TANH: tl.constexpr, SIZE: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    real = place < count
    x = tl.load(x_ptr + place, mask=real, other=0.0).to(tl.float32)
    if IS_TANH:
        # 2^u, u = -2 log2(e) sqrt(2 / pi) (x + 0.044715 x^3)
        share = 1.0 / (1.0 + tl.exp2(x * (x * x * -0.10294325 - 2.3022082)))
    else:
        t = 1.0 / (1.0 + 0.2316419 * tl.abs(x))
        # The coefficients divided by sqrt(2 pi), for the density.
        p = 0.5307027145 * t - 0.7265760130
        p = p * t + 0.7107068705
        p = p * t - 0.1422483683
        p = p * t + 0.1274147959
        beyond = p * t * tl.exp2(x * x * -0.7213475204)  # Phi(-|x|)
        share = tl.where(x < 0.0, beyond, 1.0 - beyond)
    tl.store(x_ptr + place, (x * share).to(x_ptr.dtype.element_ty), mask=real)
