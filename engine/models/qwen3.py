"""Qwen3 (Qwen team, 2025), the decoder, dense or of experts, on a paged cache.

Nothing is remembered between calls: the cache, and where in it every token belongs, are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointReader, Loading, read_json
from lookhear.engine.models.qwen3_weights import Qwen3Dims, Qwen3Weights, read_weights, tied_copy
from lookhear.engine.paged.cache import PagedBatch, PagedCache
from lookhear.engine.paged.request import Medium
from lookhear.kernels import (
    LinearWeights,
    Span,
    add_rms_norm,
    linear,
    norm_linear,
    rms_norm,
    rope_angles,
    rope_frequencies,
    self_attention_paged,
    spans,
)

SCORES = "score.weight"  # of a checkpoint that says how well two texts belong together


@dataclass(frozen=True, slots=True)
class FeatureTap:
    """What a draft head reads of each token: a linear map of the inputs of some layers, one behind
    another. layers: ascending. fc: [width, layers * the decoder's width]. norm: of its inputs,
    [layers * the decoder's width]; None: they are as they come."""

    layers: tuple[int, ...]
    fc: LinearWeights
    width: int
    norm: Tensor | None = None
    eps: float = 1e-6

    def __call__(self, states: Sequence[Tensor]) -> Tensor:
        """states: what goes into each of its layers, [tokens, the decoder's width]. Returns
        [tokens, width]."""
        inputs = torch.cat(list(states), 1)
        if self.norm is not None:
            inputs = rms_norm(inputs, self.norm, self.eps)
        return linear(inputs, self.fc)


class Qwen3Model:
    """The weights of one checkpoint and the passes over them: embed, forward, logits."""

    def __init__(self, dims: Qwen3Dims, weights: Qwen3Weights, *, writes: bool = True) -> None:
        """writes: whether it has a head that foretells tokens."""
        self.dims = dims
        self.writes = writes
        self.weights = weights
        self.dtype = weights.tokens.dtype
        self.device = weights.tokens.device
        self.num_parameters = weights.num_parameters
        self.vocab = dims.vocab  # logits per token
        self.cache_dtype = self.dtype  # of keys and values; float8, too
        # Set before the cache is made, and before passes are captured.
        self.tap: FeatureTap | None = None
        self._frequencies = rope_frequencies(dims.head_dim, dims.rope_theta).to(self.device)
        # Of a checkpoint that makes vectors: [out, in] and [out], float32, one behind another.
        self.projections: list[tuple[Tensor, Tensor | None]] = []

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        half: bool = False,
        linears: torch.dtype | None = None,
        kept: Sequence[int] = (),
        **loading: Unpack[Loading],
    ) -> Qwen3Model:
        """Loads a Hugging Face folder (config.json, safetensors), with or without a head that
        foretells tokens; raises `CheckpointError`.

        half, linears, kept: see `read_weights`. Of a checkpoint that scores, the one row of its own
        head is kept instead.
        """
        dims = Qwen3Dims.from_config(read_json(folder / "config.json"), folder / "config.json")
        reader = CheckpointReader(folder, **loading)
        body = "model" if "model.embed_tokens.weight" in reader else ""
        scores = SCORES in reader
        writes = body and not scores and (dims.tied_head or "lm_head.weight" in reader)
        with torch.inference_mode():
            head = "lm_head" if writes else None
            weights = read_weights(
                reader, dims, body=body, head=head, half=half, linears=linears, kept=kept
            )
            if scores:
                row = reader.take(SCORES, 1, dims.width).float().cpu()
                weights = replace(weights, kept=row)
        reader.finish(ignore=tied_copy(dims))
        return cls(dims, weights, writes=bool(writes))

    def new_cache(self, num_blocks: int) -> PagedCache:
        """A cache of this model's shape; num_blocks: the trash block included."""
        dims = self.dims
        return PagedCache(
            dims.layers,
            num_blocks,
            dims.kv_heads,
            dims.head_dim,
            self.cache_dtype,
            self.device,
            features=None if self.tap is None else (self.tap.width, self.dtype),
        )

    @torch.inference_mode()
    def embed(self, tokens: Tensor) -> Tensor:
        """tokens: [n] int64. Returns [n, width]."""
        return self.weights.tokens[tokens]

    @torch.inference_mode()
    def forward(
        self,
        inputs: Tensor,
        batch: PagedBatch,
        cache: PagedCache,
        added: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """One step: reads new tokens of several rows, each continuing its own cached tokens.

        inputs: [tokens] int64 ids, or [tokens, width] embeddings, packed as `PagedBatch` says.
        added: DeepStack's (places [k] int64, distinct indices into tokens; rows [k, n * width]):
        behind each of the first n layers, that layer's part of the rows is added at the places.
        Writes keys and values of the new tokens into the cache, and their features if it has a tap.
        Returns hidden [tokens, width]; padding's means nothing.
        """
        x = self.embed(inputs) if inputs.dim() == 1 else inputs.to(self.dtype)
        dims, weights = self.dims, self.weights
        # Not launched early, as embed is not: it begins when what wrote the step's integers has
        # ended, and decode attention reads past_lengths relying on that. One such kernel has to
        # stand before layer 0.
        angles = rope_angles(
            batch.positions, self._frequencies, self.dtype, sections=dims.rope_sections
        )
        known: list[Span] | None = None
        if self.device.type == "cpu":
            block = cache.layers[0].shape[2]
            known = spans(batch.block_tables, batch.past_lengths, batch.query_lengths, block)
        parts: list[Tensor] = []
        if added is not None:
            rows = added[1].to(self.dtype)
            parts = [rows[:, i : i + dims.width] for i in range(0, rows.shape[1], dims.width)]
        tapped: list[Tensor] = []
        change: Tensor | None = None  # of the layer before, not yet added to x
        for index, (layer, held) in enumerate(zip(weights.layers, cache.layers, strict=True)):
            qkv, x = norm_linear(x, change, layer.attention_norm, dims.eps, layer.qkv)
            if self.tap is not None and index in self.tap.layers:
                tapped.append(x)
            y = self_attention_paged(
                qkv.view(x.shape[0], -1, dims.head_dim),
                layer.qk_norm,
                dims.eps,
                *angles,
                held,
                batch.slots,
                batch.block_tables,
                batch.past_lengths,
                batch.query_lengths,
                is_decode=batch.is_decode,
                known=known,
            )
            change = linear(y.flatten(1), layer.out)
            change, x = layer.ffn(x, change, layer.ffn_norm, dims.eps)
            if added is not None and index < len(parts):
                change = change.index_add_(0, added[0], parts[index])
        assert change is not None
        if self.tap is not None and cache.features is not None:
            cache.features.index_copy_(0, batch.slots, self.tap(tapped))
        return add_rms_norm(change, x, weights.norm, dims.eps)[0]

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: [n, width] of the tokens whose successor is wanted. [n, vocab] float32."""
        head = self.weights.head
        return linear(hidden if head.half is None else hidden.float(), head).float()

    @torch.inference_mode()
    def pooled(self, hidden: Tensor) -> Tensor:
        """hidden: [n, width] of tokens whose vectors are wanted. [n, width of them] float32."""
        vectors = hidden.float()
        for weight, bias in self.projections:
            vectors = torch.nn.functional.linear(vectors, weight, bias)
        return vectors


@dataclass(frozen=True, slots=True)
class Qwen3ChatModel:
    """A decoder that chats: it knows which ids end its answers, and sees nothing."""

    decoder: Qwen3Model
    end_tokens: tuple[int, ...]

    @property
    def num_parameters(self) -> int:
        """Numbers in the checkpoint."""
        return self.decoder.num_parameters

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Nothing can be shown to it: requests with media are refused before they get here."""
        raise AssertionError(f"a text-only model was given {len(media)} media")
