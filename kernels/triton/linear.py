"""Matrix products of a few rows: what a decode step of few sequences waits for is the weights.

    y = act((x + change) W^T / sqrt(mean((x + change)^2) + eps) + b),  W with the norm's weight

A program has some outputs, and reads their weights whole, 16 bytes a thread at a time and many of
them in flight, into registers; a tensor core would have nothing to do. Everything that lies between
two products goes into them: the residual sum and the norm in front (each program does them again,
a few KB from the L2 cache), bias and activation behind. A kernel's first weights are on their way
before the kernel in front of it has ended (`configs.launches_early`): they depend on nothing.

Weights in float8 or int8 have a kernel of their own (`triton.weights_in_8_bits`), and so have those
of 4 bits (`triton.int4`).

Rows beyond what `configs` has for "few rows" ("few rows 8 bits") are the library's; of weights in
int8 those of `weight_only`, of 4 bits those of `many_rows`.
"""

# Tuples that grow are how Triton holds several tensors; of their types it asks nothing.
# mypy: disable-error-code="assignment,var-annotated"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.fp8 import rounded_product
from lookhear.kernels.linear import LinearWeights, in_8_bits
from lookhear.kernels.linear import linear as products
from lookhear.kernels.triton.activations import gelu_, swiglu
from lookhear.kernels.triton.configs import Tile, launches_early, tile
from lookhear.kernels.triton.fp8 import norm_round_rows
from lookhear.kernels.triton.int4.products import few_rows, many_rows
from lookhear.kernels.triton.norms import add_rms_norm, rms_norm
from lookhear.kernels.triton.weights_in_8_bits import few_rows_8_bits_kernel, weight_only

LANES = 256  # inputs of a warp at once: 32 threads, 16 bytes of bfloat16 each; of float8, twice


def linear(x: Tensor, weights: LinearWeights, activation: str = "none") -> Tensor:
    """act(x W^T + b), act as in the torch version.

    x: [..., in]; weights: [out, in] in x's dtype, float8 or int8. Returns [..., out]. Grid: (out /
    tile,). Sums in float32, rounded before the activation, as the separate operations round.
    """
    found = _fit(x, weights, "few rows")
    if weights.int4 is not None:
        flat = x.reshape(x.numel() // weights.in_features, weights.in_features)
        if found is not None:
            y = few_rows(flat, weights, found, activation=activation)[0]
        else:
            y = _activated(many_rows(flat, weights.int4, weights.bias), activation)
        return y.view(*x.shape[:-1], weights.out_features)
    if found is None and weights.scales is not None:
        if weights.weight.dtype == torch.int8:
            y = weight_only(x.reshape(-1, x.shape[-1]), weights)
            y = y.view(*x.shape[:-1], weights.out_features)
        else:
            y = in_8_bits(x, weights, rounds=True)
        return _activated(y, activation)
    if found is None:
        alone: Tensor = products.__wrapped__(x, weights, activation)  # type: ignore[attr-defined]
        return alone
    return _product(x, weights, found, activation=activation)[0]


def norm_linear(
    x: Tensor,
    change: Tensor | None,
    norm: Tensor,
    eps: float,
    weights: LinearWeights,
    *,
    gated: bool = False,
) -> tuple[Tensor, Tensor]:
    """linear(rms_norm(x + change)), and x + change; gated: swiglu of that product.

    x, change: [tokens, width] of one dtype; norm: [width]; weights: [out, width] in it or 8 bits.
    Returns ([tokens, out or out / 2], [tokens, width]). Grid: (out / tile,). The root of the mean
    square divides the sums, not their terms, so these are not rounded in between: for few rows the
    result is a little more exact than for many.
    """
    found = _fit(x, weights, "few rows, gated" if gated else "few rows, norm")
    if found is not None:
        activation = "swiglu" if gated else "none"
        if weights.int4 is not None:
            return few_rows(x, weights, found, change, norm, eps, activation)
        return _product(x, weights, found, change, norm, eps, activation)
    if weights.scales is not None and weights.weight.dtype != torch.int8:
        values, row_scales, x = norm_round_rows(x, change, norm, eps)
        y = rounded_product(values, row_scales, weights.weight, weights.scales, x.dtype)
        y = y if weights.bias is None else y.add_(weights.bias)
        return (swiglu(y) if gated else y), x
    if change is None:
        normed = rms_norm(x, norm, eps)
    else:
        normed, x = add_rms_norm(change, x, norm, eps)
    y = linear(normed, weights)
    return (swiglu(y) if gated else y), x


def _activated(y: Tensor, activation: str) -> Tensor:
    if activation == "none":
        return y
    return gelu_(y, "tanh" if activation == "gelu_tanh" else "none")


def _fit(x: Tensor, weights: LinearWeights, kernel: str) -> Tile | None:
    """The tile, if these rows are few and the weights lie there as they are."""
    if weights.packed or weights.half is not None:
        return None
    if weights.int4 is not None:
        kernel = kernel.replace("few rows", "few rows 4 bits")
    elif weights.scales is not None:
        kernel = kernel.replace("few rows", "few rows 8 bits")
    elif weights.weight.dtype != x.dtype:
        return None
    found = tile(kernel, x.numel() // x.shape[-1])
    return found if found.size > 1 and x.numel() > 0 else None


def _product(
    x: Tensor,
    weights: LinearWeights,
    found: Tile,
    change: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    activation: str = "none",
) -> tuple[Tensor, Tensor]:
    inner, outs = weights.in_features, weights.out_features
    if activation == "swiglu":
        outs //= 2
    x = x.contiguous()
    rows = x.numel() // inner
    out = torch.empty((*x.shape[:-1], outs), dtype=x.dtype, device=x.device)
    total = x if change is None else torch.empty_like(x)
    # A gated product reads two lines of weights for an output.
    size = found.size // 2 if activation == "swiglu" else found.size
    size = max(size, found.warps)
    early = launches_early()
    extra: dict[str, Any] = {"launch_pdl": True} if early else {}
    width = triton.next_power_of_2(inner)
    kernel, lanes = _few_rows_kernel, min(LANES, width)
    if weights.scales is not None:
        kernel, lanes = few_rows_8_bits_kernel, min(2 * LANES, width)
        extra |= {"scales_ptr": weights.scales, "WIDTH": width}
    kernel[(triton.cdiv(outs, size),)](
        x,
        x if change is None else change.contiguous(),
        x if norm is None else norm,
        weights.weight,
        x if weights.bias is None else weights.bias,
        out,
        total,
        rows,
        outs,
        eps,
        INNER=inner,
        ROWS=triton.next_power_of_2(rows),
        WARPS=found.warps,
        OUTS=size // found.warps,
        CHUNKS=min(found.stages, triton.cdiv(inner, lanes)),
        LANES=lanes,
        HAS_CHANGE=change is not None,
        HAS_NORM=norm is not None,
        HAS_BIAS=weights.bias is not None,
        ACTIVATION=activation,
        EARLY=early,
        num_warps=found.warps,
        **extra,
    )
    return out, total


@triton.jit
def _weights(weight_ptr, line, outs, start, INNER: tl.constexpr, CHUNKS: tl.constexpr, LANES):
    """A tuple of [warps, outputs, LANES], inputs from start on. Nobody reads them again."""
    held = ()
    for chunk in tl.static_range(CHUNKS):
        place = start + chunk * LANES + tl.arange(0, LANES)[None, None, :]
        real = (place < INNER) & (line < outs)
        target = weight_ptr + line.to(tl.int64) * INNER + place
        held = held + (tl.load(target, mask=real, other=0.0, eviction_policy="evict_first"),)
    return held


@triton.jit
def _inputs(ptr, warp, start, end, CHUNKS: tl.constexpr, LANES):
    """A tuple of [warps, 1, LANES], every warp the same: all are on their way at once."""
    held = ()
    for chunk in tl.static_range(CHUNKS):
        place = start + chunk * LANES + tl.arange(0, LANES)[None, None, :] + 0 * warp
        held = held + (tl.load(ptr + place, mask=place < end, other=0.0),)
    return held


@triton.jit(do_not_specialize=["rows", "outs"])
def _few_rows_kernel(
    x_ptr,
    change_ptr,
    norm_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    total_ptr,
    rows,
    outs,
    eps,
    INNER: tl.constexpr,
    ROWS: tl.constexpr,
    WARPS: tl.constexpr,
    OUTS: tl.constexpr,  # of a warp
    CHUNKS: tl.constexpr,
    LANES: tl.constexpr,
    HAS_CHANGE: tl.constexpr,
    HAS_NORM: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    EARLY: tl.constexpr,
):
    IS_GATED: tl.constexpr = ACTIVATION == "swiglu"
    TURN: tl.constexpr = CHUNKS * LANES
    kind: tl.constexpr = out_ptr.dtype.element_ty
    number = tl.program_id(0)
    # Tensors of three axes, so that a warp has whole outputs and its own copy of the inputs: then
    # every sum is one of a thread's registers, at last one of a warp's, and nobody waits.
    warp = tl.arange(0, WARPS)[:, None, None]
    line = (number * WARPS + warp) * OUTS + tl.arange(0, OUTS)[None, :, None]
    up_ptr = weight_ptr + outs.to(tl.int64) * INNER
    w = _weights(weight_ptr, line, outs, 0, INNER, CHUNKS, LANES)
    if IS_GATED:
        u = _weights(up_ptr, line, outs, 0, INNER, CHUNKS, LANES)
    if HAS_NORM:
        factors = _inputs(norm_ptr, warp, 0, INNER, CHUNKS, LANES)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()

    sums = ()
    up_sums = ()
    squares = ()
    for _ in tl.static_range(ROWS):
        sums = sums + (tl.zeros([WARPS, OUTS, LANES], tl.float32),)
        up_sums = up_sums + (tl.zeros([WARPS, OUTS, LANES], tl.float32),)
        squares = squares + (tl.zeros([WARPS, 1, LANES], tl.float32),)
    for start in tl.static_range(0, INNER, TURN):
        new_sums = ()
        new_up_sums = ()
        new_squares = ()
        for row in tl.static_range(ROWS):
            end = tl.where(rows > row, INNER, 0)
            x = _inputs(x_ptr + row * INNER, warp, start, end, CHUNKS, LANES)
            if HAS_CHANGE:
                change = _inputs(change_ptr + row * INNER, warp, start, end, CHUNKS, LANES)
                end = tl.where(number == 0, end, 0)  # of the total: one program writes it
            y = sums[row]
            up = up_sums[row]
            square = squares[row]
            for chunk in tl.static_range(CHUNKS):
                exact = x[chunk].to(tl.float32)
                if HAS_CHANGE:
                    total = (exact + change[chunk].to(tl.float32)).to(kind)
                    exact = total.to(tl.float32)
                    place = start + chunk * LANES + tl.arange(0, LANES)[None, None, :] + 0 * warp
                    mine = (place < end) & (warp == 0)
                    tl.store(total_ptr + row * INNER + place, total, mask=mine)
                if HAS_NORM:
                    square += exact * exact
                    exact = exact * factors[chunk].to(tl.float32)
                y += w[chunk].to(tl.float32) * exact
                if IS_GATED:
                    up += u[chunk].to(tl.float32) * exact
            new_sums = new_sums + (y,)
            new_up_sums = new_up_sums + (up,)
            new_squares = new_squares + (square,)
        sums = new_sums
        up_sums = new_up_sums
        squares = new_squares
        if start + TURN < INNER:
            w = _weights(weight_ptr, line, outs, start + TURN, INNER, CHUNKS, LANES)
            if IS_GATED:
                u = _weights(up_ptr, line, outs, start + TURN, INNER, CHUNKS, LANES)
            if HAS_NORM:
                factors = _inputs(norm_ptr, warp, start + TURN, INNER, CHUNKS, LANES)

    for row in tl.static_range(ROWS):
        wanted = line < tl.where(rows > row, outs, 0)
        y = tl.sum(sums[row], 2, keep_dims=True)
        up = tl.sum(up_sums[row], 2, keep_dims=True)
        if HAS_NORM:
            mean = tl.sum(squares[row], 2, keep_dims=True) / INNER
            shrink = 1.0 / tl.sqrt(mean + eps)
            y = y * shrink
            up = up * shrink
        if HAS_BIAS:
            y += tl.load(bias_ptr + line, mask=wanted, other=0.0).to(tl.float32)
            if IS_GATED:
                up += tl.load(bias_ptr + outs + line, mask=wanted, other=0.0).to(tl.float32)
        if ACTIVATION != "none":
            y = y.to(kind).to(tl.float32)
        if IS_GATED:
            y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * up.to(kind).to(tl.float32)
        elif ACTIVATION == "gelu":
            y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
        elif ACTIVATION == "gelu_tanh":
            turn = 0.7978845608028654 * (y + 0.044715 * y * y * y)
            y = y * tl.sigmoid(2.0 * turn)  # (1 + tanh t) / 2 = sigmoid 2t
        tl.store(out_ptr + row * outs + line, y.to(kind), mask=wanted)
