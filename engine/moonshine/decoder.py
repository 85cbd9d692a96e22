"""Moonshine's decoder, which attends to encoded audio; the encoders differ.

Nothing is remembered between calls: caches, rows, slots and lengths are arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from lookhear.engine.models.caches import CrossCache, SelfCache
from lookhear.engine.moonshine.weights import DecoderWeights, MoonshineDims
from lookhear.kernels import (
    cross_attention_cached,
    linear,
    rope,
    rope_angles,
    self_attention_cached,
    swiglu,
)

# A text of a segment is not longer, whatever the positions are that a checkpoint was made for.
MOST_CONTEXT = 512


class MoonshineDecoder(ABC):
    """The decoder's weights of one checkpoint and the passes over them: project, decode."""

    def __init__(self, dims: MoonshineDims, weights: DecoderWeights) -> None:
        self.dims = dims
        self.weights = weights
        self.dtype = weights.tokens.dtype
        self.device = weights.tokens.device
        self.num_parameters = weights.num_parameters
        self.context = min(dims.context, MOST_CONTEXT)
        self._frequencies = dims.frequencies().to(self.device)

    @abstractmethod
    def num_positions(self, num_samples: int) -> int:
        """Of the encoder, for so many samples."""

    @abstractmethod
    def encode(self, samples: Tensor) -> Tensor:
        """samples: [n] float32 at 16 kHz on the model's device. Returns [positions, width]."""

    def encode_more(self, samples: Tensor, settled: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """`encode`, of samples that may have been encoded before up to some place. settled: what
        was returned for fewer of them. Also returns what is so for all of these; None: nothing."""
        return self.encode(samples), None

    def new_self_cache(self, rows: int) -> SelfCache:
        """A decoder cache of this model's shape."""
        dims = self.dims
        return SelfCache(
            dims.decoder_layers, rows, dims.heads, self.context, dims.head_dim, self.dtype,
            self.device,
        )  # fmt: skip

    def new_cross_cache(self, slots: int, positions: int) -> CrossCache:
        """Slots for audio of so many positions at most."""
        dims = self.dims
        return CrossCache(
            slots, dims.decoder_layers, dims.heads, positions, dims.head_dim, self.dtype,
            self.device,
        )  # fmt: skip

    @torch.inference_mode()
    def project_cross(self, encoded: Tensor) -> list[Tensor]:
        """encoded: [positions, width]. Keys and values of each decoder layer, as
        `CrossCache.write` takes them: [1, 2, heads, positions, head_dim]."""
        dims, projected = self.dims, []
        for layer in self.weights.decoder_layers:
            both = linear(encoded, layer.cross.keys_values)
            both = both.view(1, len(encoded), 2, dims.heads, dims.head_dim)
            projected.append(both.permute(0, 2, 3, 1, 4))
        return projected

    @torch.inference_mode()
    def decode(
        self,
        tokens: Tensor,
        rows: Tensor,
        row_lengths: Tensor,
        query_lengths: Tensor,
        slots: Tensor,
        self_cache: SelfCache,
        cross_cache: CrossCache,
    ) -> Tensor:
        """One step: reads new tokens of several rows, each continuing its own cached text.

        tokens: [batch, queries] int64, of which query_lengths[b] are real. rows: [batch] of
        self_cache, holding row_lengths[b] tokens so far; slots: [batch] of cross_cache. Padded
        queries write nothing, and their output means nothing. Returns hidden [batch, queries,
        width].
        """
        dims, weights = self.dims, self.weights
        batch, queries = tokens.shape
        places = row_lengths[:, None] + torch.arange(queries, device=self.device)
        angles = self._angles(places.flatten())
        audio_lengths = cross_cache.lengths[slots]
        x = weights.tokens[tokens.flatten()]
        layers = weights.decoder_layers
        nexts = [*(layer.attention.norm for layer in layers[1:]), weights.decoder_norm]
        normed = layers[0].attention.norm(x)
        for index, (layer, next_norm) in enumerate(zip(layers, nexts, strict=True)):
            heads = self._heads(linear(normed, layer.attention.qkv), *angles)
            q, k, v = (part.view(batch, queries, *part.shape[1:]) for part in heads)
            own = self_cache.data[index]
            y = self_attention_cached(q, k, v, own, rows, row_lengths, query_lengths)
            out = linear(y.reshape(len(x), -1), layer.attention.out)
            normed = layer.cross.norm.add_(out, x)

            q = linear(normed, layer.cross.query).view(batch, queries, dims.heads, -1)
            y = cross_attention_cached(q, cross_cache.data[index], slots, audio_lengths)
            normed = layer.ffn.norm.add_(linear(y.reshape(len(x), -1), layer.cross.out), x)
            change = linear(swiglu(linear(normed, layer.ffn.up)), layer.ffn.down)
            normed = next_norm.add_(change, x)
        return normed.view(batch, queries, -1)

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: [n, width] of the queries whose next token is wanted. [n, vocab] float32."""
        return linear(hidden, self.weights.head).float()

    def _angles(self, places: Tensor) -> tuple[Tensor, Tensor]:
        return rope_angles(places, self._frequencies, self.dtype)

    def _heads(self, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """qkv: [tokens, 3 * width]. Queries and keys turned, values: [tokens, heads, head_dim]."""
        heads = self.dims.heads
        parts = qkv.view(len(qkv), 3 * heads, -1)
        turned = rope(parts[:, : 2 * heads], cos, sin)
        return turned[:, :heads], turned[:, heads:], parts[:, 2 * heads :]
