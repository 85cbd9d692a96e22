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
from lookhear.engine.models.layers import FeedForward, Norm, Placement, SelfAttention
from lookhear.engine.whisper.encoder import EncoderDims, EncoderSource, WhisperEncoder
from lookhear.kernels import LinearWeights, pack_linear, pack_table


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
    def encoder(self) -> EncoderDims:
        """Of the encoder alone."""
        return EncoderDims(
            num_mels=self.num_mels,
            width=self.width,
            layers=self.encoder_layers,
            heads=self.encoder_heads,
            ffn=self.encoder_ffn,
            positions=self.audio_positions,
        )

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
    """Tables are [positions or vocab, width]; tokens may be of `pack_table`. cache_dtype: of the
    decoder's keys and values."""

    encoder: WhisperEncoder
    tokens: Tensor
    cache_dtype: torch.dtype
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
    width, tower = dims.width, "model.encoder"
    decoding = _Source(reader, width, tower, half=half_decoder, int8=int8)
    source = _Source(reader, width, tower, dtype=encoder_dtype, int8=int8)
    decoder = "model.decoder"
    embeddings = f"{decoder}.embed_tokens.weight"
    tokens = decoding.take(embeddings, dims.vocab, width)
    head = (
        decoding.tied_head("proj_out.weight", embeddings, tokens)
        if dims.tied_head
        else decoding.take("proj_out.weight", dims.vocab, width)
    )
    ranges = _kept_ranges(dims.vocab, never)
    # The largest comes first: while it is packed, it is in memory more than once.
    packed_head = pack_linear(
        head
        if len(ranges[0]) == dims.vocab
        else torch.cat([head[ids.start : ids.stop] for ids in ranges]),
        half=half_decoder,
        int8=int8,
    )
    cache_dtype = torch.float16 if half_decoder else tokens.dtype
    if packed_head.int8 is not None:
        tokens = pack_table(tokens)
    elif half_decoder:
        tokens = tokens.half()
    del head
    weights = WhisperWeights(
        encoder=WhisperEncoder.read(source, dims.encoder),
        tokens=tokens,
        cache_dtype=cache_dtype,
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
        head=packed_head,
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


class _Source(EncoderSource):
    """Of the decoder's layers, too."""

    def cross_query(self, layer: str, heads: int) -> LinearWeights:
        name = f"{layer}.encoder_attn"
        parts = {"q_proj": self.query(name, heads)}
        return self.fused(name, parts, {"q_proj": self.scale(heads)})

    def cross_keys_values(self, layer: str) -> LinearWeights:
        name = f"{layer}.encoder_attn"
        parts = {
            "k_proj": self.projection(f"{name}.k_proj", bias=False),
            "v_proj": self.projection(f"{name}.v_proj"),
        }
        return self.fused(name, parts, many_rows=True)
