"""Rotary positions, on one axis or on the three of Qwen's M-RoPE."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor


def rope_angles(
    positions: Tensor,
    frequencies: Tensor,
    dtype: torch.dtype,
    *,
    sections: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Cosines and sines for `rope`: position * frequency, in float32.

    positions: [tokens] int64, or [3, tokens] for M-RoPE (time, height, width).
    frequencies: [dim // 2] float32. sections: pairs per axis, summing to dim // 2; wanted with
    three axes: pair j belongs to axis j % 3 while j < 3 * sections[j % 3], then to that of time.
    Returns two [tokens, 1, dim] in dtype: cosines twice; sines negative, then positive.
    Grid: (tokens,).
    """
    tokens, pairs = positions.shape[-1], len(frequencies)
    has_axes = positions.dim() == 2
    height = width = 0
    if has_axes:
        assert positions.shape[0] == 3 and sections is not None, (positions.shape, sections)
        assert sum(sections) == pairs, (sections, pairs)
        _, height, width = sections
    cos = torch.empty((tokens, 1, 2 * pairs), dtype=dtype, device=positions.device)
    sin = torch.empty_like(cos)
    if tokens > 0:
        _angles_kernel[(tokens,)](
            positions.contiguous(),
            frequencies.contiguous(),
            cos,
            sin,
            tokens,
            pairs,
            height,
            width,
            HAS_AXES=has_axes,
            PAIRS=triton.next_power_of_2(pairs),
            num_warps=1,
        )
    return cos, sin


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns every pair: (a, b) -> (a cos - b sin, b cos + a sin), in float32.

    x: [tokens, heads, dim], heads may lie apart; pair j is (x[j], x[j + dim / 2]). cos, sin:
    [tokens, 1, dim] from `rope_angles`. Any float dtypes. Returns [tokens, heads, dim] in x's
    dtype, contiguous.
    Grid: (tokens,): all heads of a token share its angles.
    """
    if x.stride(-1) != 1:
        x = x.contiguous()
    tokens, heads, dim = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() > 0:
        _rope_kernel[(tokens,)](
            x,
            cos.contiguous(),
            sin.contiguous(),
            out,
            heads,
            dim // 2,
            x.stride(0),
            x.stride(1),
            HEADS=triton.next_power_of_2(heads),
            PAIRS=triton.next_power_of_2(dim // 2),
            num_warps=4,
        )
    return out


@triton.jit(do_not_specialize=["tokens"])
def _angles_kernel(
    positions_ptr,
    frequencies_ptr,
    cos_ptr,
    sin_ptr,
    tokens,
    pairs,
    height,
    width,
    HAS_AXES: tl.constexpr,
    PAIRS: tl.constexpr,
):
    token = tl.program_id(0)
    pair = tl.arange(0, PAIRS)
    real = pair < pairs
    place = token.to(tl.int64) * 2 * pairs + pair
    position = tl.load(positions_ptr + token).to(tl.float32)
    if HAS_AXES:
        high = tl.load(positions_ptr + tokens + token).to(tl.float32)
        wide = tl.load(positions_ptr + 2 * tokens + token).to(tl.float32)
        axis = pair % 3
        mixed = tl.where((axis == 1) & (pair < 3 * height), high, position)
        position = tl.where((axis == 2) & (pair < 3 * width), wide, mixed)
    angle = position * tl.load(frequencies_ptr + pair, mask=real, other=0.0)
    kind = cos_ptr.dtype.element_ty
    cos, sin = tl.cos(angle), tl.sin(angle)
    tl.store(cos_ptr + place, cos.to(kind), mask=real)
    tl.store(cos_ptr + place + pairs, cos.to(kind), mask=real)
    tl.store(sin_ptr + place, (-sin).to(kind), mask=real)
    tl.store(sin_ptr + place + pairs, sin.to(kind), mask=real)


@triton.jit
def _rope_kernel(
    x_ptr,
    cos_ptr,
    sin_ptr,
    out_ptr,
    heads,
    pairs,
    token_stride,
    head_stride,
    HEADS: tl.constexpr,
    PAIRS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, HEADS)[:, None]
    pair = tl.arange(0, PAIRS)[None, :]
    real = (head < heads) & (pair < pairs)
    source = x_ptr + token * token_stride + head * head_stride + pair
    a = tl.load(source, mask=real, other=0.0).to(tl.float32)
    b = tl.load(source + pairs, mask=real, other=0.0).to(tl.float32)
    factor = token * 2 * pairs + pair  # that of b is pairs further
    exists = pair < pairs
    cos_a = tl.load(cos_ptr + factor, mask=exists, other=0.0).to(tl.float32)
    cos_b = tl.load(cos_ptr + factor + pairs, mask=exists, other=0.0).to(tl.float32)
    sin_a = tl.load(sin_ptr + factor, mask=exists, other=0.0).to(tl.float32)
    sin_b = tl.load(sin_ptr + factor + pairs, mask=exists, other=0.0).to(tl.float32)
    target = out_ptr + (token * heads + head) * 2 * pairs + pair
    kind = out_ptr.dtype.element_ty
    tl.store(target, (a * cos_a + b * sin_a).to(kind), mask=real)
    tl.store(target + pairs, (b * cos_b + a * sin_b).to(kind), mask=real)
