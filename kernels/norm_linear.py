"""A layer's input, normalised and multiplied: one operation, for decoding reads weights once."""

from __future__ import annotations

from torch import Tensor

from lookhear.kernels.choice import has_triton
from lookhear.kernels.linear import LinearWeights, linear
from lookhear.kernels.rms_norm import add_rms_norm, rms_norm
from lookhear.kernels.swiglu import swiglu


@has_triton("few_rows")
def norm_linear(
    x: Tensor,
    change: Tensor | None,
    norm: Tensor,
    eps: float,
    weights: LinearWeights,
    *,
    gated: bool = False,
) -> tuple[Tensor, Tensor]:
    """linear(rms_norm(x + change)), and x + change, which the residual stream goes on with.

    x: [tokens, width]; change: the same, what the layer before adds to it, None for nothing; norm:
    [width] of `rms_norm`; weights: [out, width]. gated: `swiglu` of the product, half as wide.
    Returns ([tokens, out or out / 2], [tokens, width]).
    """
    if change is None:
        normed = rms_norm(x, norm, eps)
    else:
        normed, x = add_rms_norm(change, x, norm, eps)
    y = linear(normed, weights)
    return (swiglu(y) if gated else y), x
