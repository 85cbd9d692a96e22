"""Matrix products with weights of 4 bits, which are unpacked in registers.

    y = sum over groups of scale * x (W - zero)^T + b

Of a group's bytes the lower halves are its first inputs and the upper halves the others, so a load
of weights meets two loads of inputs that lie as they do. A program has some outputs; one step of
its loop is a group, whose scale is one number for each of them.

A few rows: products in float32, several groups' bytes on their way. More rows: on tensor cores in
the inputs' dtype, which holds every such difference; a group's product is scaled in float32.
"""

# Tuples that grow are how Triton holds several tensors; of their types it asks nothing.
# mypy: disable-error-code="assignment,attr-defined,var-annotated"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.int4.weights import Int4Weights
from lookhear.kernels.triton.configs import Tile, tile
from lookhear.kernels.triton.softmax import product

MOST_ROWS = 128  # of one program


def int4_product(x: Tensor, weights: Int4Weights, bias: Tensor | None) -> Tensor:
    """As the torch version. x: [rows, in]. Returns [rows, out] in x's dtype. Grid: (out / tile,),
    of more rows (out / tile, rows / 16 to 128)."""
    x = x.contiguous()
    rows, inner = x.shape
    outs = len(weights.numbers)
    out = torch.empty((rows, outs), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    found = tile("few rows 4 bits", rows)
    if found.size > 1:
        _few_rows(x, weights, bias, out, found)
        return out
    size, warps, stages = tile("rows int4", rows)
    height = min(MOST_ROWS, max(16, triton.next_power_of_2(rows)))
    _rows_int4_kernel[(triton.cdiv(outs, size), triton.cdiv(rows, height))](
        x,
        weights.numbers,
        weights.scales,
        x if weights.zeros is None else weights.zeros,
        x if bias is None else bias,
        out,
        rows,
        outs,
        inner,
        GROUP=weights.group,
        ROWS=height,
        OUTS=size,
        HAS_ZEROS=weights.zeros is not None,
        HAS_BIAS=bias is not None,
        num_warps=warps,
        num_stages=stages,
    )
    return out


def _few_rows(
    x: Tensor, weights: Int4Weights, bias: Tensor | None, out: Tensor, found: Tile
) -> None:
    rows, inner = x.shape
    outs, groups = out.shape[1], len(weights.scales)
    turn = found.stages
    while groups % turn:  # whole turns: no group is masked
        turn //= 2
    _few_rows_int4_kernel[(triton.cdiv(outs, found.size),)](
        x,
        weights.numbers,
        weights.scales,
        x if weights.zeros is None else weights.zeros,
        x if bias is None else bias,
        out,
        rows,
        outs,
        INNER=inner,
        GROUP=weights.group,
        ROWS=triton.next_power_of_2(rows),
        OUTS=found.size,
        TURN=turn,
        HAS_ZEROS=weights.zeros is not None,
        HAS_BIAS=bias is not None,
        num_warps=found.warps,
    )


@triton.jit(do_not_specialize=["rows", "outs"])
def _few_rows_int4_kernel(
    x_ptr,
    numbers_ptr,
    scales_ptr,
    zeros_ptr,
    bias_ptr,
    out_ptr,
    rows,
    outs,
    INNER: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    OUTS: tl.constexpr,
    TURN: tl.constexpr,  # groups
    HAS_ZEROS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    HALF: tl.constexpr = GROUP // 2
    line = tl.program_id(0) * OUTS + tl.arange(0, OUTS)
    exists = line < outs
    place = tl.arange(0, HALF)
    mine = numbers_ptr + line.to(tl.int64)[:, None] * (INNER // 2) + place[None, :]
    sums = ()
    for _ in tl.static_range(ROWS):
        sums = sums + (tl.zeros([OUTS, HALF], tl.float32),)
    for start in range(0, INNER // GROUP, TURN):
        held = ()
        scales = ()
        zeros = ()
        for step in tl.static_range(TURN):
            group = start + step
            source = mine + group * HALF
            held = held + (
                tl.load(source, mask=exists[:, None], other=0, eviction_policy="evict_first"),
            )
            scales = scales + (
                tl.load(scales_ptr + group * outs + line, mask=exists, other=0.0).to(tl.float32),
            )
            if HAS_ZEROS:
                zero = tl.load(zeros_ptr + group * outs + line, mask=exists, other=0)
                zeros = zeros + (zero.to(tl.float32),)
        for step in tl.static_range(TURN):
            zero = 8.0
            if HAS_ZEROS:
                zero = zeros[step][:, None]
            first = (held[step] & 15).to(tl.float32) - zero
            last = (held[step] >> 4).to(tl.float32) - zero
            new = ()
            for row in tl.static_range(ROWS):
                source = x_ptr + row * INNER + (start + step) * GROUP + place
                is_row = place < tl.where(rows > row, HALF, 0)
                x = tl.load(source, mask=is_row, other=0.0).to(tl.float32)
                y = tl.load(source + HALF, mask=is_row, other=0.0).to(tl.float32)
                both = first * x[None, :] + last * y[None, :]
                new = new + (sums[row] + both * scales[step][:, None],)
            sums = new
    for row in tl.static_range(ROWS):
        y = tl.sum(sums[row], 1)
        if HAS_BIAS:
            y += tl.load(bias_ptr + line, mask=exists, other=0.0).to(tl.float32)
        written = line < tl.where(rows > row, outs, 0)
        tl.store(out_ptr + row * outs + line, y.to(out_ptr.dtype.element_ty), mask=written)


@triton.jit(do_not_specialize=["rows"])
def _rows_int4_kernel(
    x_ptr,
    numbers_ptr,
    scales_ptr,
    zeros_ptr,
    bias_ptr,
    out_ptr,
    rows,
    outs,
    inner,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    OUTS: tl.constexpr,
    HAS_ZEROS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    HALF: tl.constexpr = GROUP // 2
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    line = tl.program_id(0) * OUTS + tl.arange(0, OUTS)
    # Beyond the last row and output these again: nobody stores them.
    real_row = tl.minimum(row, rows - 1).to(tl.int64)
    real_line = tl.minimum(line, outs - 1)
    place = tl.arange(0, HALF)
    source = x_ptr + real_row[:, None] * inner + place[None, :]
    mine = numbers_ptr + real_line.to(tl.int64)[:, None] * (inner // 2) + place[None, :]
    total = tl.zeros([ROWS, OUTS], tl.float32)
    for group in range(0, inner // GROUP):
        x = tl.load(source + group * GROUP)
        y = tl.load(source + group * GROUP + HALF)
        w = tl.load(mine + group * HALF)
        scale = tl.load(scales_ptr + group * outs + real_line).to(tl.float32)
        zero = 8.0
        if HAS_ZEROS:
            zero = tl.load(zeros_ptr + group * outs + real_line).to(tl.float32)[:, None]
        first = ((w & 15).to(tl.float32) - zero).to(x.dtype)
        last = ((w >> 4).to(tl.float32) - zero).to(x.dtype)
        both = product(x, tl.trans(first)) + product(y, tl.trans(last))
        total += both * scale[None, :]
    exists = line < outs
    if HAS_BIAS:
        total += tl.load(bias_ptr + line, mask=exists, other=0.0).to(tl.float32)[None, :]
    written = (row < rows)[:, None] & exists[None, :]
    place = out_ptr + row.to(tl.int64)[:, None] * outs + line[None, :]
    tl.store(place, total.to(out_ptr.dtype.element_ty), mask=written)
