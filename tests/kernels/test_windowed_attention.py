from __future__ import annotations

import torch

from lookhear.kernels import attention, windowed_attention


def test_windows_see_themselves_and_padding_is_zero() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(9, 2, 4, generator=generator) for _ in range(3))
    k[7:] = torch.nan
    out = windowed_attention(q, k, v, torch.tensor([0, 3, 3, 7]))
    for a, b in ((0, 3), (3, 7)):
        alone = attention(q[None, a:b], k[None, a:b], v[None, a:b])[0]
        assert torch.equal(out[a:b], alone)
    assert not out[7:].any()
    assert not windowed_attention(q, k, v, torch.tensor([0])).any()
