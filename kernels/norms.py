"""Layer normalisation and the activation between two linears."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from kernels.choice import has_triton


@has_triton("norms")
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis, statistics in float32.

    x: [..., width]; weight, bias: [width]. Returns [..., width] in x's dtype.
    """
    return F.layer_norm(x, weight.shape, weight, bias, eps)


@has_triton("activations")
def gelu(x: Tensor) -> Tensor:
    """x * Phi(x), with the exact normal distribution function (not the tanh approximation)."""
    return F.gelu(x)
