"""An EAGLE3 head (Li, Wei, Zhang and Zhang, 2025): one layer on what a large model makes of its
tokens, that foretells what comes behind the next one.

    feature of token t     fc of what goes into a few layers of the large model, side by side; made
                           in its passes (`FeatureTap`)
    at place t it reads    the feature of token t and the embedding of token t + 1
    and says               which token stands at t + 2, and what its feature would be

The last is its residual stream, with which it goes on by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError, CheckpointReader
from lookhear.engine.eagle3.config import HeadConfig, LargeModel
from lookhear.engine.models.gated_ffn import DenseFeedForward, read_dense
from lookhear.engine.models.layers import WeightSource
from lookhear.engine.models.qwen3 import FeatureTap, Qwen3Model
from lookhear.engine.paged.cache import PagedBatch, PagedCache
from lookhear.kernels import (
    LinearWeights,
    linear,
    pack_linear,
    rms_norm,
    rope_angles,
    rope_frequencies,
    self_attention_paged,
    spans,
)

# The layer, as EAGLE and as speculators name it.
NAMES = ("midlayer", "layers.0")
# What may be in a file besides, and is computed or not needed here.
UNREAD = ("verifier_lm_head.weight", "verifier_norm.weight")
FREQUENCIES = "self_attn.rotary_emb.inv_freq"


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """tokens: [the large model's vocab, width]. qkv: [(heads + 2 * kv_heads) * head_dim,
    2 * width], of the embedding, then of the feature. said: [tokens that it can say] int64, which
    tokens those are; None: all, in order."""

    fc: LinearWeights
    input_norm: Tensor | None
    tokens: Tensor
    token_norm: Tensor
    feature_norm: Tensor
    qkv: LinearWeights
    qk_norm: Tensor | None
    out: LinearWeights
    ffn_norm: Tensor
    ffn: DenseFeedForward
    norm: Tensor
    logits: LinearWeights
    said: Tensor | None


class Eagle3Head:
    """The weights of one checkpoint and the pass over them."""

    def __init__(self, config: HeadConfig, weights: HeadWeights, vocab: int) -> None:
        self.config = config
        self.dims = config.dims
        self.weights = weights
        self.vocab = vocab  # the large model's
        self.dtype = weights.token_norm.dtype
        self.device = weights.token_norm.device
        self._frequencies = rope_frequencies(self.dims.head_dim, self.dims.rope_theta).to(
            self.device
        )

    @classmethod
    def from_folder(
        cls, folder: Path, large: LargeModel, decoder: Qwen3Model, *, half: bool = False
    ) -> Eagle3Head:
        """Loads config.json and safetensors, or pytorch_model.bin. decoder: the large model's, of
        which the head has precision, device, and those embeddings and output rows that its own
        file leaves out. half: see `read_weights`. Raises `CheckpointError`."""
        reader = CheckpointReader(
            folder, reads_torch=True, dtype=decoder.dtype, device=decoder.device
        )
        name = next((name for name in NAMES if f"{name}.hidden_norm.weight" in reader), NAMES[0])
        qk_norm = f"{name}.self_attn.q_norm.weight" in reader
        config = HeadConfig.from_folder(folder, large, qk_norm=qk_norm)
        _check_kind(reader, folder, config, large)
        with torch.inference_mode():
            weights = _read_weights(reader, folder, config, name, decoder, half=half)
        beside = (f"{name}.{FREQUENCIES}", *UNREAD)
        reader.finish(ignore=(*beside, "d2t", "t2d"))
        return cls(config, weights, decoder.vocab)

    @property
    def tap(self) -> FeatureTap:
        """What the large model's passes have to keep for it."""
        weights, dims = self.weights, self.dims
        return FeatureTap(self.config.layers, weights.fc, dims.width, weights.input_norm, dims.eps)

    @property
    def bytes_per_token(self) -> int:
        """Of its cache, and of the features in the large model's."""
        dims = self.dims
        numbers = 2 * dims.kv_heads * dims.head_dim + dims.width
        return numbers * torch.empty(0, dtype=self.dtype).element_size()

    def new_cache(self, num_blocks: int) -> PagedCache:
        """Of its one layer; num_blocks: the trash block included."""
        dims = self.dims
        return PagedCache(1, num_blocks, dims.kv_heads, dims.head_dim, self.dtype, self.device)

    @torch.inference_mode()
    def forward(
        self, tokens: Tensor, features: Tensor, batch: PagedBatch, cache: PagedCache
    ) -> Tensor:
        """tokens: [n] int64, each the one behind its place. features: [n, width], of its place.
        Writes keys and values. Returns [n, width]: what the features of the next places would be,
        and what `logits` are of."""
        dims, weights = self.dims, self.weights
        normed = rms_norm(features, weights.feature_norm, dims.eps)
        embedded = rms_norm(weights.tokens[tokens], weights.token_norm, dims.eps)
        qkv = linear(torch.cat([embedded, normed], 1), weights.qkv)
        angles = rope_angles(
            batch.positions, self._frequencies, self.dtype, sections=dims.rope_sections
        )
        known = None
        if self.device.type == "cpu":
            block = cache.layers[0].shape[2]
            known = spans(batch.block_tables, batch.past_lengths, batch.query_lengths, block)
        y = self_attention_paged(
            qkv.view(len(tokens), -1, dims.head_dim),
            weights.qk_norm,
            dims.eps,
            *angles,
            cache.layers[0],
            batch.slots,
            batch.block_tables,
            batch.past_lengths,
            batch.query_lengths,
            is_decode=batch.is_decode,
            known=known,
        )
        stream = normed if self.config.norms_first else features
        change, x = weights.ffn(
            stream, linear(y.flatten(1), weights.out), weights.ffn_norm, dims.eps
        )
        return x + change

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: [n, width]. [n, the large model's vocab] float32, -inf for what it cannot say."""
        weights = self.weights
        normed = rms_norm(hidden, weights.norm, self.dims.eps)
        head = weights.logits
        values = linear(normed if head.half is None else normed.float(), head).float()
        if weights.said is None:
            return values
        rows = values.new_full((len(values), self.vocab), -torch.inf)
        return rows.index_copy_(1, weights.said, values)


def _check_kind(
    reader: CheckpointReader, folder: Path, config: HeadConfig, large: LargeModel
) -> None:
    """Of the first two EAGLEs the map at the beginning is of another shape."""
    if "fc.weight" not in reader:
        return  # it is missed when it is read
    expected = [config.dims.width, len(config.layers) * large.dims.width]
    got = list(reader.shape_of("fc.weight"))
    if got == [config.dims.width, 2 * config.dims.width] != expected:
        raise CheckpointError(
            f"{folder}: tensor fc.weight: expected shape {expected}, as an EAGLE3 head has, "
            f"got {got}, as of EAGLE or EAGLE-2"
        )


def _read_weights(
    reader: CheckpointReader,
    folder: Path,
    config: HeadConfig,
    layer: str,
    decoder: Qwen3Model,
    *,
    half: bool,
) -> HeadWeights:
    source = WeightSource(reader, half=half)
    dims, attention = config.dims, f"{layer}.self_attn"
    queries, keys = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    parts = {"q_proj": queries, "k_proj": keys, "v_proj": keys}
    qk_norm: Tensor | None = None
    if dims.qk_norm:
        q_norm = source.take(f"{attention}.q_norm.weight", dims.head_dim)
        k_norm = source.take(f"{attention}.k_norm.weight", dims.head_dim)
        qk_norm = torch.stack([q_norm] * dims.heads + [k_norm] * dims.kv_heads)
    inputs = len(config.layers) * decoder.dims.width
    return HeadWeights(
        fc=_linear(source, "fc", dims.width, inputs, half=half),
        input_norm=source.take("input_norm.weight", inputs) if config.norms_inputs else None,
        tokens=_tokens(source, config, decoder),
        token_norm=source.take(f"{layer}.input_layernorm.weight", dims.width),
        feature_norm=source.take(f"{layer}.hidden_norm.weight", dims.width),
        qkv=source.linear(attention, parts, 2 * dims.width, bias=dims.attention_bias),
        qk_norm=qk_norm,
        out=source.linear(attention, {"o_proj": dims.width}, queries, bias=dims.attention_bias),
        ffn_norm=source.take(f"{layer}.post_attention_layernorm.weight", dims.width),
        ffn=read_dense(source, f"{layer}.mlp", dims.width, dims.ffn),
        norm=source.take("norm.weight", dims.width),
        logits=_logits(source, config, decoder, half=half),
        said=_said(reader, folder, config, decoder),
    )


def _linear(source: WeightSource, name: str, out: int, inside: int, *, half: bool) -> LinearWeights:
    bias = source.take(f"{name}.bias", out) if f"{name}.bias" in source else None
    return pack_linear(source.take(f"{name}.weight", out, inside), bias, pack=True, half=half)


def _is_shared(config: HeadConfig, decoder: Qwen3Model) -> bool:
    """Whether what a head leaves out can be the large model's."""
    return config.dims.width == decoder.dims.width


def _tokens(source: WeightSource, config: HeadConfig, decoder: Qwen3Model) -> Tensor:
    name, shared = "embed_tokens.weight", decoder.weights.tokens
    if name not in source and _is_shared(config, decoder):
        return shared
    own = source.take(name, config.dims.vocab, config.dims.width)
    # Mostly a copy, which need not be kept twice.
    return shared if own.shape == shared.shape and torch.equal(own, shared) else own


def _logits(
    source: WeightSource, config: HeadConfig, decoder: Qwen3Model, *, half: bool
) -> LinearWeights:
    is_whole = config.vocab == decoder.vocab
    if "lm_head.weight" not in source and is_whole and _is_shared(config, decoder):
        return decoder.weights.head
    return _linear(source, "lm_head", config.vocab, config.dims.width, half=half)


def _said(
    reader: CheckpointReader, folder: Path, config: HeadConfig, decoder: Qwen3Model
) -> Tensor | None:
    """d2t holds how far each token that a head can say is from its number in the large model."""
    if "d2t" not in reader and config.vocab == decoder.vocab:
        return None
    said = reader.take_whole("d2t", config.vocab) + torch.arange(config.vocab)
    outside = said[(said < 0) | (said >= decoder.vocab)]
    if len(outside):
        raise CheckpointError(
            f"{folder}: tensor d2t: expected tokens from 0 to {decoder.vocab - 1}, "
            f"got {int(outside[0])}"
        )
    if (different := len(set(said.tolist()))) < len(said):
        raise CheckpointError(
            f"{folder}: tensor d2t: expected {len(said)} different tokens, got {different}"
        )
    if "t2d" in reader:
        marked = reader.take_whole("t2d", decoder.vocab).nonzero().flatten()
        if not torch.equal(marked, said.sort().values):
            raise CheckpointError(
                f"{folder}: tensor t2d: expected the {len(said)} tokens of d2t, "
                f"got {len(marked)}, others among them"
            )
    return said.to(decoder.device)
