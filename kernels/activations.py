"""The activations between the two products of a feed-forward layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.kernels.choice import has_triton


@has_triton
def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up, silu(x) = x * sigmoid(x) (Shazeer, 2020).

    gate_up: [..., 2 * width], the gate's half first, as one fused projection gives it.
    Returns [..., width].
    """
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


@has_triton
def gelu_(x: Tensor, approximation: str = "none") -> Tensor:
    """x * Phi(x) in place; Phi: the exact normal distribution function ("none"), or its
    approximation by a hyperbolic tangent ("tanh"; Hendrycks and Gimpel, 2016).

    x: any shape and float dtype, its elements side by side. Returns x.
    """
    torch.ops.aten.gelu_(x, approximate=approximation)
    return x
