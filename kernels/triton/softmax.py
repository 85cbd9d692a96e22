"""The running softmax of all attention kernels (Milakov and Gimelshein, 2018; Dao et al., 2022)."""

from __future__ import annotations

import math

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))


def scaled_exp2(dim: int, scale: float | None) -> float:
    """What products are multiplied by so that powers of 2 do for powers of e."""
    return (dim**-0.5 if scale is None else scale) * math.log2(math.e)


@triton.jit
def folded(best, weight, mixed, scores, values):
    """Takes one more tile of keys into a softmax that began earlier.

    best, weight: [queries] float32, the greatest score so far and the sum of 2^(score - best);
    mixed: [queries, dim] float32, the values so weighted. scores: [queries, keys] float32, -inf
    where a query must not look; values: [keys, dim]. Returns the three anew.
    """
    top = tl.maximum(best, tl.max(scores, 1))
    # Until a query has seen a key, -inf minus -inf would be a NaN.
    base = tl.where(top == float("-inf"), 0.0, top)
    shrink = tl.exp2(best - base)
    exponentials = tl.exp2(scores - base[:, None])
    weight = weight * shrink + tl.sum(exponentials, 1)
    mixed = mixed * shrink[:, None]
    mixed = mixed + product(exponentials.to(values.dtype), values)
    return top, weight, mixed


@triton.jit
def product(a, b):
    """a b in float32: [m, k], [k, n] to [m, n]; of float32 numbers exactly, not in TF32."""
    if INTERPRETED:  # there a product takes bfloat16 for integers
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")
