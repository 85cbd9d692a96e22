from __future__ import annotations

import torch

from lookhear.kernels import (
    norm_rope_write,
    paged_write,
    rms_norm,
    rope,
    rope_angles,
    rope_frequencies,
)


def test_is_what_its_parts_are() -> None:
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(3, 8, 6, generator=generator)
    weight = torch.randn(6, 6, generator=generator)
    angles = rope_angles(torch.tensor([4, 5, 0]), rope_frequencies(6, 1e4), torch.float32)
    slots = torch.tensor([6, 7, 0])
    ours, theirs = torch.zeros(2, 2, 2, 4, 2, 6).unbind(0)
    q = norm_rope_write(qkv, weight, 1e-6, *angles, ours, slots)
    turned = rope(rms_norm(qkv[:, :6], weight, 1e-6), *angles)
    paged_write(turned[:, 4:], qkv[:, 6:], theirs, slots)
    assert torch.equal(q, turned[:, :4]) and torch.equal(ours, theirs)
    q = norm_rope_write(qkv, None, 1e-6, *angles, ours, slots)
    turned = rope(qkv[:, :6], *angles)
    paged_write(turned[:, 4:], qkv[:, 6:], theirs, slots)
    assert torch.equal(q, turned[:, :4]) and torch.equal(ours, theirs)
