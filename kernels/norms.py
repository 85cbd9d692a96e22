"""Layer normalisation and the activation between two linears."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.kernels.choice import has_triton


@has_triton("norms")
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis, statistics in float32.

    x: [..., width]; weight, bias: [width]. Returns [..., width] in x's dtype.
    """
    return F.layer_norm(x, weight.shape, weight, bias, eps)


@has_triton("norms")
def add_layer_norm_(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> Tensor:
    """Adds a layer's output to its residual stream, in place; returns that sum normalised.

    x, residual: [..., width] of one dtype; residual is contiguous, and becomes x + residual.
    Returns layer_norm(x + residual), a new tensor.
    """
    return layer_norm(residual.add_(x), weight, bias, eps)


@has_triton("activations")
def gelu_(x: Tensor, approximation: str = "none") -> Tensor:
    """x * Phi(x) in place; Phi: the exact normal distribution function ("none"), or its
    approximation by a hyperbolic tangent ("tanh"; Hendrycks and Gimpel, 2016).

    x: any shape and float dtype, its elements side by side. Returns x.
    """
    torch.ops.aten.gelu_(x, approximate=approximation)
    return x
