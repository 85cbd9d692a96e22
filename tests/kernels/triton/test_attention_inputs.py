from __future__ import annotations

import pytest
import torch

from lookhear.kernels import norm_rope_write, rope_angles, rope_frequencies
from lookhear.kernels.triton import attention_inputs

# The interpreter cuts bfloat16 off where a GPU rounds: at every cast up to one place off.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2**-4, torch.float16: 2**-8}


@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(
    ("tokens", "heads", "kv_heads", "dim"),
    [(5, 4, 2, 6), (2, 16, 8, 128), (1, 1, 1, 80), (0, 2, 1, 4)],
)
def test_one_operation_for_four(
    tokens: int, heads: int, kv_heads: int, dim: int, dtype: torch.dtype, normed: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(tokens, heads + 2 * kv_heads + 1, dim, generator=generator).to(dtype)
    wide[:, -1] = torch.nan
    drawn = torch.randn(heads + kv_heads, dim, generator=generator).to(dtype)
    weight = drawn if normed else None
    angles = rope_angles(torch.arange(tokens) * 11, rope_frequencies(dim, 1e4), dtype)
    slots = torch.tensor([9, 4, 15, 0, 1])[:tokens]
    caches = [torch.full((2, 4, 4, kv_heads, dim), torch.nan, dtype=dtype) for _ in range(2)]
    ours, theirs = (
        f(wide[:, :-1], weight, 1e-6, *angles, cache, slots)
        for f, cache in zip(
            (attention_inputs.norm_rope_write, norm_rope_write), caches, strict=True
        )
    )
    close = TOLERANCE[dtype]
    torch.testing.assert_close(ours, theirs, atol=close, rtol=close)
    torch.testing.assert_close(*caches, atol=close, rtol=close, equal_nan=True)


def test_a_slot_outside_writes_nothing() -> None:
    cache, qkv = torch.zeros(2, 3, 4, 1, 4), torch.ones(3, 3, 4)
    angles = rope_angles(torch.arange(3), rope_frequencies(4, 1e4), torch.float32)
    slots = torch.tensor([-1, 12, 2**40])
    attention_inputs.norm_rope_write(qkv, torch.ones(2, 4), 1e-6, *angles, cache, slots)
    assert not cache.any()
