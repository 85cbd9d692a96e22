"""SmolVLM's vision encoder (SigLIP): square crops of one size, many in one pass, each seeing itself
only.

    pixels [3, S, S] -> patches -> layers of full attention -> norm
    -> blocks of scale x scale patches, side by side -> one projection: a token each
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError, whole_number
from lookhear.engine.device.staging import to_device
from lookhear.engine.models.layers import (
    EncoderLayer,
    FeedForward,
    Norm,
    SelfAttention,
    WeightSource,
)
from lookhear.kernels import LinearWeights, linear, pack_linear, windowed_attention

MAX_CROPS = 16  # in one pass; inside they are wide
# What published files leave out.
DEFAULTS = {
    "hidden_size": 1152,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_channels": 3,
    "image_size": 224,
    "patch_size": 32,
}


@dataclass(frozen=True, slots=True)
class CropDims:
    """The numbers of vision_config that fix every shape. size: of a crop, pixels both ways. scale:
    patches of a token, both ways."""

    width: int
    layers: int
    heads: int
    ffn: int
    channels: int
    size: int
    patch: int
    scale: int
    out_width: int  # of the text decoder
    eps: float

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], source: Path, *, scale: int, out_width: int
    ) -> CropDims:
        """Reads the parsed vision_config; `source` is named in errors."""
        config = {**DEFAULTS, **config}

        def number(key: str) -> int:
            return whole_number(config, source, key)

        activation = config.get("hidden_act", "gelu_pytorch_tanh")
        if activation != "gelu_pytorch_tanh":
            raise CheckpointError.of(source, "hidden_act", "'gelu_pytorch_tanh'", activation)
        width, heads = number("hidden_size"), number("num_attention_heads")
        if width % heads:
            divisor = f"a divisor of hidden_size ({width})"
            raise CheckpointError.of(source, "num_attention_heads", divisor, heads)
        size, patch = number("image_size"), number("patch_size")
        if (size // patch) % scale:
            divisor = f"a divisor of the {size // patch} patches on a side"
            raise CheckpointError.of(source, "scale_factor", divisor, scale)
        return cls(
            width=width,
            layers=number("num_hidden_layers"),
            heads=heads,
            ffn=number("intermediate_size"),
            channels=number("num_channels"),
            size=size,
            patch=patch,
            scale=scale,
            out_width=out_width,
            eps=float(config.get("layer_norm_eps", 1e-6)),
        )

    @property
    def side(self) -> int:
        """Patches of a crop, both ways."""
        return self.size // self.patch

    @property
    def num_tokens(self) -> int:
        """Of a crop."""
        return (self.side // self.scale) ** 2


@dataclass(frozen=True, slots=True)
class CropWeights:
    """patches: [width, channels * patch ** 2]. positions: [side ** 2, width]. out: [out_width,
    scale ** 2 * width]."""

    patches: LinearWeights
    positions: Tensor
    layers: list[EncoderLayer]
    norm: Norm
    out: LinearWeights


def read_crop_weights(
    source: WeightSource, dims: CropDims, *, tower: str, out: str, projection: str
) -> CropWeights:
    """Takes the encoder's tensors. tower: the beginning of their names in the checkpoint; out,
    projection: the parent of the last product, and its own name there."""
    name = f"{tower}.embeddings"
    shape = (dims.width, dims.channels, dims.patch, dims.patch)
    # A convolution whose stride is its size: one product per patch.
    patches = source.take(f"{name}.patch_embedding.weight", *shape).flatten(1)
    bias = source.take(f"{name}.patch_embedding.bias", dims.width)
    table = source.take(f"{name}.position_embedding.weight", dims.side**2, dims.width)
    return CropWeights(
        patches=pack_linear(patches, bias, pack=True),
        positions=table[_places(dims.side).to(table.device)],
        layers=[_layer(source, dims, f"{tower}.encoder.layers.{i}") for i in range(dims.layers)],
        norm=Norm.read(source, f"{tower}.post_layernorm", dims.width, dims.eps),
        out=source.linear(out, {projection: dims.out_width}, dims.scale**2 * dims.width),
    )


def _places(side: int) -> Tensor:
    """Which learnt position each patch of a whole crop has: its own, but for what rounding does to
    fractions of the side, as it did in training."""
    inner = torch.arange(1 / side, 1.0, 1 / side)
    fractions = torch.arange(side, dtype=torch.float32) * (1.0 / torch.tensor(side))
    bucket = torch.bucketize(fractions.clamp(max=1.0 - 1e-6), inner, right=True)
    return (bucket[:, None] * side + bucket).flatten()


def _layer(source: WeightSource, dims: CropDims, layer: str) -> EncoderLayer:
    width, attention = dims.width, f"{layer}.self_attn"
    return EncoderLayer(
        SelfAttention(
            norm=Norm.read(source, f"{layer}.layer_norm1", width, dims.eps),
            qkv=source.linear(
                attention, {"q_proj": width, "k_proj": width, "v_proj": width}, width, bias=True
            ),
            out=source.linear(attention, {"out_proj": width}, width, bias=True),
        ),
        FeedForward(
            norm=Norm.read(source, f"{layer}.layer_norm2", width, dims.eps),
            up=source.linear(f"{layer}.mlp", {"fc1": dims.ffn}, width, bias=True),
            down=source.linear(f"{layer}.mlp", {"fc2": width}, dims.ffn, bias=True),
        ),
    )


class CropEncoder:
    """From normalised pixels to rows that stand for placeholders. No state."""

    def __init__(self, dims: CropDims, weights: CropWeights) -> None:
        self.dims = dims
        self.weights = weights
        self.dtype = weights.positions.dtype
        self.device = weights.positions.device

    @torch.inference_mode()
    def encode(self, crops: Sequence[Tensor]) -> list[Tensor]:
        """crops: each [channels, size, size]. Returns for each [num_tokens, out_width], by rows."""
        rows: list[Tensor] = []
        for first in range(0, len(crops), MAX_CROPS):
            rows += self._encode(torch.stack(list(crops[first : first + MAX_CROPS])))
        return rows

    def _encode(self, pixels: Tensor) -> tuple[Tensor, ...]:
        bounds = to_device(self.bounds(len(pixels)), torch.int64, self.device)
        rows = self.transform(pixels.to(self.device, self.dtype), bounds)
        return torch.split(rows, self.dims.num_tokens)

    def bounds(self, count: int) -> list[int]:
        """Of the patches of so many crops, one behind another."""
        return [i * self.dims.side**2 for i in range(count + 1)]

    def transform(self, pixels: Tensor, bounds: Tensor) -> Tensor:
        """pixels: [crops, channels, size, size]; bounds: [crops + 1] int64, see above. Returns
        [crops * num_tokens, out_width]. Nothing is read back: it can be captured."""
        dims, weights = self.dims, self.weights
        count, side = len(pixels), dims.side
        cut = pixels[..., : side * dims.patch, : side * dims.patch]
        cut = cut.reshape(count, dims.channels, side, dims.patch, side, dims.patch)
        patches = cut.permute(0, 2, 4, 1, 3, 5).reshape(count * side**2, -1)
        x = linear(patches, weights.patches).add_(weights.positions.repeat(count, 1))
        nexts = [*(layer.attention.norm for layer in weights.layers[1:]), weights.norm]
        normed = weights.layers[0].attention.norm(x)
        for layer, next_norm in zip(weights.layers, nexts, strict=True):
            qkv = linear(normed, layer.attention.qkv)
            q, k, v = qkv.view(len(x), 3, dims.heads, -1).unbind(1)
            y = linear(windowed_attention(q, k, v, bounds).flatten(1), layer.attention.out)
            normed = layer.ffn.norm.add_(y, x)
            normed = next_norm.add_(layer.ffn(normed, "gelu_tanh"), x)
        blocks, scale = side // dims.scale, dims.scale
        wide = normed.view(count, blocks, scale, blocks, scale, dims.width)
        wide = wide.transpose(2, 3).reshape(count * dims.num_tokens, -1)
        return linear(wide, weights.out)
