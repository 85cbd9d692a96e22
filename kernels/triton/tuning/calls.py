"""What is compared and timed of a kernel: calls of the sizes that real models make, one by one.

They are made on any device. On torch's "meta", whose tensors hold nothing, they do for the compiler
(see `compilation`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from lookhear.kernels.experts import ExpertWeights
from lookhear.kernels.fp8 import round_int8, round_rows
from lookhear.kernels.int4.weights import round_int4
from lookhear.kernels.linear import LinearWeights, in_int4
from lookhear.kernels.triton import (
    activations,
    attention,
    cached_attention,
    experts,
    linear,
    norms,
    paged_attention,
    self_attention_paged,
)
from lookhear.kernels.triton import sampling as choices

Call = Callable[[], Tensor]
Calls = Callable[[torch.device], dict[str, Call]]  # by what they are for

AUDIO_WINDOW = 104  # positions of a Qwen3-ASR's


def norm_calls(width: int) -> Calls:
    """RMS norm and layer norm of tokens of this width; of a head where it is small."""

    def calls(device: torch.device) -> dict[str, Call]:
        weight = drawn(device, width)
        made: dict[str, Call] = {}
        for rows in (1, 64, 1500):
            x = drawn(device, rows * (24 if width <= 256 else 1), width)
            made[f"rms norm, {rows}"] = partial(_normed, x, weight)
            made[f"layer norm, {rows}"] = partial(norms.layer_norm, x, weight, weight)
        return made

    return calls


def few_rows_calls(rows: int, kernel: str) -> Calls:
    """Of a layer of a decoder with 1.7 billion parameters, its head, and a Whisper's first half of
    a feed-forward layer. kernel: which of the products, as in the table."""
    fp8, int4 = "8 bits" in kernel, "4 bits" in kernel

    def calls(device: torch.device) -> dict[str, Call]:
        def weights(outs: int, inner: int, *, has_bias: bool = False) -> LinearWeights:
            bias = drawn(device, outs) if has_bias else None
            weight = drawn(device, outs, inner) / inner**0.5
            if int4:
                return in_int4(round_int4(weight, 128), bias)
            scales = None
            if fp8:
                weight, scales = round_rows(weight)
            return LinearWeights(weight, bias, False, outs, inner, scales=scales)

        def normed(weights: LinearWeights, gated: bool) -> Tensor:
            return linear.norm_linear(x, x, norm, 1e-6, weights, gated=gated)[0]

        shapes = (rows, 2048), (rows, 6144), (rows, 1280), (2048,)
        x, wide, narrow, norm = (drawn(device, *shape) for shape in shapes)
        if kernel.endswith(", norm"):
            return {"query, key, value": partial(normed, weights(4096, 2048), False)}
        if kernel.endswith(", gated"):
            return {"gate, up": partial(normed, weights(12_288, 2048), True)}
        layer: dict[str, Call] = {
            "output": partial(linear.linear, x, weights(2048, 2048)),
            "down": partial(linear.linear, wide, weights(2048, 6144)),
        }
        if fp8 or int4:
            return layer
        return {
            **layer,
            "head": partial(linear.linear, x, weights(151_936, 2048)),
            "Whisper's": partial(linear.linear, narrow, weights(5120, 1280, has_bias=True), "gelu"),
        }

    return calls


def int8_calls(rows: int) -> Calls:
    """Of a layer of the same decoder, weights in int8."""

    def calls(device: torch.device) -> dict[str, Call]:
        def weights(outs: int, inner: int) -> LinearWeights:
            values, scales = round_int8(drawn(device, outs, inner) / inner**0.5)
            return LinearWeights(values, None, False, outs, inner, scales=scales)

        x, wide = drawn(device, rows, 2048), drawn(device, rows, 6144)
        return {
            "output": partial(linear.linear, x, weights(2048, 2048)),
            "gate, up": partial(linear.linear, x, weights(12_288, 2048)),
            "down": partial(linear.linear, wide, weights(2048, 6144)),
        }

    return calls


def int4_calls(rows: int) -> Calls:
    """The same of 4 bits, in groups of 128."""

    def calls(device: torch.device) -> dict[str, Call]:
        def weights(outs: int, inner: int) -> LinearWeights:
            return in_int4(round_int4(drawn(device, outs, inner) / inner**0.5, 128))

        x, wide = drawn(device, rows, 2048), drawn(device, rows, 6144)
        return {
            "query, key, value": partial(linear.linear, x, weights(4096, 2048)),
            "gate, up": partial(linear.linear, x, weights(12_288, 2048)),
            "down": partial(linear.linear, wide, weights(2048, 6144)),
        }

    return calls


def expert_calls(share: int) -> Calls:
    """Of a layer of Qwen3-30B-A3B, about so many pairs of a token and an expert for each."""

    def calls(device: torch.device) -> dict[str, Call]:
        num, per_token, width, ffn = 128, 8, 2048, 768
        gate_up, down = drawn(device, num, 2 * ffn, width), drawn(device, num, width, ffn)
        weights = ExpertWeights(gate_up.div_(width**0.5), down.div_(ffn**0.5))
        made: dict[str, Call] = {}
        for tokens in (1, 8, share * num // per_token):
            # Each token's next to each other, all of them about as often.
            first = torch.arange(tokens, device=device)[:, None] * 5
            chosen = (first + torch.arange(per_token, device=device)) % num
            shares = drawn(device, tokens, per_token, dtype=torch.float32).softmax(-1)
            x = drawn(device, tokens, width)
            made[f"{tokens} tokens"] = partial(experts.mixed_experts, x, chosen, shares, weights)
        return made

    return calls


def activation_calls(device: torch.device) -> dict[str, Call]:
    """Of a feed-forward layer."""
    made: dict[str, Call] = {}
    for rows in (1, 64, 1500):
        x = drawn(device, rows, 2 * 6144)
        made[f"SwiGLU, {rows}"] = partial(activations.swiglu, x)
        made[f"GELU, {rows}"] = partial(_activated, x)
    return made


def choice_calls(device: torch.device) -> dict[str, Call]:
    """Of the vocabularies of Qwen3 and Whisper."""
    made: dict[str, Call] = {}
    for rows, vocab in ((1, 151_936), (64, 151_936), (1, 51_866), (64, 51_866)):
        x = drawn(device, rows, vocab, dtype=torch.float32)
        made[f"{rows} x {vocab}"] = partial(_chosen, x)
    return made


def decode_calls(dim: int) -> Calls:
    """A decoder's attention to its own keys, and to audio."""

    def calls(device: torch.device) -> dict[str, Call]:
        audio = drawn(device, 8, 2, 16, 1500, dim)
        made = {
            f"{rows} x {past}": _self_attention(device, rows, past, dim)
            for rows, past in ((1, 400), (1, 3000), (64, 400))
        }
        for rows in (1, 64):
            q = drawn(device, rows, 1, 16, dim)
            slots = index(device, *range(8)).repeat(8)[:rows]
            lengths = index(device, *[1500] * rows)
            made[f"audio, {rows}"] = partial(
                cached_attention.cross_attention_cached, q, audio, slots, lengths
            )
        return made

    return calls


def prefill_calls(dim: int) -> Calls:
    """Prompts over a paged cache, and windows of audio."""

    def calls(device: torch.device) -> dict[str, Call]:
        q, k, v, bounds = _windows(device, dim)
        return {
            "1 x 128 after 300": _paged(device, dim, 1, 300, 128),
            "4 x 128 after 300": _paged(device, dim, 4, 300, 128),
            "1 x 2048": _paged(device, dim, 1, 0, 2048),
            "windows": lambda: attention.windowed_attention(q, k, v, bounds),
        }

    return calls


def encoder_calls(dim: int) -> Calls:
    """Of a Whisper's encoder: whole windows, and short ones."""

    def calls(device: torch.device) -> dict[str, Call]:
        return {
            name: partial(attention.attention, *heads, scale=1.0)
            for name, heads in _whole(device, dim).items()
        }

    return calls


# --- what the library has for the same -----------------------------------------------------------


def encoder_rivals(dim: int) -> dict[str, Calls]:
    """torch's own attention, by what may carry it out, for `encoder_calls`."""

    def of(backend: SDPBackend) -> Calls:
        def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, scale=1.0).transpose(1, 2)

        return lambda device: {
            name: partial(attended, *heads) for name, heads in _whole(device, dim).items()
        }

    return {
        "flash": of(SDPBackend.FLASH_ATTENTION),
        "cuDNN": of(SDPBackend.CUDNN_ATTENTION),
    }


def prefill_rivals(dim: int) -> dict[str, Calls]:
    """torch's attention of packed sequences, which wants to be told the longest, for the windows of
    `prefill_calls`."""

    def calls(device: torch.device) -> dict[str, Call]:
        from torch.nn.attention.varlen import varlen_attn  # since torch 2.10

        q, k, v, bounds = _windows(device, dim)
        ends = bounds.to(torch.int32)

        def attended() -> Tensor:
            found = varlen_attn(q, k, v, ends, ends, AUDIO_WINDOW, AUDIO_WINDOW)
            assert isinstance(found, Tensor)  # without what it can tell besides
            return found

        return {"windows": attended}

    return {"varlen": calls}


# --- inputs --------------------------------------------------------------------------------------


def drawn(device: torch.device, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Normal numbers, the same every time that a shape is asked for."""
    draw = None
    if device.type != "meta":
        draw = torch.Generator(device).manual_seed(len(shape))
    return torch.randn(shape, device=device, dtype=torch.float32, generator=draw).to(dtype)


def index(device: torch.device, *values: int) -> Tensor:
    """[values] int64."""
    return torch.tensor(values, dtype=torch.int64, device=device)


def _normed(x: Tensor, weight: Tensor) -> Tensor:
    return norms.add_rms_norm(x, x, weight, 1e-6)[0]


def _activated(x: Tensor) -> Tensor:
    return activations.gelu_(x * 1.0)


def _chosen(x: Tensor) -> Tensor:
    return choices.token_logprobs(x, choices.argmax(x))


def _paged(device: torch.device, dim: int, rows: int, past: int, new: int) -> Call:
    kv_heads, blocks = 8, -(-(past + new) // 16)
    cache = drawn(device, 2, 1 + rows * blocks, 16, kv_heads, dim)
    tables = torch.arange(1, 1 + rows * blocks, device=device).view(rows, blocks)
    q = drawn(device, rows * new, 2 * kv_heads, dim)
    lengths = index(device, *[past] * rows), index(device, *[new] * rows)
    return lambda: paged_attention.paged_attention(q, cache, tables, *lengths)


def _self_attention(device: torch.device, rows: int, past: int, dim: int) -> Call:
    kv_heads, blocks = 8, past // 16 + 1
    cache = drawn(device, 2, 1 + rows * blocks, 16, kv_heads, dim)
    tables = torch.arange(1, 1 + rows * blocks, device=device).view(rows, blocks)
    qkv = drawn(device, rows, 4 * kv_heads, dim)
    weight, angle = drawn(device, 3 * kv_heads, dim), drawn(device, rows, 1, dim)
    lengths = index(device, *[past] * rows), index(device, *[1] * rows)
    slots = tables[:, past // 16] * 16 + past % 16
    return lambda: self_attention_paged.self_attention_paged(
        qkv, weight, 1e-6, angle, angle, cache, slots, tables, *lengths, is_decode=True
    )


def _windows(device: torch.device, dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values, bounds of four."""
    q, k, v = drawn(device, 4 * AUDIO_WINDOW, 3 * 16, dim).chunk(3, dim=1)
    return q, k, v, index(device, *range(0, 5 * AUDIO_WINDOW, AUDIO_WINDOW))


def _whole(device: torch.device, dim: int) -> dict[str, tuple[Tensor, ...]]:
    """Queries, keys, values; scores as a model's are, of about 1."""
    return {
        f"{batch} x {positions}": tuple(
            (drawn(device, batch, positions, 3 * 20, dim) * dim**-0.25).chunk(3, dim=2)
        )
        for batch, positions in ((1, 1500), (8, 1500), (8, 400))
    }
