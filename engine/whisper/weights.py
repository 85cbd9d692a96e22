"""Whisper's geometry and weights: from a Hugging Face folder to matrices ready for the kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError, CheckpointReader, whole_number
from lookhear.engine.models.layers import (
    EncoderLayer,
    FeedForward,
    Norm,
    Placement,
    SelfAttention,
    WeightSource,
)
from lookhear.kernels import LinearWeights, pack_conv, pack_linear


@dataclass(frozen=True, slots=True)
class WhisperDims:
    """The numbers of config.json that fix every shape."""

    num_mels: int
    width: int
    encoder_layers: int
    encoder_heads: int
    encoder_ffn: int
    decoder_layers: int
    decoder_heads: int
    decoder_ffn: int
    audio_positions: int  # of the longest window (1500 for 30 s)
    context: int  # decoder positions, prompt included
    vocab: int
    tied_head: bool

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> WhisperDims:
        """Reads a parsed config.json; `source` is named in errors."""

        def number(key: str) -> int:
            return whole_number(config, source, key)

        activation = config.get("activation_function", "gelu")
        if activation != "gelu":
            raise CheckpointError.of(source, "activation_function", "'gelu'", activation)
        dims = cls(
            num_mels=number("num_mel_bins"),
            width=number("d_model"),
            encoder_layers=number("encoder_layers"),
            encoder_heads=number("encoder_attention_heads"),
            encoder_ffn=number("encoder_ffn_dim"),
            decoder_layers=number("decoder_layers"),
            decoder_heads=number("decoder_attention_heads"),
            decoder_ffn=number("decoder_ffn_dim"),
            audio_positions=number("max_source_positions"),
            context=number("max_target_positions"),
            vocab=number("vocab_size"),
            tied_head=bool(config.get("tie_word_embeddings", True)),
        )
        for side, heads in (("encoder", dims.encoder_heads), ("decoder", dims.decoder_heads)):
            if dims.width % heads:
                divisor = f"a divisor of d_model ({dims.width})"
                raise CheckpointError.of(source, f"{side}_attention_heads", divisor, heads)
        return dims

    @property
    def head_dim(self) -> int:
        """Of the decoder, which is what the caches hold."""
        return self.width // self.decoder_heads

    @property
    def max_frames(self) -> int:
        """Log-mel frames (10 ms each) of the longest window."""
        return 2 * self.audio_positions


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """q: scaled like above. kv: [2 * width, width], applied to the encoder's output."""

    norm: Norm
    q: LinearWeights
    kv: LinearWeights
    out: LinearWeights


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Self-attention, attention to the audio, feed-forward."""

    attention: SelfAttention
    cross: CrossAttention
    ffn: FeedForward


@dataclass(frozen=True, slots=True)
class WhisperWeights:
    """Convolutions are of `pack_conv`, [out, in, 1, 3], and [out]; tables [positions or vocab,
    width]."""

    conv1: tuple[Tensor, Tensor]
    conv2: tuple[Tensor, Tensor]
    encoder_positions: Tensor
    encoder_layers: list[EncoderLayer]
    encoder_norm: Norm
    tokens: Tensor
    decoder_positions: Tensor
    decoder_layers: list[DecoderLayer]
    decoder_norm: Norm
    head: LinearWeights
    head_ranges: tuple[range, ...]  # ids that the head's rows stand for, in order
    num_parameters: int
    modules: Mapping[str, Placement]  # see `WeightSource`


def read_weights(
    reader: CheckpointReader,
    dims: WhisperDims,
    never: Collection[int] = (),
    *,
    encoder_dtype: torch.dtype | None = None,
    half_decoder: bool = False,
    int8: bool = False,
) -> WhisperWeights:
    """Takes every tensor of the checkpoint; `CheckpointError` for one too few or too many.

    never: ids whose logits nobody will look at; the head leaves them out where that pays.
    encoder_dtype: of the encoder and the projections that read its output; default: the reader's.
    half_decoder: the decoder's large matrices are kept in float16 (see `kernels.linear`).
    int8: where it is faster, matrices are kept in int8, and what meets them is rounded to it.
    """
    decoding = _Source(reader, dims, half=half_decoder, int8=int8)
    source = _Source(reader, dims, dtype=encoder_dtype, int8=int8)
    width = dims.width
    encoder, decoder = "model.encoder", "model.decoder"
    tokens = decoding.take(f"{decoder}.embed_tokens.weight", dims.vocab, width)
    head = tokens if dims.tied_head else decoding.take("proj_out.weight", dims.vocab, width)
    ranges = _kept_ranges(dims.vocab, never)
    weights = WhisperWeights(
        conv1=source.conv(f"{encoder}.conv1", dims.num_mels),
        conv2=source.conv(f"{encoder}.conv2", width),
        encoder_positions=source.take(
            f"{encoder}.embed_positions.weight", dims.audio_positions, width
        ),
        encoder_layers=[
            EncoderLayer(
                source.self_attention(f"{encoder}.layers.{i}", dims.encoder_heads),
                source.feed_forward(f"{encoder}.layers.{i}", dims.encoder_ffn),
            )
            for i in range(dims.encoder_layers)
        ],
        encoder_norm=source.norm(f"{encoder}.layer_norm"),
        tokens=tokens.half() if half_decoder else tokens,
        decoder_positions=decoding.take(f"{decoder}.embed_positions.weight", dims.context, width),
        decoder_layers=[
            DecoderLayer(
                decoding.self_attention(f"{decoder}.layers.{i}", dims.decoder_heads),
                CrossAttention(
                    norm=decoding.norm(f"{decoder}.layers.{i}.encoder_attn_layer_norm"),
                    q=decoding.cross_query(f"{decoder}.layers.{i}", dims.decoder_heads),
                    kv=source.cross_keys_values(f"{decoder}.layers.{i}"),
                    out=decoding.output(f"{decoder}.layers.{i}.encoder_attn"),
                ),
                decoding.feed_forward(f"{decoder}.layers.{i}", dims.decoder_ffn),
            )
            for i in range(dims.decoder_layers)
        ],
        decoder_norm=decoding.norm(f"{decoder}.layer_norm"),
        head=pack_linear(
            head
            if len(ranges[0]) == dims.vocab
            else torch.cat([head[ids.start : ids.stop] for ids in ranges]),
            half=half_decoder,
            int8=int8,
        ),
        head_ranges=ranges,
        num_parameters=source.num_parameters + decoding.num_parameters,
        modules={**source.modules, **decoding.modules},
    )
    # Some checkpoints store the tied head a second time.
    reader.finish(ignore=("proj_out.weight",) if dims.tied_head else ())
    return weights


def _kept_ranges(vocab: int, never: Collection[int]) -> tuple[range, ...]:
    """Ids from 0 to vocab without those of `never`, as ranges; all ids if little would be saved."""
    dropped = sorted({i for i in never if 0 <= i < vocab})
    edges = [-1, *dropped, vocab]
    ranges = tuple(range(a + 1, b) for a, b in pairwise(edges) if b > a + 1)
    if len(dropped) < vocab // 8 or len(ranges) > 64:
        return (range(vocab),)
    return ranges


class _Source(WeightSource):
    """Hugging Face's tensor names, put together into our layers."""

    def __init__(
        self,
        reader: CheckpointReader,
        dims: WhisperDims,
        *,
        dtype: torch.dtype | None = None,
        half: bool = False,
        int8: bool = False,
    ) -> None:
        super().__init__(reader, dtype, half=half)
        self._int8 = int8
        self._dims = dims

    def conv(self, name: str, channels: int) -> tuple[Tensor, Tensor]:
        width = self._dims.width
        weight = self.take(f"{name}.weight", width, channels, 3)[:, :, None]
        return pack_conv(weight), self.take(f"{name}.bias", width)

    def norm(self, name: str) -> Norm:
        return Norm.read(self, name, self._dims.width)

    def projection(self, name: str, *, bias: bool = True) -> tuple[Tensor, Tensor]:
        """A square projection; a missing bias (Whisper's keys have none) is zero."""
        width = self._dims.width
        weight = self.take(f"{name}.weight", width, width)
        return weight, self.take(f"{name}.bias", width) if bias else weight.new_zeros(width)

    def query(self, name: str, heads: int) -> tuple[Tensor, Tensor]:
        weight, bias = self.projection(f"{name}.q_proj")
        scale = self._scale(heads)
        return weight * scale, bias * scale

    def _scale(self, heads: int) -> float:
        return float((self._dims.width // heads) ** -0.5)

    def output(self, name: str) -> LinearWeights:
        return self._fused(name, {"out_proj": self.projection(f"{name}.out_proj")})

    def self_attention(self, layer: str, heads: int) -> SelfAttention:
        name = f"{layer}.self_attn"
        return SelfAttention(
            norm=self.norm(f"{layer}.self_attn_layer_norm"),
            qkv=self._fused(
                name,
                {
                    "q_proj": self.query(name, heads),
                    "k_proj": self.projection(f"{name}.k_proj", bias=False),
                    "v_proj": self.projection(f"{name}.v_proj"),
                },
                {"q_proj": self._scale(heads)},
            ),
            out=self.output(name),
        )

    def cross_query(self, layer: str, heads: int) -> LinearWeights:
        name = f"{layer}.encoder_attn"
        parts = {"q_proj": self.query(name, heads)}
        return self._fused(name, parts, {"q_proj": self._scale(heads)})

    def cross_keys_values(self, layer: str) -> LinearWeights:
        name = f"{layer}.encoder_attn"
        parts = {
            "k_proj": self.projection(f"{name}.k_proj", bias=False),
            "v_proj": self.projection(f"{name}.v_proj"),
        }
        return self._fused(name, parts, many_rows=True)

    def feed_forward(self, layer: str, ffn: int) -> FeedForward:
        width = self._dims.width
        up = (self.take(f"{layer}.fc1.weight", ffn, width), self.take(f"{layer}.fc1.bias", ffn))
        down = (self.take(f"{layer}.fc2.weight", width, ffn), self.take(f"{layer}.fc2.bias", width))
        norm = self.norm(f"{layer}.final_layer_norm")
        return FeedForward(norm, self._fused(layer, {"fc1": up}), self._fused(layer, {"fc2": down}))

    def _fused(
        self,
        name: str,
        parts: Mapping[str, tuple[Tensor, Tensor]],
        scales: Mapping[str, float] | None = None,
        *,
        many_rows: bool = False,
    ) -> LinearWeights:
        """One matrix product instead of several over the same input. scales: see `placed`."""
        weights, biases = zip(*parts.values(), strict=True)
        # Over many rows the packed layout pays at any size, if only by the GELU that it does in
        # place.
        pack = True if many_rows or name.startswith(_MANY_ROWS) else None
        packed = pack_linear(
            torch.cat(weights), torch.cat(biases), pack=pack, half=self._half, int8=self._int8
        )
        sizes = {part: len(weight) for part, (weight, _) in parts.items()}
        return self.placed(name, sizes, packed, scales)


_MANY_ROWS = "model.encoder"  # weights under this name see a window's positions at once
