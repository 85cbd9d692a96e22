"""Compiles kernels for compute capability 9.0 without a GPU, and prints a line for each: its name
and the bytes of shared memory that it takes; where it multiplies by warpgroups, also its warps, the
registers of a thread, the bytes that spill from them, and whether the products wait for each other;
what it was called for, where that is said. Its argument: `products` of few rows, which are half of
the work, or `others`."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from typing import Any

import torch
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.runtime.jit import JITFunction

from lookhear.kernels import ExpertWeights, Int4Weights, in_int4
from lookhear.kernels.linear import LinearWeights
from lookhear.kernels.triton import (
    activations,
    attention,
    attention_inputs,
    cached_attention,
    embedding,
    fp8,
    grammar_mask,
    linear,
    log_mel,
    norms,
    paged_attention,
    rope,
    sampling,
    sampling_stages,
    self_attention_paged,
)
from lookhear.kernels.triton.experts import mixed_experts
from lookhear.kernels.triton.tuning.compilation import only_compile

# Products of few rows as models have them: inputs; whether a norm is in front, and what is added
# before it; whether there is a bias; what follows.
PRODUCTS = {
    "layer 0": (2048, True, False, False, "none"),
    "layer": (2048, True, True, False, "none"),
    "gated": (2048, True, True, False, "swiglu"),
    "output": (2048, False, False, False, "none"),
    "down": (6144, False, False, False, "none"),
    "small layer": (1024, True, True, False, "none"),
    "small gated": (1024, True, True, False, "swiglu"),
    "small down": (3072, False, False, False, "none"),
    "Whisper": (1280, False, False, True, "none"),
    "Whisper up": (1280, False, False, True, "gelu"),
    "Whisper down": (5120, False, False, True, "none"),
}


def compile_part(part: str) -> None:
    """Calls every operation of it; launches only compile."""
    words: list[str] = []

    def compiled(function: JITFunction[Any], kernel: Any) -> None:
        print(function.__name__, kernel.metadata.shared, *assembled(kernel), *words)

    only_compile(GPUTarget("cuda", 90, 32), is_early=True, compiled=compiled)
    if part == "products":
        compile_products(words)
    else:
        compile_others()


def compile_others() -> None:
    """All but products of few rows of a real width."""
    for width, heads, kv_heads, dim in ((2048, 16, 8, 128), (1, 1, 1, 2)):
        by_token(width, heads, kv_heads, dim)
        decoding(width, heads, kv_heads, dim)
    for tokens in (1, 2048):
        over_experts(tokens, experts=128, per_token=8, width=2048, ffn=768)
    for rows in (16, 64, 2048):
        in_int8(rows, inner=2048)
    in_int8(8, inner=1)
    for rows in (1, 2, 4, 16, 64, 2048):
        of_4_bits(rows, inner=2048, group=128)
        of_4_bits(rows, inner=32, group=32, has_zeros=True)
    over_experts(1, experts=1, per_token=1, width=1, ffn=1)
    over_keys(tokens=4, heads=16, kv_heads=8, dim=128, blocks=300)
    over_keys(tokens=512, heads=16, kv_heads=8, dim=128, blocks=300)
    over_keys(tokens=4, heads=16, kv_heads=8, dim=128, blocks=300, dtype=torch.float8_e4m3fn)
    over_keys(tokens=512, heads=16, kv_heads=8, dim=128, blocks=300, dtype=torch.float8_e4m3fn)
    for tokens in (4, 512):
        over_wide_queries(tokens, heads=16, kv_heads=8, dim=128, blocks=300)
    over_keys(tokens=1, heads=1, kv_heads=1, dim=2, blocks=1)
    over_keys(tokens=4, heads=32, kv_heads=8, dim=128, blocks=300, window=4096)
    over_keys(tokens=512, heads=32, kv_heads=32, dim=64, blocks=50, window=750)
    over_slots(batch=1, queries=1, heads=20, keys=1500, dim=64)
    over_slots(batch=2, queries=200, heads=16, keys=200, dim=80)
    over_slots(batch=1, queries=1, heads=1, keys=1, dim=2)
    over_vocabulary(2, 151_936)
    over_vocabulary(1, 1)
    over_samples(batch=2, mels=128)
    over_samples(batch=1, mels=1)
    for positions in (1500, 400):  # the last ones
        encoders(batch=8, positions=positions, heads=20, dim=64)


def compile_products(words: list[str]) -> None:
    """words: what the next one is called for."""
    for name in PRODUCTS:
        for rows in (1, 2, 4):
            words[:] = f"{name}, {rows}".split()
            few_rows(rows, *PRODUCTS[name])
    for name in ("layer", "gated", "output", "down", "small layer", "small gated", "small down"):
        for rows in (1, 2, 4):
            words[:] = f"{name} fp8, {rows}".split()
            few_rows(rows, *PRODUCTS[name], is_fp8=True)


def assembled(kernel: Any) -> list[str]:
    """What the assembler says of a kernel that multiplies by warpgroups: "wgmma", its warps,
    registers, bytes spilled, order of the products; and of one that begins before the kernel in
    front has ended: "early", loads of 16 bytes until it waits, registers, bytes spilled. Nothing of
    another."""
    ptx = kernel.asm["ptx"]
    is_early = "griddepcontrol.wait" in ptx
    if "wgmma.mma_async" not in ptx and not is_early:
        return []
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [get_ptxas(90).path, "-v", "--gpu-name=sm_90a", file.name, "-o", "/dev/null"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    spilled, used = (re.search(p, said) for p in (r"(\d+) bytes spill stores", r"Used (\d+) reg"))
    assert spilled is not None and used is not None, said
    if is_early:
        loads = re.findall(r"ld\.global\S*\.v4\.b32", ptx.partition("griddepcontrol.wait")[0])
        return ["early", str(len(loads)), used[1], spilled[1]]
    order = "serial" if "are serialized" in said else "parallel"
    return ["wgmma", str(kernel.metadata.num_warps), used[1], spilled[1], order]


def zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def index(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def by_token(width: int, heads: int, kv_heads: int, dim: int) -> None:
    x = zeros(3 if width > 1 else 1, width)
    norms.rms_norm(x, x[0], 1e-6)
    norms.add_rms_norm(x, x, x[0], 1e-6)
    norms.layer_norm(x, x[0], x[0])
    norms.add_layer_norm_(x, x, x[0], x[0])
    fp8.round_rows(x)
    fp8.norm_round_rows(x, x, x[0], 1e-6)
    activations.gelu_(x)
    activations.gelu_(x, "tanh")
    embedding.embed_tokens(index(len(x)), index(len(x)), x, x)
    activations.swiglu(zeros(len(x), 2 * width))
    qkv = zeros(len(x), heads + 2 * kv_heads, dim)
    cos, sin = rope.rope_angles(index(len(x)), torch.zeros(dim // 2), torch.bfloat16)
    rope.rope(qkv[:, heads : heads + kv_heads], cos, sin)
    held = zeros(2, 1, len(x), kv_heads, dim)
    weight, slots = qkv[0, : heads + kv_heads], index(len(x))
    for kept in (held, held.to(torch.float8_e4m3fn)):
        attention_inputs.norm_rope_write(qkv, weight, 1e-6, cos, sin, kept, slots)
    attention_inputs.norm_rope_write(qkv, None, 1e-6, cos, sin, held, slots)


def decoding(width: int, heads: int, kv_heads: int, dim: int) -> None:
    outs = (heads + 2 * kv_heads) * dim
    weights = LinearWeights(zeros(2 * outs, width), zeros(2 * outs), False, 2 * outs, width)
    x = zeros(1, width)
    for gated in (False, True):
        linear.norm_linear(x, x, x[0], 1e-6, weights, gated=gated)
    linear.linear(x, weights, "gelu")
    for rows in (1, 2, 4) if width > 1 else (1,):
        qkv = zeros(rows, heads + 2 * kv_heads, dim)
        cos = zeros(rows, 1, dim)
        cache, table = zeros(2, 64 if width > 1 else 1, 16, kv_heads, dim), index(rows, 64)
        where = index(rows), table if width > 1 else table[:, :1], index(rows), index(rows)
        weight = qkv[0, : heads + kv_heads]
        quarter = cache.to(torch.float8_e4m3fn)
        for kept, factors in ((cache, weight), (quarter, weight), (cache, None)):
            self_attention_paged.self_attention_paged(
                qkv, factors, 1e-6, cos, cos, kept, *where, is_decode=True
            )


def few_rows(
    rows: int, inner: int, has_norm: bool, has_change: bool, has_bias: bool, activation: str,
    is_fp8: bool = False,
) -> None:  # fmt: skip
    outs = 4096
    bias = zeros(outs) if has_bias else None
    scales = torch.zeros(outs) if is_fp8 else None
    dtype = torch.float8_e4m3fn if is_fp8 else torch.bfloat16
    weight = zeros(outs, inner, dtype=dtype)
    weights = LinearWeights(weight, bias, False, outs, inner, scales=scales)
    x = zeros(rows, inner)
    if has_norm:
        change = x if has_change else None
        linear.norm_linear(x, change, x[0], 1e-6, weights, gated=activation == "swiglu")
    else:
        linear.linear(x, weights, activation)


def in_int8(rows: int, inner: int) -> None:
    weight = zeros(2048, inner, dtype=torch.int8)
    weights = LinearWeights(weight, None, False, 2048, inner, scales=torch.zeros(2048))
    linear.linear(zeros(rows, inner), weights)


def of_4_bits(rows: int, inner: int, group: int, has_zeros: bool = False) -> None:
    scales = zeros(inner // group, 2048)
    middle = zeros(inner // group, 2048, dtype=torch.uint8) if has_zeros else None
    four = Int4Weights(zeros(2048, inner // 2, dtype=torch.uint8), scales, middle)
    weights, x = in_int4(four), zeros(rows, inner)
    linear.linear(x, weights)
    linear.norm_linear(x, x, x[0], 1e-6, weights)
    linear.norm_linear(x, x, x[0], 1e-6, weights, gated=True)


def over_experts(tokens: int, experts: int, per_token: int, width: int, ffn: int) -> None:
    weights = ExpertWeights(zeros(experts, 2 * ffn, width), zeros(experts, width, ffn))
    shares = zeros(tokens, per_token, dtype=torch.float32)
    mixed_experts(zeros(tokens, width), index(tokens, per_token), shares, weights)


def over_keys(
    tokens: int, heads: int, kv_heads: int, dim: int, blocks: int, window: int | None = None,
    dtype: torch.dtype = torch.bfloat16,
) -> None:  # fmt: skip
    rows = min(tokens, 4)
    cache = zeros(2, blocks, 16, kv_heads, dim, dtype=dtype)
    q, table = zeros(tokens, heads, dim), index(rows, blocks)
    lengths = index(rows), index(rows)
    paged_attention.paged_attention(q, cache, table, *lengths, window=window)


def over_wide_queries(tokens: int, heads: int, kv_heads: int, dim: int, blocks: int) -> None:
    """In float32, of keys in float8: these are multiplied in float32, too."""
    cache = zeros(2, blocks, 16, kv_heads, dim, dtype=torch.float8_e4m3fn)
    rows, wide = min(tokens, 4), torch.float32
    q, table, lengths = zeros(tokens, heads, dim, dtype=wide), index(rows, blocks), index(rows)
    paged_attention.paged_attention(q, cache, table, lengths, lengths)
    if tokens == rows:
        qkv, cos = (
            zeros(rows, heads + 2 * kv_heads, dim, dtype=wide),
            zeros(rows, 1, dim, dtype=wide),
        )
        where = index(rows), table, lengths, lengths
        self_attention_paged.self_attention_paged(
            qkv, None, 1e-6, cos, cos, cache, *where, is_decode=True
        )


def over_slots(batch: int, queries: int, heads: int, keys: int, dim: int) -> None:
    q, k = zeros(batch, queries, heads, dim), zeros(batch, keys, heads, dim)
    if queries > 1 or keys == 1:
        attention.attention(q, k, k, causal_offset=1, key_lengths=index(batch))
        attention.windowed_attention(q[0], q[0], q[0], index(2))
    else:
        cross, own = zeros(1, 2, heads, keys, dim), zeros(2, 1, heads, keys, dim)
        many = index(batch)
        cached_attention.cross_attention_cached(q, cross, many, many)
        cached_attention.cross_attention_weights(q, cross, many, many + keys, [0])
        cached_attention.self_attention_cached(q, q, q, own, many, many, many)


def encoders(batch: int, positions: int, heads: int, dim: int) -> None:
    q, k, v = zeros(batch, positions, 3 * heads, dim).chunk(3, dim=2)
    attention.attention(q, k, v, scale=1.0)
    attention.windowed_attention(q[0], k[0], v[0], index(15), scale=1.0)


def over_vocabulary(n: int, vocab: int) -> None:
    x = torch.zeros(n, vocab)
    sampling.argmax(x)
    sampling.draw(x, index(n), index(n))
    sampling.token_logprobs(x, index(n))
    grammar_mask.allow_bits_(x, index(n), torch.zeros(n, -(-vocab // 32), dtype=torch.int32))
    sampling_stages.add_(x, index(n), torch.zeros(n))
    sampling_stages.penalise_repeats_(x, index(n), torch.zeros(n))
    sampling_stages.temper(x, torch.ones(n))
    sampling_stages.keep_min_p_(x, torch.ones(n))
    sampling_stages.keep_top_k_(x, index(n), 1)
    sampling_stages.keep_top_p_(x, torch.ones(n, dtype=torch.float64))


def over_samples(batch: int, mels: int) -> None:
    log_mel.log_mel(torch.zeros(batch, 480_000), torch.zeros(mels, 201))
    log_mel.log_mel_chunks(
        torch.zeros(96 * 16_240), index(96), index(96), index(2, 96), torch.zeros(96),
        torch.zeros(mels, 201), 100,
    )  # fmt: skip


if __name__ == "__main__":
    compile_part(sys.argv[1])
