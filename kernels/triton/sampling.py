"""From logits to tokens: the best one, a drawn one, and log probabilities.

A vocabulary is cut into chunks, since one row alone would leave the card idle; a second kernel
joins what the chunks found.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.triton.configs import tile


def argmax(x: Tensor) -> Tensor:
    """The highest number's index in each row of x [n, vocab] float32, the first of equals: [n]
    int64. A row with a NaN gets some index of the vocabulary. Grid: (n, chunks), then (n,)."""
    return _best(x, None, None)


def draw(scores: Tensor, seeds: Tensor, positions: Tensor) -> Tensor:
    """One token of softmax(scores) per row: argmax(scores + Gumbel noise), float64 noise rounded to
    float32, a function of (seed, position, token) alone: the torch twin's, to the last place.

    scores: [n, vocab] float32, -inf where a token may not be drawn; seeds, positions [n] int64.
    Returns tokens [n] int64, the lowest id among equals. Grid as in `argmax`; what top-k and top-p
    emptied is skipped.
    """
    return _best(scores, seeds, positions)


def token_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Natural-log probability of one token per row: logits [n, vocab] float32, tokens [n] int64 ->
    [n]. NaN for a row with a NaN, a positive infinity, or nothing but -inf. Sums in float32, chunk
    by chunk in a fixed order. Grid: (n, chunks), then (n,)."""
    n, vocab, size, chunks, warps = _cut(logits)
    if n == 0:
        return logits.new_empty(0)
    logits = logits if logits.stride(1) == 1 else logits.contiguous()
    partial = torch.empty((2, n, chunks), dtype=torch.float32, device=logits.device)
    out = torch.empty(n, dtype=torch.float32, device=logits.device)
    _sums_kernel[(n, chunks)](
        logits, partial, logits.stride(0), n, vocab, chunks, SIZE=size, num_warps=warps
    )
    _logprob_kernel[(n,)](
        logits,
        tokens,
        partial,
        out,
        logits.stride(0),
        n,
        chunks,
        CHUNKS=triton.next_power_of_2(chunks),
        num_warps=1,
    )
    return out


def _cut(x: Tensor) -> tuple[int, int, int, int, int]:
    """n, vocab, elements of a chunk, chunks, warps."""
    assert x.dim() == 2 and x.dtype == torch.float32, (x.shape, x.dtype)
    n, vocab = x.shape
    size, warps, _ = tile("vocabulary", vocab)
    return n, vocab, size, triton.cdiv(vocab, size), warps


def _best(x: Tensor, seeds: Tensor | None, positions: Tensor | None) -> Tensor:
    n, vocab, size, chunks, warps = _cut(x)
    out = torch.empty(n, dtype=torch.int64, device=x.device)
    if n == 0:
        return out
    x = x if x.stride(1) == 1 else x.contiguous()
    values = torch.empty((n, chunks), dtype=torch.float32, device=x.device)
    indices = torch.empty((n, chunks), dtype=torch.int32, device=x.device)
    _chunk_kernel[(n, chunks)](
        x,
        x if seeds is None else seeds,
        x if positions is None else positions,
        values,
        indices,
        x.stride(0),
        vocab,
        chunks,
        HAS_NOISE=seeds is not None,
        SIZE=size,
        num_warps=warps,
    )
    _winner_kernel[(n,)](
        values, indices, out, vocab, chunks, CHUNKS=triton.next_power_of_2(chunks), num_warps=1
    )
    return out


@triton.jit
def _mixed(x):
    """SplitMix64's finaliser on int64, whose products wrap around. Shifts of int64 keep the sign;
    the masks take it away."""
    x = x + -7046029254386353131
    x = (x ^ ((x >> 30) & 17179869183)) * -4658895280553007687
    x = (x ^ ((x >> 27) & 137438953471)) * -7723592293110705685
    return x ^ ((x >> 31) & 8589934591)


@triton.jit
def _chunk_kernel(
    x_ptr,
    seeds_ptr,
    positions_ptr,
    values_ptr,
    indices_ptr,
    row_stride,
    vocab,
    chunks,
    HAS_NOISE: tl.constexpr,
    SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    token = chunk * SIZE + tl.arange(0, SIZE)
    x = tl.load(x_ptr + row * row_stride + token, mask=token < vocab, other=float("-inf"))
    if HAS_NOISE:
        if tl.max(x, 0) > float("-inf"):
            # A row's key in a block of its own, so that nothing is computed with scalars.
            seed = tl.load(seeds_ptr + row + token * 0)
            position = tl.load(positions_ptr + row + token * 0)
            bits = _mixed(
                _mixed(_mixed(seed) + position) + token.to(tl.int64) * -7046029254386353131
            )
            uniform = (
                ((bits >> 11) & 9007199254740991).to(tl.float64) + 0.5
            ) * 1.1102230246251565e-16
            # The topmost half would round to 1, whose noise is infinite.
            uniform = tl.minimum(uniform, 0.9999999999999999)
            x = x + (-tl.log(-tl.log(uniform))).to(tl.float32)
    best = tl.max(x, 0)
    index = tl.min(tl.where(x == best, token, vocab), 0)
    tl.store(values_ptr + row * chunks + chunk, best)
    tl.store(indices_ptr + row * chunks + chunk, index)


@triton.jit
def _winner_kernel(values_ptr, indices_ptr, out_ptr, vocab, chunks, CHUNKS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.arange(0, CHUNKS)
    real = chunk < chunks
    values = tl.load(values_ptr + row * chunks + chunk, mask=real, other=float("-inf"))
    indices = tl.load(indices_ptr + row * chunks + chunk, mask=real, other=vocab)
    index = tl.min(tl.where(values == tl.max(values, 0), indices, vocab), 0)
    # Nothing equals a NaN: a broken row still gets an index that exists.
    tl.store(out_ptr + row, tl.minimum(index, vocab - 1).to(tl.int64))


@triton.jit(do_not_specialize=["n"])
def _sums_kernel(x_ptr, partial_ptr, row_stride, n, vocab, chunks, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    token = chunk * SIZE + tl.arange(0, SIZE)
    x = tl.load(x_ptr + row * row_stride + token, mask=token < vocab, other=float("-inf"))
    best = tl.max(x, 0)
    # A chunk of nothing but -inf adds nothing; NaN and infinity make a NaN of the sum.
    total = tl.sum(tl.exp(x - tl.where(best == float("-inf"), 0.0, best)), 0)
    place = row * chunks + chunk
    tl.store(partial_ptr + place, best)
    tl.store(partial_ptr + n * chunks + place, total)


@triton.jit(do_not_specialize=["n"])
def _logprob_kernel(
    x_ptr, tokens_ptr, partial_ptr, out_ptr, row_stride, n, chunks, CHUNKS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.arange(0, CHUNKS)
    real = chunk < chunks
    place = row * chunks + chunk
    best = tl.load(partial_ptr + place, mask=real, other=float("-inf"))
    total = tl.load(partial_ptr + n * chunks + place, mask=real, other=0.0)
    top = tl.max(best, 0)
    share = tl.exp(best - tl.where(top == float("-inf"), 0.0, top))
    # Not where a chunk's greatest is -inf: zero, and so is its sum.
    whole = tl.sum(total * share, 0)
    x = tl.load(x_ptr + row * row_stride + tl.load(tokens_ptr + row))
    tl.store(out_ptr + row, (x - top) - tl.log(whole))
