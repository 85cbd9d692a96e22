"""Matrix products with fixed weights, laid out once for the machine they run on.

On a CPU, oneDNN's own weight layout ("packed") reads a large matrix 2 to 3 times faster than
torch's default path, in true float32. One call costs about 20 us more than a plain linear, so small
float32 matrices stay plain.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

PACK_FROM = 400_000  # float32 weights from this many elements on are packed; measured
# The layout is chosen for about this many rows of input. Up to that, it is the best one measured;
# and at 1500 rows no other layout is faster.
PACK_ROWS = 16


@dataclass(frozen=True, slots=True)
class LinearWeights:
    """weight: [out, in], in oneDNN's layout if packed. bias: [out] or None. Never written."""

    weight: Tensor
    bias: Tensor | None
    packed: bool
    out_features: int
    in_features: int


def pack_linear(
    weight: Tensor, bias: Tensor | None = None, *, pack: bool | None = None
) -> LinearWeights:
    """Prepares weights for `linear`. pack: None decides by device, dtype and size."""
    out_features, in_features = weight.shape
    if pack is None:
        pack = weight.numel() >= (PACK_FROM if weight.dtype == torch.float32 else 1)
    packed = _packed(weight) if pack else None
    return LinearWeights(
        weight=weight.contiguous() if packed is None else packed,
        bias=None if bias is None else bias.contiguous(),
        packed=packed is not None,
        out_features=out_features,
        in_features=in_features,
    )


def linear(x: Tensor, weights: LinearWeights, activation: str = "none") -> Tensor:
    """x W^T + b, then nothing ("none") or the exact GELU ("gelu").

    x: [..., in]. Returns [..., out] in the weights' dtype.
    """
    if weights.packed:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, weights.weight, weights.bias, activation, [], "none"
        )
        return out
    y = F.linear(x, weights.weight, weights.bias)
    return F.gelu(y) if activation == "gelu" else y


def _packed(weight: Tensor) -> Tensor | None:
    """The weight in oneDNN's layout, or None where this torch, CPU or dtype cannot do it."""
    if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.bfloat16):
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACK_ROWS)
        probe = torch.zeros(1, weight.shape[1], dtype=weight.dtype)
        torch.ops.mkldnn._linear_pointwise(probe, packed, None, "gelu", [], "none")
    except (AttributeError, RuntimeError):  # private operators: absent or changed in another torch
        return None
    return packed
