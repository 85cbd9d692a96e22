"""Matrix products with weights of 4 bits, which are unpacked in registers.

    y = act((x + change) W^T / sqrt(mean((x + change)^2) + eps) + b),  W = scale * (numbers - zero)

Of a group's bytes the lower halves are its first inputs and the upper halves the others, so a load
of weights meets two loads of inputs that lie as they do. A program has some outputs; one step of
its loop is a group, whose scale is one number for each of them.

A few rows: as in `triton.linear`, with all that lies between two products; in float32, the bytes of
the next groups on their way. More rows: on tensor cores in the inputs' dtype, which holds every
such difference; a group's product is scaled in float32.
"""

# Tuples that grow are how Triton holds several tensors; of their types it asks nothing.
# mypy: disable-error-code="assignment,attr-defined,var-annotated"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.int4.weights import Int4Weights
from lookhear.kernels.linear import LinearWeights
from lookhear.kernels.triton.configs import Tile, launches_early, tile
from lookhear.kernels.triton.softmax import product

MOST_ROWS = 128  # of one program


def few_rows(
    x: Tensor,
    weights: LinearWeights,
    found: Tile,
    change: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    activation: str = "none",
) -> tuple[Tensor, Tensor]:
    """act(rms_norm(x + change) W^T + b), and x + change; without a norm where there is none.

    x, change: [rows, in]; norm: [in]. activation: "swiglu", too, of outputs half as many. Grid:
    (out / tile,). The root of the mean square divides the sums, not their terms.
    """
    four = weights.int4
    assert four is not None
    x = x.contiguous()
    rows, inner = x.shape
    outs = weights.out_features // 2 if activation == "swiglu" else weights.out_features
    out = torch.empty((rows, outs), dtype=x.dtype, device=x.device)
    total = x if change is None else torch.empty_like(x)
    # A gated product reads two lines of weights for an output.
    size = max(1, found.size // 2) if activation == "swiglu" else found.size
    turn = found.stages
    while len(four.scales) % turn:  # whole turns: no input is masked
        turn //= 2
    early = launches_early()
    extra: dict[str, Any] = {"launch_pdl": True} if early else {}
    _few_rows_int4_kernel[(triton.cdiv(outs, size),)](
        x,
        x if change is None else change.contiguous(),
        x if norm is None else norm,
        four.numbers,
        four.scales,
        x if four.zeros is None else four.zeros,
        x if weights.bias is None else weights.bias,
        out,
        total,
        rows,
        outs,
        eps,
        INNER=inner,
        GROUP=four.group,
        ROWS=triton.next_power_of_2(rows),
        OUTS=size,
        TURN=turn,
        HAS_CHANGE=change is not None,
        HAS_NORM=norm is not None,
        HAS_ZEROS=four.zeros is not None,
        HAS_BIAS=weights.bias is not None,
        ACTIVATION=activation,
        EARLY=early,
        num_warps=found.warps,
        **extra,
    )
    return out, total


def many_rows(x: Tensor, weights: Int4Weights, bias: Tensor | None) -> Tensor:
    """x W^T + b. x: [rows, in]. Returns [rows, out] in x's dtype. Grid: (out / tile, rows / 16 to
    128)."""
    x = x.contiguous()
    rows, inner = x.shape
    outs = len(weights.numbers)
    out = torch.empty((rows, outs), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
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


@triton.jit
def _weights(
    numbers_ptr,
    scales_ptr,
    zeros_ptr,
    line,
    wanted,
    all_outs,
    start,
    GROUPS: tl.constexpr,
    HALF: tl.constexpr,
    TURN: tl.constexpr,
    HAS_ZEROS: tl.constexpr,
):
    """A tuple: bytes [outputs, HALF] of each group from start on, then scales [outputs, 1], then
    zeros. Nobody reads them again."""
    held = ()
    for step in tl.static_range(TURN):
        real = wanted & (start + step < GROUPS)
        place = line.to(tl.int64) * (GROUPS * HALF) + (start + step) * HALF
        target = numbers_ptr + place + tl.arange(0, HALF)[None, :]
        held = held + (tl.load(target, mask=real, other=0, eviction_policy="evict_first"),)
    for step in tl.static_range(TURN):
        real = wanted & (start + step < GROUPS)
        held = held + (tl.load(scales_ptr + (start + step) * all_outs + line, mask=real, other=0),)
    if HAS_ZEROS:
        for step in tl.static_range(TURN):
            real = wanted & (start + step < GROUPS)
            target = zeros_ptr + (start + step) * all_outs + line
            held = held + (tl.load(target, mask=real, other=0),)
    return held


@triton.jit
def _unpacked(held, step, TURN: tl.constexpr, HAS_ZEROS: tl.constexpr):
    """The two halves of a group's inputs, [outputs, HALF] float32, less zero."""
    zero = 8.0
    if HAS_ZEROS:
        zero = held[2 * TURN + step].to(tl.float32)
    first = (held[step] & 15).to(tl.float32) - zero
    last = (held[step] >> 4).to(tl.float32) - zero
    return first, last


@triton.jit(do_not_specialize=["rows", "outs"])
def _few_rows_int4_kernel(
    x_ptr,
    change_ptr,
    norm_ptr,
    numbers_ptr,
    scales_ptr,
    zeros_ptr,
    bias_ptr,
    out_ptr,
    total_ptr,
    rows,
    outs,
    eps,
    INNER: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    OUTS: tl.constexpr,
    TURN: tl.constexpr,  # groups
    HAS_CHANGE: tl.constexpr,
    HAS_NORM: tl.constexpr,
    HAS_ZEROS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    EARLY: tl.constexpr,
):
    IS_GATED: tl.constexpr = ACTIVATION == "swiglu"
    HALF: tl.constexpr = GROUP // 2
    GROUPS: tl.constexpr = INNER // GROUP
    kind: tl.constexpr = out_ptr.dtype.element_ty
    number = tl.program_id(0)
    mine = tl.arange(0, OUTS)[:, None]
    line = number * OUTS + mine
    wanted = line < outs
    all_outs = outs
    if IS_GATED:
        all_outs = 2 * outs
    w = _weights(
        numbers_ptr, scales_ptr, zeros_ptr, line, wanted, all_outs, 0, GROUPS, HALF, TURN, HAS_ZEROS
    )
    if IS_GATED:
        u = _weights(
            numbers_ptr, scales_ptr, zeros_ptr, line + outs, wanted, all_outs, 0, GROUPS, HALF,
            TURN, HAS_ZEROS,
        )  # fmt: skip
    else:
        u = w
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()

    # Inputs are [outputs, HALF] as the bytes are, every output the same: so no thread waits for
    # another's.
    place = tl.arange(0, HALF)[None, :] + 0 * mine
    sums = ()
    up_sums = ()
    squares = ()
    for _ in tl.static_range(ROWS):
        sums = sums + (tl.zeros([OUTS, HALF], tl.float32),)
        up_sums = up_sums + (tl.zeros([OUTS, HALF], tl.float32),)
        squares = squares + (tl.zeros([OUTS, HALF], tl.float32),)
    for start in range(0, GROUPS, TURN):
        ahead = _weights(
            numbers_ptr, scales_ptr, zeros_ptr, line, wanted, all_outs, start + TURN, GROUPS, HALF,
            TURN, HAS_ZEROS,
        )  # fmt: skip
        if IS_GATED:
            up_ahead = _weights(
                numbers_ptr, scales_ptr, zeros_ptr, line + outs, wanted, all_outs, start + TURN,
                GROUPS, HALF, TURN, HAS_ZEROS,
            )  # fmt: skip
        for step in tl.static_range(TURN):
            first, last = _unpacked(w, step, TURN, HAS_ZEROS)
            scale = w[TURN + step].to(tl.float32)
            if IS_GATED:
                up_first, up_last = _unpacked(u, step, TURN, HAS_ZEROS)
                up_scale = u[TURN + step].to(tl.float32)
            here = (start + step) * GROUP + place
            if HAS_NORM:
                factor = tl.load(norm_ptr + here).to(tl.float32)
                last_factor = tl.load(norm_ptr + HALF + here).to(tl.float32)
            new_sums = ()
            new_up_sums = ()
            new_squares = ()
            for row in tl.static_range(ROWS):
                real = here < tl.where(rows > row, INNER, 0)
                source = row * INNER + here
                x = tl.load(x_ptr + source, mask=real, other=0.0).to(tl.float32)
                y = tl.load(x_ptr + HALF + source, mask=real, other=0.0).to(tl.float32)
                if HAS_CHANGE:
                    change = tl.load(change_ptr + source, mask=real, other=0.0).to(tl.float32)
                    x_total = (x + change).to(kind)
                    change = tl.load(change_ptr + HALF + source, mask=real, other=0.0)
                    y_total = (y + change.to(tl.float32)).to(kind)
                    written = real & (line == 0)  # once
                    tl.store(total_ptr + source, x_total, mask=written)
                    tl.store(total_ptr + HALF + source, y_total, mask=written)
                    x = x_total.to(tl.float32)
                    y = y_total.to(tl.float32)
                square = squares[row]
                if HAS_NORM:
                    square += x * x + y * y
                    x = x * factor
                    y = y * last_factor
                new_squares = new_squares + (square,)
                new_sums = new_sums + (sums[row] + (first * x + last * y) * scale,)
                up = up_sums[row]
                if IS_GATED:
                    up += (up_first * x + up_last * y) * up_scale
                new_up_sums = new_up_sums + (up,)
            sums = new_sums
            up_sums = new_up_sums
            squares = new_squares
        w = ahead
        if IS_GATED:
            u = up_ahead

    for row in tl.static_range(ROWS):
        written = line < tl.where(rows > row, outs, 0)
        y = tl.sum(sums[row], 1, keep_dims=True)
        up = tl.sum(up_sums[row], 1, keep_dims=True)
        if HAS_NORM:
            shrink = 1.0 / tl.sqrt(tl.sum(squares[row], 1, keep_dims=True) / INNER + eps)
            y = y * shrink
            up = up * shrink
        if HAS_BIAS:
            y += tl.load(bias_ptr + line, mask=written, other=0.0).to(tl.float32)
            if IS_GATED:
                up += tl.load(bias_ptr + outs + line, mask=written, other=0.0).to(tl.float32)
        if ACTIVATION != "none":
            y = y.to(kind).to(tl.float32)
        if IS_GATED:
            y = (y * tl.sigmoid(y)).to(kind).to(tl.float32) * up.to(kind).to(tl.float32)
        elif ACTIVATION == "gelu":
            y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
        elif ACTIVATION == "gelu_tanh":
            turn = 0.7978845608028654 * (y + 0.044715 * y * y * y)
            y = y * tl.sigmoid(2.0 * turn)  # (1 + tanh t) / 2 = sigmoid 2t
        tl.store(out_ptr + row * outs + line, y.to(kind), mask=written)


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
