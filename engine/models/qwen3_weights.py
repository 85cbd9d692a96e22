"""Qwen3's geometry and weights: from a Hugging Face folder to matrices ready for the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    CheckpointReader,
    rope_section,
    whole_number,
)
from lookhear.engine.models.gated_ffn import (
    DenseFeedForward,
    ExpertDims,
    SparseFeedForward,
    read_dense,
    read_sparse,
)
from lookhear.engine.models.layers import Placement, WeightSource
from lookhear.kernels import INT4, LinearWeights, pack_linear


@dataclass(frozen=True, slots=True)
class Qwen3Dims:
    """The numbers of config.json (of its text_config, if it has one) that fix every shape."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context: int  # positions the checkpoint was made for
    eps: float
    rope_theta: float
    rope_sections: tuple[int, int, int] | None  # M-RoPE's pairs per axis
    attention_bias: bool
    tied_head: bool
    qk_norm: bool = True  # of queries and keys; a Llama has none
    experts: ExpertDims | None = None  # of those layers that have them, instead of ffn

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        source: Path,
        *,
        tied_head: bool | None = None,
        qk_norm: bool = True,
    ) -> Qwen3Dims:
        """Reads a parsed config; `source` is named in errors. tied_head: where an outer config
        decides that. qk_norm: which no config says."""

        def number(key: str) -> int:
            return whole_number(config, source, key)

        if config.get("hidden_act", "silu") != "silu":
            raise CheckpointError.of(source, "hidden_act", "'silu'", config["hidden_act"])
        if config.get("use_sliding_window"):
            raise CheckpointError(
                f"{source}: use_sliding_window: expected false: every layer sees all its tokens"
            )
        width, heads = number("hidden_size"), number("num_attention_heads")
        kv_heads = number("num_key_value_heads") if config.get("num_key_value_heads") else heads
        if heads % kv_heads:
            divisor = f"a divisor of num_attention_heads ({heads})"
            raise CheckpointError.of(source, "num_key_value_heads", divisor, kv_heads)
        head_dim = number("head_dim") if config.get("head_dim") else width // heads
        if head_dim % 2:
            raise CheckpointError.of(source, "head_dim", "an even number", head_dim)
        theta, sections = _rope(config, source, head_dim)
        if tied_head is None:
            tied_head = bool(config.get("tie_word_embeddings", False))
        layers = number("num_hidden_layers")
        return cls(
            width=width,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            ffn=number("intermediate_size"),
            vocab=number("vocab_size"),
            context=number("max_position_embeddings"),
            eps=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=theta,
            rope_sections=sections,
            attention_bias=bool(config.get("attention_bias", False)),
            tied_head=tied_head,
            qk_norm=qk_norm,
            experts=ExpertDims.from_config(config, source, layers),
        )


def _rope(
    config: Mapping[str, Any], source: Path, head_dim: int
) -> tuple[float, tuple[int, int, int] | None]:
    """Base of the frequencies and M-RoPE's sections, as transformers 4 or 5 wrote them."""
    rope = rope_section(config, source, ("default", "mrope"))
    theta = float(rope.get("rope_theta", config.get("rope_theta", 10_000.0)))
    sections = rope.get("mrope_section")
    if sections is None:
        return theta, None
    if not (
        isinstance(sections, list)
        and len(sections) == 3
        and all(type(n) is int and n >= 0 for n in sections)
        and sum(sections) == head_dim // 2
        and 3 * max(sections[1:]) <= head_dim // 2
    ):
        expected = f"three numbers of sum {head_dim // 2}, the last two at most {head_dim // 6}"
        raise CheckpointError.of(source, "mrope_section", expected, sections)
    if not (rope.get("mrope_interleaved") or rope.get("interleaved")):
        raise CheckpointError(f"{source}: mrope_interleaved: expected true, got none")
    return theta, (sections[0], sections[1], sections[2])


@dataclass(frozen=True, slots=True)
class Qwen3Layer:
    """qkv: [(heads + 2 * kv_heads) * head_dim, width]. Norms: [width] before attention and
    feed-forward; qk_norm, [heads + kv_heads, head_dim], is that of queries, once per head, then
    that of keys; None: there is none."""

    attention_norm: Tensor
    qkv: LinearWeights
    qk_norm: Tensor | None
    out: LinearWeights
    ffn_norm: Tensor
    ffn: DenseFeedForward | SparseFeedForward


@dataclass(frozen=True, slots=True)
class Qwen3Weights:
    """tokens: [vocab, width]. head: the same matrix, laid out for products, or its own. kept: some
    of its rows, [n, width] float32 on the CPU. modules: see `WeightSource`."""

    tokens: Tensor
    layers: list[Qwen3Layer]
    norm: Tensor
    head: LinearWeights
    num_parameters: int
    kept: Tensor
    modules: Mapping[str, Placement]


def read_weights(
    reader: CheckpointReader,
    dims: Qwen3Dims,
    *,
    body: str = "model",
    head: str | None = "lm_head",
    labels: int | None = None,
    always_tied: bool = False,
    half_head: bool = False,
    half: bool = False,
    linears: torch.dtype | None = None,
    kept: Sequence[int] = (),
) -> Qwen3Weights:
    """Takes the decoder's tensors; body, head: their names up to `.embed_tokens`, `.weight`. body
    may be empty. head: None if it has none, and foretells nothing. kept: rows of the head that are
    wanted by themselves.

    labels: how many the head tells apart, where it classifies tokens instead of foretelling them;
    it is not tied then and may have a bias.
    always_tied: a tied head is the embeddings, whatever is stored beside them.
    half_head: a bfloat16 head on a CPU is kept in float16, which takes as much memory and holds
    every such number but the tiniest. One row takes 0.6 times as long and has more exact logits;
    4 rows take as long, and 16 rows, a draft's, 1.7 times.
    half: on a CPU, the layers' matrices are in float16 for decoding: instead of float32, or beside
    bfloat16 for one or two rows (`kernels.linear`).
    linears: what the layers' matrices are in, float8, int8 (`kernels.fp8`), qint8, which is int8
    for a CPU and the head's, too (`kernels.cpu.int8`), or int4 (`kernels.int4`); not embeddings,
    norms and, else, head.

    The caller finishes the reader, telling it to ignore `tied_copy`.
    """
    if linears is not None and dims.experts is not None:
        name = {torch.int8: "int8", torch.qint8: "int8", INT4: "int4"}.get(linears, "fp8")
        raise CheckpointError(
            f"dtype: {name} is not for layers of experts; expected another, or auto"
        )
    source = WeightSource(reader, half=half, linears=linears)
    inside = f"{body}." if body else ""
    embeddings = f"{inside}embed_tokens.weight"
    tokens = source.take(embeddings, dims.vocab, dims.width)
    bias: Tensor | None = None
    if labels is not None:
        own_head = source.take(f"{head}.weight", labels, dims.width)
        if f"{head}.bias" in reader:
            bias = source.take(f"{head}.bias", labels)
    elif head is None or (dims.tied_head and always_tied):
        own_head = tokens
    elif dims.tied_head:
        own_head = source.tied_head(f"{head}.weight", embeddings, tokens)
    else:
        own_head = source.take(f"{head}.weight", dims.vocab, dims.width)
    return Qwen3Weights(
        tokens=tokens,
        layers=[_layer(source, dims, f"{inside}layers.{i}", i) for i in range(dims.layers)],
        norm=source.take(f"{inside}norm.weight", dims.width),
        head=_head(
            own_head, bias, is_read=head is not None, half=half_head, int8=linears == torch.qint8
        ),
        num_parameters=source.num_parameters,
        kept=own_head[list(kept)].float().cpu(),
        modules=source.modules,
    )


def _head(
    weight: Tensor, bias: Tensor | None, *, is_read: bool, half: bool, int8: bool
) -> LinearWeights:
    if not is_read:
        return pack_linear(weight, pack=False)  # no second copy of what nobody multiplies with
    if half and weight.dtype == torch.bfloat16:
        return _half(weight)
    return pack_linear(weight, bias, int8=int8)


def _half(head: Tensor) -> LinearWeights:
    """In float16 if it is in bfloat16 and this machine can do that, else as it is."""
    if head.dtype == torch.bfloat16 and head.device.type == "cpu":
        wide = pack_linear(head.float(), pack=False, half=True)
        if wide.half is not None:
            return wide
    return pack_linear(head)


def tied_copy(dims: Qwen3Dims, head: str = "lm_head") -> tuple[str, ...]:
    """Names that may be in a checkpoint though nobody needs them: a tied head stored again."""
    return (f"{head}.weight",) if dims.tied_head else ()


def _layer(source: WeightSource, dims: Qwen3Dims, layer: str, index: int) -> Qwen3Layer:
    attention, mlp = f"{layer}.self_attn", f"{layer}.mlp"
    queries, keys = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    bias = dims.attention_bias
    qk_norm: Tensor | None = None
    if dims.qk_norm:
        q_norm = source.take(f"{attention}.q_norm.weight", dims.head_dim)
        k_norm = source.take(f"{attention}.k_norm.weight", dims.head_dim)
        qk_norm = torch.stack([q_norm] * dims.heads + [k_norm] * dims.kv_heads)
    return Qwen3Layer(
        attention_norm=source.take(f"{layer}.input_layernorm.weight", dims.width),
        qkv=source.linear(
            attention, {"q_proj": queries, "k_proj": keys, "v_proj": keys}, dims.width, bias=bias
        ),
        qk_norm=qk_norm,
        out=source.linear(attention, {"o_proj": dims.width}, queries, bias=bias),
        ffn_norm=source.take(f"{layer}.post_attention_layernorm.weight", dims.width),
        ffn=read_sparse(source, mlp, dims.width, dims.experts)
        if dims.experts is not None and index in dims.experts.layers
        else read_dense(source, mlp, dims.width, dims.ffn),
    )
