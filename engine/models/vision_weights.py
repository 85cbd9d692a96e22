"""The geometry and weights of the vision encoder of Qwen3-VL and Qwen3-Omni."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError, whole_number
from lookhear.engine.models.layers import (
    EncoderLayer,
    FeedForward,
    Norm,
    SelfAttention,
    WeightSource,
)
from lookhear.kernels import LinearWeights, pack_linear

EPS = 1e-6


@dataclass(frozen=True, slots=True)
class MergerNames:
    """What a merger's parts are called in a checkpoint, and the list of DeepStack's mergers."""

    norm: str
    up: str
    down: str
    deepstack: str


VL_MERGERS = MergerNames("norm", "linear_fc1", "linear_fc2", "deepstack_merger_list")


@dataclass(frozen=True, slots=True)
class VisionDims:
    """The numbers of vision_config that fix every shape."""

    width: int
    layers: int
    heads: int
    ffn: int
    channels: int
    patch: int  # pixels, both ways
    frames: int  # in one patch
    merge: int  # patches per token, both ways
    out_width: int  # of the text decoder
    side: int  # of the square of learnt positions
    rope_theta: float
    deepstack: tuple[int, ...]  # layers behind which there is a merger, ascending

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> VisionDims:
        """Reads the parsed vision_config; `source` is named in errors."""

        def number(key: str) -> int:
            return whole_number(config, source, key)

        activation = config.get("hidden_act", "gelu_pytorch_tanh")
        if activation != "gelu_pytorch_tanh":
            raise CheckpointError.of(source, "hidden_act", "'gelu_pytorch_tanh'", activation)
        rope_config = config.get("rope_parameters") or {}
        if rope_config.get("rope_type", "axial") not in ("axial", "default"):
            raise CheckpointError.of(source, "rope_type", "'axial'", rope_config["rope_type"])
        layers, width, heads = number("depth"), number("hidden_size"), number("num_heads")
        if width % (4 * heads):
            multiple = f"a multiple of 4 * num_heads ({4 * heads})"
            raise CheckpointError.of(source, "hidden_size", multiple, width)
        positions = number("num_position_embeddings")
        side = round(positions**0.5)
        if side * side != positions:
            raise CheckpointError.of(
                source, "num_position_embeddings", "a square number", positions
            )
        return cls(
            width=width,
            layers=layers,
            heads=heads,
            ffn=number("intermediate_size"),
            channels=whole_number({"in_channels": 3, **config}, source, "in_channels"),
            patch=number("patch_size"),
            frames=number("temporal_patch_size"),
            merge=number("spatial_merge_size"),
            out_width=number("out_hidden_size"),
            side=side,
            rope_theta=float(rope_config.get("rope_theta", 10_000.0)),
            deepstack=_deepstack(config, source, layers),
        )

    @property
    def factor(self) -> int:
        """Pixels per token, both ways: sides of every image are multiples of it."""
        return self.patch * self.merge

    @property
    def patch_values(self) -> int:
        """Numbers of one patch, all its frames and channels together."""
        return self.channels * self.frames * self.patch**2


def _deepstack(config: Mapping[str, Any], source: Path, layers: int) -> tuple[int, ...]:
    value = config.get("deepstack_visual_indexes", [])
    if not (
        isinstance(value, list)
        and all(type(i) is int and 0 <= i < layers for i in value)
        and value == sorted(set(value))
    ):
        expected = f"ascending layers below {layers}"
        raise CheckpointError.of(source, "deepstack_visual_indexes", expected, value)
    return tuple(value)


@dataclass(frozen=True, slots=True)
class VisionWeights:
    """patches: [width, channels * frames * patch ** 2]. positions: [side ** 2, width], by rows.
    merger, deepstack: norm of patches [width], or of tokens [merge ** 2 * width]; up: from tokens
    to tokens. Queries are not scaled."""

    patches: LinearWeights
    positions: Tensor
    layers: list[EncoderLayer]
    merger: FeedForward
    deepstack: list[FeedForward]


def read_vision_weights(
    source: WeightSource, dims: VisionDims, tower: str, mergers: MergerNames = VL_MERGERS
) -> VisionWeights:
    """Takes the encoder's tensors; tower: the beginning of their names in the checkpoint."""
    name = f"{tower}.patch_embed.proj"
    shape = (dims.width, dims.channels, dims.frames, dims.patch, dims.patch)
    # A convolution whose stride is its size: one product per patch.
    patches = source.take(f"{name}.weight", *shape).flatten(1)
    return VisionWeights(
        patches=pack_linear(patches, source.take(f"{name}.bias", dims.width), pack=True),
        positions=source.take(f"{tower}.pos_embed.weight", dims.side**2, dims.width),
        layers=[_layer(source, dims, f"{tower}.blocks.{i}") for i in range(dims.layers)],
        merger=_merger(source, dims, f"{tower}.merger", mergers, dims.width),
        deepstack=[
            _merger(
                source,
                dims,
                f"{tower}.{mergers.deepstack}.{i}",
                mergers,
                dims.merge**2 * dims.width,
            )
            for i in range(len(dims.deepstack))
        ],
    )


def _layer(source: WeightSource, dims: VisionDims, layer: str) -> EncoderLayer:
    width = dims.width
    return EncoderLayer(
        SelfAttention(
            norm=Norm.read(source, f"{layer}.norm1", width, EPS),
            qkv=source.linear(f"{layer}.attn", {"qkv": 3 * width}, width, bias=True),
            out=source.linear(f"{layer}.attn", {"proj": width}, width, bias=True),
        ),
        FeedForward(
            norm=Norm.read(source, f"{layer}.norm2", width, EPS),
            up=source.linear(f"{layer}.mlp", {"linear_fc1": dims.ffn}, width, bias=True),
            down=source.linear(f"{layer}.mlp", {"linear_fc2": width}, dims.ffn, bias=True),
        ),
    )


def _merger(
    source: WeightSource, dims: VisionDims, name: str, names: MergerNames, normed: int
) -> FeedForward:
    inside = dims.merge**2 * dims.width
    return FeedForward(
        norm=Norm.read(source, f"{name}.{names.norm}", normed, EPS),
        up=source.linear(name, {names.up: inside}, inside, bias=True),
        down=source.linear(name, {names.down: dims.out_width}, inside, bias=True),
    )
