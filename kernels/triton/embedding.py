"""Token embedding plus learnt position, in one pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.triton.configs import tile


def embed_tokens(
    tokens: Tensor, positions: Tensor, token_table: Tensor, position_table: Tensor
) -> Tensor:
    """token_table[tokens] + position_table[positions], in float32.

    tokens, positions: int64 of one shape [...]; token_table: [vocab, width]; position_table:
    [context, width], any float dtypes. Returns [..., width] in the latter's dtype.
    Grid: (tokens, width / tile). A token or position outside of its table reads its nearest row: a
    GPU cannot raise, and what padding holds means nothing.
    """
    assert tokens.shape == positions.shape, (tokens.shape, positions.shape)
    assert token_table.is_contiguous() and position_table.is_contiguous()
    width = token_table.shape[1]
    shape = (*tokens.shape, width)
    out = torch.empty(shape, dtype=position_table.dtype, device=tokens.device)
    if out.numel() > 0:
        size, warps, _ = tile("elementwise", width)
        _embed_kernel[(tokens.numel(), triton.cdiv(width, size))](
            tokens.contiguous(),
            positions.contiguous(),
            token_table,
            position_table,
            out,
            len(token_table),
            len(position_table),
            width,
            SIZE=size,
            num_warps=warps,
        )
    return out


@triton.jit
def _embed_kernel(
    tokens_ptr,
    positions_ptr,
    token_table_ptr,
    position_table_ptr,
    out_ptr,
    vocab,
    context,
    width,
    SIZE: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    real = column < width
    token = tl.load(tokens_ptr + place)
    position = tl.load(positions_ptr + place)
    token = tl.minimum(tl.maximum(token, 0), vocab - 1)
    position = tl.minimum(tl.maximum(position, 0), context - 1)
    x = tl.load(token_table_ptr + token * width + column, mask=real, other=0.0)
    y = tl.load(position_table_ptr + position * width + column, mask=real, other=0.0)
    kind = out_ptr.dtype.element_ty
    total = x.to(tl.float32) + y.to(tl.float32)
    tl.store(out_ptr + place * width + column, total.to(kind), mask=real)
