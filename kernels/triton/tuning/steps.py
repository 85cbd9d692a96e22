"""Whole decode steps, which is what a tile for them is chosen by: a kernel that is faster alone may
keep the next one from fetching its weights early. One step is one graph, replayed without a pause,
as it is while serving; random weights, each layer's own, or they would come from the L2 cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from lookhear.kernels.fp8 import round_rows
from lookhear.kernels.linear import LinearWeights
from lookhear.kernels.triton import cached_attention, linear, norms, rope, self_attention_paged
from lookhear.kernels.triton.tuning.calls import Call, Calls, drawn, index

BLOCK = 16  # tokens


@dataclass(frozen=True, slots=True)
class Decoder:
    """Of a Qwen3 or a Whisper: sizes of a layer. dim: of a head. fp8: the weights of a Qwen3's
    layers are in float8."""

    name: str
    width: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    dim: int
    vocab: int
    fp8: bool = False


LARGE = Decoder("Qwen3 1.7B", 2048, 6144, 28, 16, 8, 128, 151_936)
SMALL = Decoder("Qwen3 0.6B", 1024, 3072, 28, 16, 8, 128, 151_936)
LARGE_FP8 = replace(LARGE, name="Qwen3 1.7B in float8", fp8=True)
SMALL_FP8 = replace(SMALL, name="Qwen3 0.6B in float8", fp8=True)
TURBO = Decoder("Whisper turbo", 1280, 5120, 4, 20, 20, 64, 51_866)


def decode_steps(
    shapes: Sequence[tuple[Decoder, int, int]],
) -> Calls:
    """Of these decoders, rows and cached tokens of each. They return the logits."""

    def calls(device: torch.device) -> dict[str, Call]:
        weights: dict[str, list[LinearWeights]] = {}
        made: dict[str, Call] = {}
        for decoder, rows, past in shapes:
            is_whisper = decoder.kv_heads == decoder.heads
            if decoder.name not in weights:
                make = _whisper_weights if is_whisper else _qwen_weights
                weights[decoder.name] = make(decoder, device)
            of: Callable[..., Call] = _whisper_step if is_whisper else _qwen_step
            name = f"{decoder.name}, {rows} x {past}"
            made[name] = of(decoder, weights[decoder.name], device, rows, past)
        return made

    return calls


def _weights(
    device: torch.device, outs: int, inner: int, *, has_bias: bool = False, fp8: bool = False
) -> LinearWeights:
    weight = torch.empty(outs, inner, dtype=torch.bfloat16, device=device).normal_(0.0, 0.02)
    if fp8:
        values, scales = round_rows(weight)
        return LinearWeights(values, None, False, outs, inner, scales=scales)
    bias = drawn(device, outs) if has_bias else None
    return LinearWeights(weight, bias, False, outs, inner)


def _qwen_weights(decoder: Decoder, device: torch.device) -> list[LinearWeights]:
    """Four of every layer, and the head's."""
    queries = decoder.heads * decoder.dim
    shapes = [
        (queries + 2 * decoder.kv_heads * decoder.dim, decoder.width),
        (decoder.width, queries),
        (2 * decoder.ffn, decoder.width),
        (decoder.width, decoder.ffn),
    ] * decoder.layers
    layers = [_weights(device, *shape, fp8=decoder.fp8) for shape in shapes]
    return [*layers, _weights(device, decoder.vocab, decoder.width)]


def _qwen_step(
    decoder: Decoder, weights: list[LinearWeights], device: torch.device, rows: int, past: int
) -> Call:
    dim, kv_heads, width = decoder.dim, decoder.kv_heads, decoder.width
    blocks = past // BLOCK + 1
    caches = [
        drawn(device, 2, 1 + rows * blocks, BLOCK, kv_heads, dim) for _ in range(decoder.layers)
    ]
    tables = torch.arange(1, 1 + rows * blocks, device=device).view(rows, blocks)
    slots = tables[:, past // BLOCK] * BLOCK + past % BLOCK
    lengths, ones = index(device, *[past] * rows), index(device, *[1] * rows)
    norm, head_norm = drawn(device, width), drawn(device, decoder.heads + kv_heads, dim)
    frequencies = torch.ones(dim // 2, device=device)

    def step() -> Tensor:
        x = weights[-1].weight[lengths]
        angles = rope.rope_angles(lengths, frequencies, torch.bfloat16)
        change: Tensor | None = None
        for layer, cache in enumerate(caches):
            qkv, out, gate_up, down = weights[4 * layer : 4 * layer + 4]
            heads, x = linear.norm_linear(x, change, norm, 1e-6, qkv)
            y = self_attention_paged.self_attention_paged(
                heads.view(rows, -1, dim), head_norm, 1e-6, *angles, cache, slots, tables,
                lengths, ones, is_decode=True,
            )  # fmt: skip
            change = linear.linear(y.flatten(1), out)
            y, x = linear.norm_linear(x, change, norm, 1e-6, gate_up, gated=True)
            change = linear.linear(y, down)
        assert change is not None
        return linear.linear(norms.add_rms_norm(change, x, norm, 1e-6)[0], weights[-1])

    return step


def _whisper_weights(decoder: Decoder, device: torch.device) -> list[LinearWeights]:
    """Six of every layer, and the head's."""
    width = decoder.width
    shapes = [
        (3 * width, width),
        *[(width, width)] * 3,  # output, and the audio's query and output
        (decoder.ffn, width),
        (width, decoder.ffn),
    ] * decoder.layers
    made = [_weights(device, *shape, has_bias=True) for shape in shapes]
    return [*made, _weights(device, decoder.vocab, width)]


def _whisper_step(
    decoder: Decoder, weights: list[LinearWeights], device: torch.device, rows: int, past: int
) -> Call:
    width, heads, dim = decoder.width, decoder.heads, decoder.dim
    own = [drawn(device, 2, rows, heads, 448, dim) for _ in range(decoder.layers)]
    audio = [drawn(device, rows, 2, heads, 1500, dim) for _ in range(decoder.layers)]
    slots = torch.arange(rows, device=device)
    lengths, ones = index(device, *[past] * rows), index(device, *[1] * rows)
    seen = index(device, *[1500] * rows)
    weight, bias = drawn(device, width), drawn(device, width)
    add = partial(norms.add_layer_norm_, weight=weight, bias=bias)

    def step() -> Tensor:
        x = weights[-1].weight[lengths][:, None]
        normed = norms.layer_norm(x, weight, bias)
        for layer in range(decoder.layers):
            qkv, out, query, audio_out, up, down = weights[6 * layer : 6 * layer + 6]
            q, k, v = linear.linear(normed, qkv).view(rows, 1, 3, heads, dim).unbind(2)
            y = cached_attention.self_attention_cached(
                q, k, v, own[layer], slots, lengths, ones, scale=1.0
            )
            normed = add(linear.linear(y.flatten(2), out), x)
            q = linear.linear(normed, query).view(rows, 1, heads, dim)
            y = cached_attention.cross_attention_cached(q, audio[layer], slots, seen, scale=1.0)
            normed = add(linear.linear(y.flatten(2), audio_out), x)
            normed = add(linear.linear(linear.linear(normed, up, "gelu"), down), x)
        return linear.linear(normed, weights[-1])

    return step
