"""The gated activation of a feed-forward layer (Shazeer, 2020)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from lookhear.kernels.choice import has_triton


@has_triton("activations")
def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up, silu(x) = x * sigmoid(x).

    gate_up: [..., 2 * width], the gate's half first, as one fused projection gives it.
    Returns [..., width].
    """
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)
