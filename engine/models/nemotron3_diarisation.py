"""Nemotron-3-Diarization (NVIDIA, 2026), a streaming Sortformer: who speaks, every 10 ms.

    log-mel frames (10 ms) -> eight stacked, a place of 80 ms -> transformer over the places that
    are remembered, and those of the chunk -> eight frames again -> a logit for each speaker

Speakers are numbered in the order of their first words. All there is of memory is the places that
stand in front of a chunk: see `engine.diarisation.speaker_cache`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    CheckpointReader,
    Loading,
    read_json,
    section,
    whole_number,
)
from lookhear.engine.models.layers import (
    EncoderLayer,
    FeedForward,
    Norm,
    SelfAttention,
    WeightSource,
)
from lookhear.kernels import (
    LinearWeights,
    attention,
    linear,
    pack_linear,
    rope,
    rope_angles,
    rope_frequencies,
)


@dataclass(frozen=True, slots=True)
class DiarisationDims:
    """The numbers of config.json that fix every shape. stack: frames of a place. theta: of RoPE."""

    num_mels: int
    width: int
    layers: int
    heads: int
    ffn: int
    stack: int
    head_width: int
    speakers: int
    theta: float

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> DiarisationDims:
        """Reads a parsed config.json; `source` is named in errors."""
        audio = section(config, "audio_config", source)
        head = section(config, "head_config", source)
        ropes = section(audio, "rope_parameters", source)
        dims = cls(
            num_mels=whole_number(audio, source, "num_mel_bins"),
            width=whole_number(audio, source, "hidden_size"),
            layers=whole_number(audio, source, "num_hidden_layers"),
            heads=whole_number(audio, source, "num_attention_heads"),
            ffn=whole_number(audio, source, "intermediate_size"),
            stack=whole_number(audio, source, "subsampling_factor"),
            head_width=whole_number(head, source, "hidden_size"),
            speakers=whole_number(head, source, "num_speakers"),
            theta=float(ropes.get("rope_theta", 10_000.0)),
        )
        expected = {
            "hidden_act": (audio.get("hidden_act", "gelu"), "gelu"),
            "num_key_value_heads": (audio.get("num_key_value_heads", dims.heads), dims.heads),
            "rope_type": (ropes.get("rope_type", "default"), "default"),
            "partial_rotary_factor": (ropes.get("partial_rotary_factor", 1.0), 1.0),
        }
        for key, (got, wanted) in expected.items():
            if got != wanted:
                raise CheckpointError.of(source, key, repr(wanted), got)
        if dims.width % (2 * dims.heads):
            divisor = f"a divisor of half of hidden_size ({dims.width})"
            raise CheckpointError.of(source, "num_attention_heads", divisor, dims.heads)
        return dims


@dataclass(frozen=True, slots=True)
class DiarisationWeights:
    """upsample: [stack * head_width, head_width, 3] and its bias. silence: [width], a place where
    nobody speaks."""

    stacked: LinearWeights
    input_norm: Norm
    layers: list[EncoderLayer]
    norm: Norm
    narrow: LinearWeights
    upsample: tuple[Tensor, Tensor]
    dense: LinearWeights
    out: LinearWeights
    silence: Tensor


@dataclass(eq=False)
class DiarisationModel:
    """Everything is of one recording: there are no batches."""

    dims: DiarisationDims
    weights: DiarisationWeights
    num_parameters: int

    @classmethod
    def from_folder(cls, folder: Path, **loading: Unpack[Loading]) -> DiarisationModel:
        """Loads a Hugging Face folder; raises `CheckpointError`."""
        path = folder / "config.json"
        dims = DiarisationDims.from_config(read_json(path), path)
        reader = CheckpointReader(folder, **loading)
        source = WeightSource(reader)
        with torch.inference_mode():
            weights = _read(source, dims)
        reader.finish()
        return cls(dims, weights, source.num_parameters)

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations."""
        return self.weights.silence.dtype

    @property
    def device(self) -> torch.device:
        """Of everything."""
        return self.weights.silence.device

    @torch.inference_mode()
    def embed(self, frames: Tensor) -> Tensor:
        """[n, mels] log-mel -> [ceil(n / stack), width], the last place filled up with zeros."""
        frames = F.pad(frames.to(self.dtype), (0, 0, 0, -len(frames) % self.dims.stack))
        stacked = frames.reshape(-1, self.dims.stack * self.dims.num_mels)
        return linear(stacked, self.weights.stacked)

    @torch.inference_mode()
    def score(self, places: Tensor) -> Tensor:
        """[n, width] -> [n * stack, speakers] logits, float32. Each place sees all others."""
        w, dims = self.weights, self.dims
        x = w.input_norm(places)
        dim = dims.width // dims.heads
        positions = torch.arange(len(places), device=places.device)
        frequencies = rope_frequencies(dim, dims.theta).to(places.device)
        cos, sin = rope_angles(positions, frequencies, places.dtype)
        for layer in w.layers:
            normed = layer.attention.norm(x)
            qkv = linear(normed, layer.attention.qkv).view(len(x), 3, dims.heads, dim)
            q, k = rope(qkv[:, 0], cos, sin), rope(qkv[:, 1], cos, sin)
            mixed = attention(q[None], k[None], qkv[None, :, 2], scale=1.0)[0]
            x = x + linear(mixed.reshape(len(x), dims.width), layer.attention.out)
            x = x + layer.ffn(layer.ffn.norm(x))
        narrow = linear(w.norm(x), w.narrow)
        weight, bias = w.upsample
        wide = F.conv1d(narrow.T[None], weight, bias, padding=1)[0].T
        frames = wide.reshape(len(x) * dims.stack, dims.head_width)
        hidden = linear(frames.relu(), w.dense)
        return linear(hidden.relu(), w.out).float()


def _read(source: WeightSource, dims: DiarisationDims) -> DiarisationWeights:
    tower, narrow = "model.audio_tower", dims.head_width
    upsample = (
        source.take("model.upsampler.conv.weight", dims.stack * narrow, narrow, 3),
        source.take("model.upsampler.conv.bias", dims.stack * narrow),
    )
    return DiarisationWeights(
        stacked=source.linear(
            f"{tower}.embedder", {"projection": dims.width}, dims.stack * dims.num_mels
        ),
        input_norm=Norm.read(source, f"{tower}.input_layer_norm", dims.width),
        layers=[_layer(source, dims, f"{tower}.layers.{i}") for i in range(dims.layers)],
        norm=Norm.read(source, f"{tower}.layer_norm", dims.width),
        narrow=source.linear("model", {"proj": narrow}, dims.width, bias=True),
        upsample=upsample,
        dense=source.linear("classifier", {"dense": narrow}, narrow, bias=True),
        out=source.linear("classifier", {"out_proj": dims.speakers}, narrow, bias=True),
        silence=source.take("silence_embeds", dims.width),
    )


def _layer(source: WeightSource, dims: DiarisationDims, name: str) -> EncoderLayer:
    width, attn = dims.width, f"{name}.self_attn"
    # `SelfAttention` has its queries scaled.
    scale = (width // dims.heads) ** -0.5
    parts = [source.take(f"{attn}.{part}_proj.weight", width, width) for part in "qkv"]
    parts[0] = parts[0] * scale
    return EncoderLayer(
        SelfAttention(
            Norm.read(source, f"{name}.layer_norm1", width),
            pack_linear(torch.cat(parts), None, pack=True),
            source.linear(attn, {"o_proj": width}, width, bias=True),
        ),
        FeedForward(
            Norm.read(source, f"{name}.layer_norm2", width),
            source.linear(f"{name}.mlp", {"fc1": dims.ffn}, width, bias=True),
            source.linear(f"{name}.mlp", {"fc2": width}, dims.ffn, bias=True),
        ),
    )
