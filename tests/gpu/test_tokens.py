"""Kernels over tokens against their twins in float32, at the sizes of real models."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear import kernels

pytestmark = pytest.mark.gpu

Sized = Callable[[int, int], int]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def draw(device: torch.device, seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


def both(name: str) -> tuple[Any, Any]:
    """Triton's and torch's version of an operation."""
    operation: Any = getattr(kernels, name)
    if not hasattr(operation, "twin"):  # what it is without an adapter's change
        operation = getattr(import_module("lookhear.kernels.linear"), name)
    return operation.twin(), operation.__wrapped__


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [5, 123, 1023, 1280, 2048, 5120])
def test_norms(
    width: int, dtype: torch.dtype, device: torch.device, sized: Sized, errors: Any
) -> None:
    for rows in (1, 5, sized(1023, 6)):
        x, y, weight, bias = (
            draw(device, seed, *shape).to(dtype)
            for seed, shape in enumerate([(rows, width)] * 2 + [(width,)] * 2)
        )
        ours, theirs = both("rms_norm")
        errors.close(ours(x, weight, 1e-6), theirs(x.float(), weight.float(), 1e-6))
        ours, theirs = both("layer_norm")
        errors.close(ours(x, weight, bias), theirs(x.float(), weight.float(), bias.float()))
        ours, theirs = both("add_layer_norm_")
        total = y.clone()
        normed = ours(x, total, weight, bias)
        errors.close(total, x.float() + y.float())
        nothing = torch.zeros_like(total)
        errors.close(normed, theirs(*(each.float() for each in (nothing, total, weight, bias))))
        ours, theirs = both("add_rms_norm")
        normed, total = ours(x, y, weight, 1e-6)
        errors.close(total, x.float() + y.float())
        exact = theirs(total.float(), torch.zeros_like(x).float(), weight.float(), 1e-6)[0]
        errors.close(normed, exact)


@pytest.mark.parametrize("dtype", DTYPES)
def test_activations(dtype: torch.dtype, device: torch.device, sized: Sized, errors: Any) -> None:
    for rows, width in ((1, 6144), (sized(1500, 5), 5120), (5, 123)):
        x = draw(device, 0, rows, 2 * width).to(dtype)
        ours, theirs = both("swiglu")
        errors.close(ours(x), theirs(x.float()))
        ours, theirs = both("gelu_")
        for approximation in ("none", "tanh"):
            exact = theirs(x.to(torch.float32, copy=True), approximation)
            errors.close(ours(x.clone(), approximation), exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim"), [(16, 8, 128), (14, 2, 64), (7, 1, 80), (32, 8, 128)]
)
def test_attention_inputs(
    heads: int,
    kv_heads: int,
    dim: int,
    dtype: torch.dtype,
    device: torch.device,
    sized: Sized,
    errors: Any,
) -> None:
    """Rotary angles, and norm, rotation and write in one; what is next to the heads is NaN."""
    tokens = sized(1023, 7)
    positions = torch.arange(tokens, device=device) * 31
    frequencies = kernels.rope_frequencies(dim, 1e6).to(device)
    ours, theirs = both("rope_angles")
    cos, sin = ours(positions, frequencies, dtype)
    exact = theirs(positions, frequencies, torch.float32)
    # Angles of some 30,000 turns have an error of their own in float32.
    errors.close(cos, exact[0], 2e-2)
    errors.close(sin, exact[1], 2e-2)
    wide = draw(device, 0, tokens, heads + 2 * kv_heads + 1, dim).to(dtype)
    wide[:, -1] = torch.nan
    qkv, weight = wide[:, :-1], draw(device, 1, heads + kv_heads, dim).to(dtype)
    blocks = tokens // 16 + 2
    slots = torch.randperm(blocks * 16, generator=torch.Generator().manual_seed(0))[:tokens]
    caches = [
        torch.full((2, blocks, 16, kv_heads, dim), torch.nan, dtype=kind, device=device)
        for kind in (dtype, torch.float32)
    ]
    ours, theirs = both("norm_rope_write")
    places = slots.to(device)
    q = ours(qkv, weight, 1e-6, cos, sin, caches[0], places)
    single = (x.float() for x in (qkv, weight))
    q_exact = theirs(*single, 1e-6, cos.float(), sin.float(), caches[1], places)
    limit = {torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 5e-3}[dtype]
    errors.close(q, q_exact, limit)
    written = caches[1].isfinite()
    assert torch.equal(caches[0].isfinite(), written)
    errors.close(caches[0][written], caches[1][written], limit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", [1, 37, 600])
def test_experts(
    tokens: int, dtype: torch.dtype, device: torch.device, sized: Sized, errors: Any
) -> None:
    """Few and many pairs of an expert; of one that nobody chose nothing is read."""
    tokens, experts, per_token = sized(tokens, min(tokens, 9)), sized(64, 6), sized(8, 2)
    width, ffn = sized(1023, 70), sized(389, 33)
    gate_up = (draw(device, 0, experts, 2 * ffn, width) / width**0.5).to(dtype)
    down = (draw(device, 1, experts, width, ffn) / ffn**0.5).to(dtype)
    gate_up[2], down[2] = torch.nan, torch.nan
    likes = draw(device, 2, tokens, experts)
    likes[:, 2] = -100.0
    shares, chosen = likes.softmax(-1).topk(per_token)
    x = draw(device, 3, tokens, width).to(dtype)
    ours, theirs = both("mixed_experts")
    exact = kernels.ExpertWeights(gate_up.float(), down.float())
    limit = {torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 6e-3}[dtype]
    errors.close(
        ours(x, chosen, shares, kernels.ExpertWeights(gate_up, down)),
        theirs(x.float(), chosen, shares, exact),
        limit,
    )


# Each is compiled anew, for every number of rows and what is in the product: seconds.
@pytest.mark.parametrize(
    ("inner", "outs", "dtype"),
    [
        (2048, 12_288, torch.bfloat16),
        (6144, 2048, torch.bfloat16),
        (1280, 51_866, torch.float16),
        *((1023, 246, dtype) for dtype in DTYPES),
    ],
)
def test_products_of_few_rows(
    inner: int, outs: int, dtype: torch.dtype, device: torch.device, sized: Sized, errors: Any
) -> None:
    inner, outs = sized(inner, inner // 8), sized(outs, min(outs, 64) & ~1)
    weight = draw(device, 0, outs, inner) / inner**0.5
    bias, norm = draw(device, 1, outs), draw(device, 2, inner)

    def weights(kind: torch.dtype) -> kernels.LinearWeights:
        return kernels.LinearWeights(
            weight.to(dtype).to(kind), bias.to(dtype).to(kind), False, outs, inner
        )

    limit = {torch.float32: 2e-5, torch.bfloat16: 6e-2, torch.float16: 6e-3}[dtype]
    for rows in (1, 3, 8):
        x, change = (draw(device, seed, rows, inner).to(dtype) for seed in (3, 4))
        ours, theirs = both("linear")
        for activation in ("none", "gelu"):
            exact = theirs(x.float(), weights(torch.float32), activation)
            errors.close(ours(x, weights(dtype), activation), exact, limit)
        ours, theirs = both("norm_linear")
        for gated in (False, True):
            factors = norm.to(dtype)
            y, total = ours(x, change, factors, 1e-6, weights(dtype), gated=gated)
            errors.close(total, x.float() + change.float())
            exact, _ = theirs(
                total.float(), None, factors.float(), 1e-6, weights(torch.float32), gated=gated
            )
            errors.close(y, exact, limit)


@pytest.mark.parametrize("sections", [(24, 20, 20), (8, 8, 8)])
def test_three_axes(
    sections: tuple[int, int, int], device: torch.device, sized: Sized, errors: Any
) -> None:
    tokens, dim = sized(4096, 9), 2 * sum(sections)
    generator = torch.Generator().manual_seed(0)
    positions = torch.randint(300, (3, tokens), generator=generator).to(device)
    frequencies = kernels.rope_frequencies(dim, 5e6).to(device)
    ours, theirs = both("rope_angles")
    for mine, exact in zip(
        ours(positions, frequencies, torch.float32, sections=sections),
        theirs(positions, frequencies, torch.float32, sections=sections),
        strict=True,
    ):
        errors.close(mine, exact, 1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_embedding(dtype: torch.dtype, device: torch.device, sized: Sized, errors: Any) -> None:
    vocab, width = sized(51_866, 60), sized(1280, 33)
    words = draw(device, 0, vocab, width).to(dtype)
    places = draw(device, 1, 448, width).to(dtype)
    tokens = torch.randint(vocab, (64, 5), generator=torch.Generator().manual_seed(0)).to(device)
    positions = torch.arange(5, device=device).expand(64, 5) + 400
    ours, theirs = both("embed_tokens")
    errors.close(
        ours(tokens, positions, words, places),
        theirs(tokens, positions, words.float(), places.float()),
    )


@pytest.mark.parametrize("mels", [80, 128])
def test_log_mel(mels: int, device: torch.device, sized: Sized, errors: Any) -> None:
    """Against the same transform in float64; a loud clip next to a faint one."""
    length = sized(480_000, 1_000)
    time = torch.arange(length, dtype=torch.float64) / 16_000
    tone = torch.sin(2 * torch.pi * (200 + 150 * time) * time) * (time % 1 > 0.3)
    noise = torch.randn(length, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    clips = torch.stack([tone * 0.9 + noise * 1e-4, tone * 1e-3, noise * 0.1, tone * 0.0])
    filters = kernels.mel_filters(mels)
    ours, theirs = both("log_mel")
    exact = theirs(clips, filters.double())
    errors.close(ours(clips.float().to(device), filters.to(device)), exact.to(device), 2e-3)


@pytest.mark.parametrize("mels", [80, 128])
def test_log_mel_of_chunks(mels: int, device: torch.device, sized: Sized, errors: Any) -> None:
    """Windows of two clips, eight chunks each, padding behind; against the same in torch."""
    size, per_clip = sized(100, 10), sized(8, 2)
    span = size * 160 * per_clip + 240
    draw = torch.Generator().manual_seed(0)
    samples = torch.randn(2 * span, generator=draw) * torch.linspace(1e-3, 0.5, 2 * span)
    chunks = torch.arange(2 * per_clip)
    clip = chunks // per_clip
    given = {
        "starts": clip * span + chunks % per_clip * size * 160,
        "frames": torch.where(chunks == per_clip - 1, size // 2, size),
        "heard": torch.stack([clip * per_clip, clip * per_clip + per_clip - 1]),
        "before": torch.linspace(-10.0, 3.0, len(chunks)),
    }
    filters = kernels.mel_filters(mels)
    ours, theirs = both("log_mel_chunks")
    there = {name: value.to(device) for name, value in given.items()}
    mine = ours(samples.to(device), **there, filters=filters.to(device), size=size)
    twin = theirs(samples, **given, filters=filters, size=size)
    for one, other in zip(mine, twin, strict=True):
        errors.close(one.cpu(), other, 2e-3)
