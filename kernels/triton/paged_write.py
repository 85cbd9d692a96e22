"""The write of new keys and values into their blocks."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


def paged_write(k: Tensor, v: Tensor, cache: Tensor, slots: Tensor) -> None:
    """Puts the keys and values of new tokens into their slots, in place.

    k, v: [tokens, kv_heads, dim], heads may lie apart; cache: [2, blocks, block, kv_heads, dim]
    (one layer), keys then values, of any float dtype; slots: [tokens] int64, those of block 0 for
    padding. Real slots must differ. Grid: (tokens,).

    A slot outside of the cache is not written: a GPU cannot raise, and -1 must not become the last
    block. Padding slots may be equal: what lies in the trash block means nothing.
    """
    assert cache.is_contiguous()
    k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (k, v))
    tokens, kv_heads, dim = k.shape
    if k.numel() > 0:
        _write_kernel[(tokens,)](
            k,
            v,
            cache,
            slots,
            cache.shape[1] * cache.shape[2],
            k.stride(0),
            k.stride(1),
            v.stride(0),
            v.stride(1),
            dim,
            kv_heads * dim,
            SIZE=triton.next_power_of_2(kv_heads * dim),
            num_warps=4,
        )


@triton.jit
def _write_kernel(
    k_ptr,
    v_ptr,
    cache_ptr,
    slots_ptr,
    num_slots,
    k_token,
    k_head,
    v_token,
    v_head,
    dim,
    width,  # kv_heads * dim
    SIZE: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + token).to(tl.int64)
    place = tl.arange(0, SIZE)
    real = place < width
    if (slot >= 0) & (slot < num_slots):
        head, inside = place // dim, place % dim
        k = tl.load(k_ptr + token * k_token + head * k_head + inside, mask=real, other=0.0)
        v = tl.load(v_ptr + token * v_token + head * v_head + inside, mask=real, other=0.0)
        kind = cache_ptr.dtype.element_ty
        # No `.to` on a number that was passed: where it is 1, Triton makes a constant of it.
        tl.store(cache_ptr + slot * width + place, k.to(kind), mask=real)
        tl.store(cache_ptr + (slot + num_slots) * width + place, v.to(kind), mask=real)
