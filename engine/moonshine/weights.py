"""Moonshine's geometry and weights: from a Hugging Face folder to matrices ready for the kernels.

Its rotary positions turn neighbours (x[2j], x[2j + 1]) and leave the end of a head as it is. Rows
of queries and keys are put in another order here, the same for both, so that pairs are halves apart
and those at the end turn by nothing: products of the two stay what they were, and the kernels'
rotation does it.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from lookhear.engine.models.layers import (
    EncoderLayer,
    FeedForward,
    Norm,
    SelfAttention,
    WeightSource,
)
from lookhear.kernels import LinearWeights, pack_linear, rope_frequencies

# (kernel, stride) of the convolutions over raw samples at 16 kHz.
STEM = ((127, 64), (7, 3), (3, 2))


@dataclass(frozen=True, slots=True)
class MoonshineDims:
    """The numbers of config.json that fix every shape of a decoder, and of an encoder but for its
    depth. rotary: dims of a head that are turned."""

    width: int
    ffn: int
    decoder_layers: int
    heads: int
    rotary: int
    rope_theta: float
    context: int  # decoder positions it was made for
    vocab: int
    start: int
    end_tokens: frozenset[int]
    attention_bias: bool
    tied_head: bool

    @property
    def head_dim(self) -> int:
        """Of queries, keys and values."""
        return self.width // self.heads

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], source: Path, *, turned: float = 0.9, tied: bool = True
    ) -> MoonshineDims:
        """Reads a parsed config.json; `source` is named in errors. turned, tied: what holds where
        it says nothing of the part of a head that is turned, and of the head."""

        def number(key: str) -> int:
            return whole_number(config, source, key, key.removeprefix("decoder_"))

        for key, act in (
            ("encoder_hidden_act", "gelu"), ("decoder_hidden_act", "silu"), ("hidden_act", "silu"),
        ):  # fmt: skip
            if config.get(key, act) != act:
                raise CheckpointError.of(source, key, repr(act), config[key])
        width, heads = number("hidden_size"), number("decoder_num_attention_heads")
        # The decoder's heads say how both are turned; there is none whose keys are shared.
        for key in (
            "encoder_num_attention_heads",
            "encoder_num_key_value_heads",
            "decoder_num_key_value_heads",
            "num_key_value_heads",
        ):
            if (found := config.get(key) or heads) != heads:
                raise CheckpointError.of(source, key, f"as many as of the decoder ({heads})", found)
        if width % (2 * heads):
            raise CheckpointError.of(source, "hidden_size", f"a multiple of {2 * heads}", width)
        if (found := config.get("head_dim") or width // heads) != width // heads:
            raise CheckpointError.of(source, "head_dim", f"{width // heads}", found)
        rope = {**config, **rope_section(config, source)}
        rotary = int(width // heads * float(rope.get("partial_rotary_factor", turned)))
        if rotary % 2 or rotary < 2:
            raise CheckpointError.of(source, "partial_rotary_factor", "an even part", rotary)
        named = config.get("eos_token_id")
        ends = named if isinstance(named, list) else [named]
        if not ends or not all(isinstance(token, int) for token in ends):
            raise CheckpointError.of(source, "eos_token_id", "token ids", named)
        start = config.get("decoder_start_token_id")
        if start is None:
            start = config.get("bos_token_id")
        if type(start) is not int:
            raise CheckpointError.of(source, "decoder_start_token_id", "a token id", start)
        return cls(
            width=width,
            ffn=number("intermediate_size"),
            decoder_layers=number("decoder_num_hidden_layers"),
            heads=heads,
            rotary=rotary,
            rope_theta=float(rope.get("rope_theta", 10_000.0)),
            context=number("max_position_embeddings"),
            vocab=number("vocab_size"),
            start=start,
            end_tokens=frozenset(int(token) for token in ends if token is not None),
            attention_bias=bool(config.get("attention_bias", False)),
            tied_head=bool(config.get("tie_word_embeddings", tied)),
        )

    def frequencies(self) -> Tensor:
        """[head_dim // 2] float32, zeros for what is not turned."""
        turned = rope_frequencies(self.rotary, self.rope_theta)
        return torch.cat([turned, torch.zeros(self.head_dim // 2 - len(turned))])

    def order(self) -> list[int]:
        """Of the dims of a head: first of pairs, then second."""
        rest = range(self.rotary, self.head_dim)
        half = len(rest) // 2
        firsts = [*range(0, self.rotary, 2), *rest[:half]]
        return [*firsts, *range(1, self.rotary, 2), *rest[half:]]


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """query: [width, width]. keys_values: [2 * width, width]."""

    norm: Norm
    query: LinearWeights
    keys_values: LinearWeights
    out: LinearWeights


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """attention.qkv: queries are not scaled. ffn.up: [2 * ffn, width], the gate's half first."""

    attention: SelfAttention
    cross: CrossAttention
    ffn: FeedForward


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """tokens: [vocab, width]. num_parameters: of the whole checkpoint."""

    tokens: Tensor
    decoder_layers: list[DecoderLayer]
    decoder_norm: Norm
    head: LinearWeights
    num_parameters: int


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    """convs: (weight, bias or None) of `STEM`, float32 as the group norm between them."""

    convs: list[tuple[Tensor, Tensor | None]]
    group_norm: Norm
    layers: list[EncoderLayer]
    norm: Norm


def read_encoder(source: MoonshineSource, layers: int) -> EncoderWeights:
    """Takes the encoder's tensors."""
    width = source.dims.width
    convs: list[tuple[Tensor, Tensor | None]] = []
    for index, (inside, out) in enumerate(((1, width), (width, 2 * width), (2 * width, width))):
        name = f"model.encoder.conv{index + 1}"
        weight = source.take(f"{name}.weight", out, inside, STEM[index][0]).float()
        bias = source.take(f"{name}.bias", out).float() if index else None
        convs.append((weight, bias))
    group = Norm.read(source, "model.encoder.groupnorm", width)
    return EncoderWeights(
        convs=convs,
        group_norm=Norm(group.weight.float(), group.bias.float()),
        layers=[source.encoder_layer(f"model.encoder.layers.{i}") for i in range(layers)],
        norm=source.norm("model.encoder.layer_norm"),
    )


def read_decoder(source: MoonshineSource, num_others: int) -> DecoderWeights:
    """Takes the decoder's tensors. num_others: parameters of the rest."""
    dims = source.dims
    embeddings, out = "model.decoder.embed_tokens.weight", "proj_out.weight"
    tokens = source.take(embeddings, dims.vocab, dims.width)
    head = (
        source.tied_head(out, embeddings, tokens)
        if dims.tied_head
        else source.take(out, dims.vocab, dims.width)
    )
    names = (f"model.decoder.layers.{i}" for i in range(dims.decoder_layers))
    return DecoderWeights(
        tokens=tokens,
        decoder_layers=[source.decoder_layer(name) for name in names],
        decoder_norm=source.norm("model.decoder.norm"),
        head=source.packed((head, None), pack=None),
        num_parameters=source.num_parameters + num_others,
    )


def tied_copy(dims: MoonshineDims) -> tuple[str, ...]:
    """Names that may be in a checkpoint though nobody needs them."""
    return ("proj_out.weight",) if dims.tied_head else ()


class MoonshineSource(WeightSource):
    """Hugging Face's tensor names, put together into our layers."""

    def __init__(
        self, reader: CheckpointReader, dims: MoonshineDims, *, half: bool = False
    ) -> None:
        super().__init__(reader, half=half)
        self.dims = dims

    def norm(self, name: str) -> Norm:
        """Without a bias."""
        weight = self.take(f"{name}.weight", self.dims.width)
        return Norm(weight, torch.zeros_like(weight))

    def encoder_layer(self, name: str) -> EncoderLayer:
        """Attention and a feed-forward layer with a GELU."""
        norm = self.norm(f"{name}.post_attention_layernorm")
        return EncoderLayer(self._attention(name), self._ffn(f"{name}.mlp", norm, is_gated=False))

    def decoder_layer(self, name: str) -> DecoderLayer:
        """Attention to its own tokens, attention to the audio, and a gated feed-forward layer."""
        other = f"{name}.encoder_attn"
        keys_values = self._projection(other, "k"), self._projection(other, "v")
        cross = CrossAttention(
            norm=self.norm(f"{name}.post_attention_layernorm"),
            query=self.packed(self._projection(other, "q")),
            keys_values=self.packed(*keys_values),
            out=self._output(other),
        )
        norm = self.norm(f"{name}.final_layernorm")
        ffn = self._ffn(f"{name}.mlp", norm, is_gated=True)
        return DecoderLayer(self._attention(name), cross, ffn)

    def _attention(self, layer: str) -> SelfAttention:
        name = f"{layer}.self_attn"
        qk = (self._projection(name, part, is_turned=True) for part in "qk")
        return SelfAttention(
            norm=self.norm(f"{layer}.input_layernorm"),
            qkv=self.packed(*qk, self._projection(name, "v")),
            out=self._output(name),
        )

    def _projection(
        self, name: str, part: str, *, is_turned: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        dims = self.dims
        weight = self.take(f"{name}.{part}_proj.weight", dims.width, dims.width)
        bias = None
        if dims.attention_bias:
            bias = self.take(f"{name}.{part}_proj.bias", dims.width)
        if not is_turned:
            return weight, bias
        order = dims.order()

        def turned(tensor: Tensor) -> Tensor:
            return tensor.view(dims.heads, dims.head_dim, -1)[:, order].reshape(tensor.shape)

        return turned(weight), None if bias is None else turned(bias)

    def packed(
        self, *parts: tuple[Tensor, Tensor | None], pack: bool | None = True
    ) -> LinearWeights:
        """Products over the same input as one: (weight, bias or None) of each. pack: see
        `pack_linear`."""
        biases = [bias for _, bias in parts if bias is not None]
        weight = torch.cat([weight for weight, _ in parts])
        added = torch.cat(biases) if biases else None
        return pack_linear(weight, added, pack=pack, half=self._half)

    def _output(self, name: str) -> LinearWeights:
        width = self.dims.width
        return self.packed((self.take(f"{name}.o_proj.weight", width, width), None))

    def _ffn(self, name: str, norm: Norm, *, is_gated: bool) -> FeedForward:
        width, ffn = self.dims.width, self.dims.ffn
        outs = 2 * ffn if is_gated else ffn
        weight = self.take(f"{name}.fc1.weight", outs, width)
        bias = self.take(f"{name}.fc1.bias", outs)
        if is_gated:  # the checkpoint has the gate's half last
            weight, bias = weight.roll(ffn, 0), bias.roll(ffn, 0)
        down = self.take(f"{name}.fc2.weight", width, ffn), self.take(f"{name}.fc2.bias", width)
        return FeedForward(norm, self.packed((weight, bias)), self.packed(down))
