"""Weights of a Voxtral Realtime: from a Hugging Face folder to what the kernels take."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointReader
from lookhear.engine.models.layers import WeightSource
from lookhear.engine.voxtral.dims import DELAY_WIDTH, StackDims, VoxtralDims
from lookhear.kernels import LinearWeights, pack_linear

# How transformers calls its parts: with a head within the language model, with a language model
# within it that has one (as 5.17 writes it), and in a model without a head.
BODIES = (("", "language_model.model", "language_model.lm_head"),
          ("", "language_model.model.model", "language_model.model.lm_head"),
          ("model.", "model.language_model", "lm_head"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class StackLayer:
    """qkv: [(heads + 2 * kv_heads) * head_dim, width]; gate_up: [2 * ffn, width]. delay: the two
    products of what a delay is told by; of the decoder alone."""

    attention_norm: Tensor
    qkv: LinearWeights
    out: LinearWeights
    ffn_norm: Tensor
    gate_up: LinearWeights
    down: LinearWeights
    delay: tuple[Tensor, Tensor] | None


@dataclass(frozen=True, slots=True)
class StackWeights:
    """norm: behind the last layer."""

    layers: list[StackLayer]
    norm: Tensor


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    """stem: weights and biases of the two convolutions in front, as torch's `conv1d` takes them.
    project: the two products that make a step's embedding of its places."""

    stem: list[tuple[Tensor, Tensor]]
    stack: StackWeights
    project: tuple[LinearWeights, LinearWeights]


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """tokens: [vocab, width]. head: the same matrix, laid out for products, or its own."""

    tokens: Tensor
    stack: StackWeights
    head: LinearWeights


class VoxtralSource(WeightSource):
    """Hugging Face's tensor names, put together into our layers."""

    def __init__(self, reader: CheckpointReader, dims: VoxtralDims, *, half: bool = False) -> None:
        super().__init__(reader, half=half)
        self._dims = dims
        found = (body for body in BODIES if f"{body[1]}.embed_tokens.weight" in reader)
        self._front, self._text, self.head = next(found, BODIES[0])

    def encoder(self) -> EncoderWeights:
        """All of its tensors, the projector's among them."""
        dims, width = self._dims, self._dims.audio.width
        tower, projector = f"{self._front}audio_tower", f"{self._front}multi_modal_projector"
        stem = [
            (
                self.take(f"{tower}.embedder.conv{number}.weight", width, inside, 3),
                self.take(f"{tower}.embedder.conv{number}.bias", width),
            )
            for number, inside in ((1, dims.num_mels), (2, width))
        ]
        return EncoderWeights(
            stem=stem,
            stack=self._stack(tower, dims.audio, is_audio=True),
            project=(
                self.linear(projector, {"linear_1": dims.text.width}, dims.places * width),
                self.linear(projector, {"linear_2": dims.text.width}, dims.text.width),
            ),
        )

    def decoder(self) -> DecoderWeights:
        """All of its tensors, and the head's."""
        dims = self._dims
        shape = dims.vocab, dims.text.width
        embeddings, out = f"{self._text}.embed_tokens.weight", f"{self.head}.weight"
        tokens = self.take(embeddings, *shape)
        head = self.tied_head(out, embeddings, tokens) if dims.tied_head else self.take(out, *shape)
        stack = self._stack(self._text, dims.text, is_audio=False)
        return DecoderWeights(tokens, stack, pack_linear(head, half=self._half))

    def _stack(self, name: str, dims: StackDims, *, is_audio: bool) -> StackWeights:
        layers = [
            self._layer(f"{name}.layers.{index}", dims, is_audio=is_audio)
            for index in range(dims.layers)
        ]
        return StackWeights(layers, self.take(f"{name}.norm.weight", dims.width))

    def _layer(self, name: str, dims: StackDims, *, is_audio: bool) -> StackLayer:
        norms = ("input_layernorm", "post_attention_layernorm")
        if is_audio:
            norms = ("self_attn_layer_norm", "final_layer_norm")
        delay = None
        if not is_audio:
            delay = (
                self.take(f"{name}.ada_rms_norm.linear1.weight", DELAY_WIDTH, dims.width),
                self.take(f"{name}.ada_rms_norm.linear2.weight", dims.width, DELAY_WIDTH),
            )
        queries = dims.heads * dims.head_dim
        parts = {"gate_proj": dims.ffn, "up_proj": dims.ffn}
        attention, mlp = f"{name}.self_attn", f"{name}.mlp"
        return StackLayer(
            attention_norm=self.take(f"{name}.{norms[0]}.weight", dims.width),
            qkv=self._qkv(attention, dims, has_bias=is_audio),
            out=self.linear(attention, {"o_proj": dims.width}, queries, bias=is_audio),
            ffn_norm=self.take(f"{name}.{norms[1]}.weight", dims.width),
            gate_up=self.linear(mlp, parts, dims.width),
            down=self.linear(mlp, {"down_proj": dims.width}, dims.ffn, bias=is_audio),
            delay=delay,
        )

    def _qkv(self, name: str, dims: StackDims, *, has_bias: bool) -> LinearWeights:
        """As Whisper's, keys have no bias."""
        queries, keys = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
        parts = {"q_proj": queries, "k_proj": keys, "v_proj": keys}
        if not has_bias:
            return self.linear(name, parts, dims.width)
        weight = torch.cat(
            [self.take(f"{name}.{p}.weight", n, dims.width) for p, n in parts.items()]
        )
        bias = torch.cat(
            [
                self.take(f"{name}.q_proj.bias", queries),
                weight.new_zeros(keys),
                self.take(f"{name}.v_proj.bias", keys),
            ]
        )
        return self.placed(name, parts, pack_linear(weight, bias, pack=True, half=self._half))
