"""Matrix products with weights in float8 or int8 whose inputs stay as they are; an output's scale
is multiplied to its sum.

A few rows: the kernel of `triton.linear` for these. Weights are read whole, 16 of them a thread at
a time. Outputs are no axis of a tensor here but tensors of their own: in float8 the compiler deals
a third axis out so that weights cross warps. For that the rows' squares are summed before, by all
warps together; in bfloat16 this was slower (docs/gpu.md).

More rows, in int8: by tensor cores in the inputs' dtype, which holds every number of 8 bits.
"""

# Tuples that grow are how Triton holds several tensors; of their types it asks nothing.
# mypy: disable-error-code="assignment,var-annotated"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.linear import LinearWeights
from lookhear.kernels.triton.configs import tile
from lookhear.kernels.triton.softmax import INTERPRETED, product

MOST_ROWS = 128  # of one program
FEW = 64  # rows, up to which what counts is the weights' bytes: a turn has more of them then


@triton.jit
def _weights(
    weight_ptr, line, outs, start, INNER: tl.constexpr, OUTS: tl.constexpr, CHUNKS: tl.constexpr,
    LANES,
):  # fmt: skip
    """A tuple of [warps, LANES] for each output and chunk, inputs from start on. Nobody reads them
    again."""
    held = ()
    for number in tl.static_range(OUTS):
        for chunk in tl.static_range(CHUNKS):
            place = start + chunk * LANES + tl.arange(0, LANES)[None, :]
            real = (place < INNER) & (line + number < outs)
            target = weight_ptr + (line + number).to(tl.int64) * INNER + place
            held = held + (tl.load(target, mask=real, other=0.0, eviction_policy="evict_first"),)
    return held


@triton.jit
def _inputs(ptr, warp, start, end, CHUNKS: tl.constexpr, LANES):
    """A tuple of [warps, LANES], every warp the same: all are on their way at once."""
    held = ()
    for chunk in tl.static_range(CHUNKS):
        place = start + chunk * LANES + tl.arange(0, LANES)[None, :] + 0 * warp
        held = held + (tl.load(ptr + place, mask=place < end, other=0.0),)
    return held


@triton.jit(do_not_specialize=["rows", "outs"])
def few_rows_8_bits_kernel(
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
    scales_ptr,
    INNER: tl.constexpr,
    WIDTH: tl.constexpr,  # the power of two that holds INNER
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
    # Every tensor is [warps, LANES], so that a warp has whole outputs and its own copy of the
    # inputs, laid out as the weights are: then every sum is one of a thread's registers, at last
    # one of a warp's, and nobody waits. (With outputs as a third axis, versions of Triton differ in
    # how they deal it out, and weights cross warps.)
    warp = tl.arange(0, WARPS)[:, None]
    line = (number * WARPS + warp) * OUTS
    up_ptr = weight_ptr + outs.to(tl.int64) * INNER
    w = _weights(weight_ptr, line, outs, 0, INNER, OUTS, CHUNKS, LANES)
    if IS_GATED:
        u = _weights(up_ptr, line, outs, 0, INNER, OUTS, CHUNKS, LANES)
    if HAS_NORM:
        factors = _inputs(norm_ptr, warp, 0, INNER, CHUNKS, LANES)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()

    shrinks = ()
    if HAS_CHANGE or HAS_NORM:  # rows once more, of all warps together: their sums are short
        column = tl.arange(0, WIDTH)
        for row in tl.static_range(ROWS):
            mine = column < tl.where(rows > row, INNER, 0)
            total = tl.load(x_ptr + row * INNER + column, mask=mine, other=0.0).to(tl.float32)
            if HAS_CHANGE:
                change = tl.load(change_ptr + row * INNER + column, mask=mine, other=0.0)
                total = (total + change.to(tl.float32)).to(kind)
                if number == 0:  # one program writes it
                    tl.store(total_ptr + row * INNER + column, total, mask=mine)
                total = total.to(tl.float32)
            shrinks = shrinks + (1.0 / tl.sqrt(tl.sum(total * total, 0) / INNER + eps),)
    sums = ()
    up_sums = ()
    for _ in tl.static_range(ROWS):
        for _ in tl.static_range(OUTS):
            sums = sums + (tl.zeros([WARPS, LANES], tl.float32),)
            up_sums = up_sums + (tl.zeros([WARPS, LANES], tl.float32),)
    for start in tl.static_range(0, INNER, TURN):
        new_sums = ()
        new_up_sums = ()
        for row in tl.static_range(ROWS):
            end = tl.where(rows > row, INNER, 0)
            x = _inputs(x_ptr + row * INNER, warp, start, end, CHUNKS, LANES)
            if HAS_CHANGE:
                change = _inputs(change_ptr + row * INNER, warp, start, end, CHUNKS, LANES)
            y = ()
            up = ()
            for out in tl.static_range(OUTS):
                y = y + (sums[row * OUTS + out],)
                up = up + (up_sums[row * OUTS + out],)
            for chunk in tl.static_range(CHUNKS):
                exact = x[chunk].to(tl.float32)
                if HAS_CHANGE:
                    exact = (exact + change[chunk].to(tl.float32)).to(kind).to(tl.float32)
                if HAS_NORM:
                    exact = exact * factors[chunk].to(tl.float32)
                new_y = ()
                new_up = ()
                for out in tl.static_range(OUTS):
                    new_y = new_y + (y[out] + w[out * CHUNKS + chunk].to(tl.float32) * exact,)
                    if IS_GATED:
                        more = u[out * CHUNKS + chunk].to(tl.float32) * exact
                        new_up = new_up + (up[out] + more,)
                y = new_y
                if IS_GATED:
                    up = new_up
            new_sums = new_sums + y
            new_up_sums = new_up_sums + up
        sums = new_sums
        up_sums = new_up_sums
        if start + TURN < INNER:
            w = _weights(weight_ptr, line, outs, start + TURN, INNER, OUTS, CHUNKS, LANES)
            if IS_GATED:
                u = _weights(up_ptr, line, outs, start + TURN, INNER, OUTS, CHUNKS, LANES)
            if HAS_NORM:
                factors = _inputs(norm_ptr, warp, start + TURN, INNER, CHUNKS, LANES)

    for row in tl.static_range(ROWS):
        for out in tl.static_range(OUTS):
            mine = line + out
            wanted = mine < tl.where(rows > row, outs, 0)
            y = tl.sum(sums[row * OUTS + out], 1, keep_dims=True)
            up = tl.sum(up_sums[row * OUTS + out], 1, keep_dims=True)
            if HAS_NORM:
                y = y * shrinks[row]
                up = up * shrinks[row]
            y = y * tl.load(scales_ptr + mine, mask=wanted, other=0.0)
            if IS_GATED:
                up = up * tl.load(scales_ptr + outs + mine, mask=wanted, other=0.0)
            if HAS_BIAS:
                y += tl.load(bias_ptr + mine, mask=wanted, other=0.0).to(tl.float32)
                if IS_GATED:
                    up += tl.load(bias_ptr + outs + mine, mask=wanted, other=0.0).to(tl.float32)
            if ACTIVATION != "none":
                y = y.to(kind).to(tl.float32)
            if IS_GATED:
                y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * up.to(kind).to(tl.float32)
            elif ACTIVATION == "gelu":
                y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
            elif ACTIVATION == "gelu_tanh":
                turn = 0.7978845608028654 * (y + 0.044715 * y * y * y)
                y = y * tl.sigmoid(2.0 * turn)  # (1 + tanh t) / 2 = sigmoid 2t
            tl.store(out_ptr + row * outs + mine, y.to(kind), mask=wanted)


def weight_only(x: Tensor, weights: LinearWeights) -> Tensor:
    """(x W^T) * scales + b.

    x: [rows, in]; weights: [out, in] int8, scales: [out] float32. Returns [rows, out] in x's dtype.
    Grid: (out / tile, rows / 16 to 128). Sums in float32; nothing is rounded before the end.
    """
    x = x.contiguous()
    rows, inner = x.shape
    outs = weights.out_features
    out = torch.empty((rows, outs), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    assert weights.scales is not None
    size, warps, stages = tile("rows int8", rows)
    height = min(MOST_ROWS, max(16, triton.next_power_of_2(rows)))
    turn = 128 if rows <= FEW else 64
    _rows_kernel[(triton.cdiv(outs, size), triton.cdiv(rows, height))](
        x,
        weights.weight,
        weights.scales,
        x if weights.bias is None else weights.bias,
        out,
        rows,
        outs,
        inner,
        ROWS=height,
        OUTS=size,
        TURN=turn,
        IS_WHOLE=inner % turn == 0 and outs % size == 0,
        HAS_BIAS=weights.bias is not None,
        num_warps=warps,
        num_stages=stages,
    )
    return out


@triton.jit(do_not_specialize=["rows"])
def _rows_kernel(
    x_ptr,
    weight_ptr,
    scales_ptr,
    bias_ptr,
    out_ptr,
    rows,
    outs,
    inner,
    ROWS: tl.constexpr,
    OUTS: tl.constexpr,
    TURN: tl.constexpr,
    IS_WHOLE: tl.constexpr,  # no turn or program goes beyond the weights
    HAS_BIAS: tl.constexpr,
):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    line = tl.program_id(0) * OUTS + tl.arange(0, OUTS)
    # Beyond the last row that one again: nobody stores it.
    real_row = tl.minimum(row, rows - 1).to(tl.int64)
    total = tl.zeros([ROWS, OUTS], tl.float32)
    for start in range(0, inner, TURN):
        place = start + tl.arange(0, TURN)
        source = x_ptr + real_row[:, None] * inner + place[None, :]
        target = weight_ptr + line.to(tl.int64)[:, None] * inner + place[None, :]
        if IS_WHOLE:
            x = tl.load(source)
            w = tl.load(target)
        else:
            x = tl.load(source, mask=(place < inner)[None, :], other=0.0)
            real = (line < outs)[:, None] & (place < inner)[None, :]
            w = tl.load(target, mask=real, other=0)
        if INTERPRETED:  # there an int8 becomes the bits of a bfloat16
            w = w.to(tl.float32)
        total += product(x, tl.trans(w.to(x.dtype)))
    exists = line < outs
    y = total * tl.load(scales_ptr + line, mask=exists, other=0.0)[None, :]
    if HAS_BIAS:
        y += tl.load(bias_ptr + line, mask=exists, other=0.0).to(tl.float32)[None, :]
    written = (row < rows)[:, None] & exists[None, :]
    place = out_ptr + row.to(tl.int64)[:, None] * outs + line[None, :]
    tl.store(place, y.to(out_ptr.dtype.element_ty), mask=written)
