"""Qwen3-VL's vision encoder: images of any size, many in one pass, each seeing itself only.

    pixels [frames, 3, H, W] -> patches of 16 x 16, in blocks of 2 x 2 -> layers of full attention
    behind some layers, and behind the last: a merger, block of patches -> one token

Attention is in blocks of one medium each (an image, or one temporal slice of a video), so a
medium's tokens are a function of its own pixels, and media of many requests make one batch.
DeepStack (Meng et al., 2024) is why there are several mergers: the decoder adds what the early ones
say behind its own first layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.device.staging import to_device
from lookhear.engine.models.layers import Norm
from lookhear.engine.models.qwen3_weights import WeightSource, whole_number
from lookhear.kernels import (
    LinearWeights,
    add_layer_norm_,
    layer_norm,
    linear,
    pack_linear,
    rope,
    rope_factors,
    rope_frequencies,
    windowed_attention,
)

MAX_PATCHES = 16_384  # in one pass, unless a single medium has more; inside they are wide
EPS = 1e-6
KEPT_GRIDS = 4  # sizes of pictures whose positions are kept


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
            raise CheckpointError(
                f"{source}: hidden_act: expected 'gelu_pytorch_tanh', got {activation!r}"
            )
        rope_config = config.get("rope_parameters") or {}
        if rope_config.get("rope_type", "axial") not in ("axial", "default"):
            raise CheckpointError(
                f"{source}: rope_type: expected 'axial', got {rope_config['rope_type']!r}"
            )
        layers, width, heads = number("depth"), number("hidden_size"), number("num_heads")
        if width % (4 * heads):
            raise CheckpointError(
                f"{source}: hidden_size: expected a multiple of 4 * num_heads ({4 * heads}), "
                f"got {width}"
            )
        positions = number("num_position_embeddings")
        side = round(positions**0.5)
        if side * side != positions:
            raise CheckpointError(
                f"{source}: num_position_embeddings: expected a square number, got {positions}"
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
        return self.channels * self.frames * self.patch**2


def _deepstack(config: Mapping[str, Any], source: Path, layers: int) -> tuple[int, ...]:
    value = config.get("deepstack_visual_indexes", [])
    if not (
        isinstance(value, list)
        and all(type(i) is int and 0 <= i < layers for i in value)
        and value == sorted(set(value))
    ):
        raise CheckpointError(
            f"{source}: deepstack_visual_indexes: expected ascending layers below {layers}, "
            f"got {value!r}"
        )
    return tuple(value)


@dataclass(frozen=True, slots=True)
class VisionLayer:
    """qkv: [3 * width, width]. up, down: the feed-forward. Norms: before each."""

    attention_norm: Norm
    qkv: LinearWeights
    out: LinearWeights
    ffn_norm: Norm
    up: LinearWeights
    down: LinearWeights


@dataclass(frozen=True, slots=True)
class Merger:
    """norm: of patches [width], or of tokens [merge ** 2 * width]. up: from tokens to tokens."""

    norm: Norm
    up: LinearWeights
    down: LinearWeights


@dataclass(frozen=True, slots=True)
class VisionWeights:
    """patches: [width, channels * frames * patch ** 2]. positions: [side ** 2, width], by rows."""

    patches: LinearWeights
    positions: Tensor
    layers: list[VisionLayer]
    merger: Merger
    deepstack: list[Merger]


def read_vision_weights(source: WeightSource, dims: VisionDims, tower: str) -> VisionWeights:
    """Takes the encoder's tensors; tower: the beginning of their names in the checkpoint."""
    name = f"{tower}.patch_embed.proj"
    shape = (dims.width, dims.channels, dims.frames, dims.patch, dims.patch)
    # A convolution whose stride is its size: one product per patch.
    patches = source.take(f"{name}.weight", *shape).flatten(1)
    return VisionWeights(
        patches=pack_linear(patches, source.take(f"{name}.bias", dims.width), pack=True),
        positions=source.take(f"{tower}.pos_embed.weight", dims.side**2, dims.width),
        layers=[_layer(source, dims, f"{tower}.blocks.{i}") for i in range(dims.layers)],
        merger=_merger(source, dims, f"{tower}.merger", dims.width),
        deepstack=[
            _merger(source, dims, f"{tower}.deepstack_merger_list.{i}", dims.merge**2 * dims.width)
            for i in range(len(dims.deepstack))
        ],
    )


def _layer(source: WeightSource, dims: VisionDims, layer: str) -> VisionLayer:
    width = dims.width
    return VisionLayer(
        attention_norm=_read_norm(source, f"{layer}.norm1", width),
        qkv=source.linear(f"{layer}.attn", {"qkv": 3 * width}, width, bias=True),
        out=source.linear(f"{layer}.attn", {"proj": width}, width, bias=True),
        ffn_norm=_read_norm(source, f"{layer}.norm2", width),
        up=source.linear(f"{layer}.mlp", {"linear_fc1": dims.ffn}, width, bias=True),
        down=source.linear(f"{layer}.mlp", {"linear_fc2": width}, dims.ffn, bias=True),
    )


def _merger(source: WeightSource, dims: VisionDims, name: str, normed: int) -> Merger:
    inside = dims.merge**2 * dims.width
    return Merger(
        norm=_read_norm(source, f"{name}.norm", normed),
        up=source.linear(name, {"linear_fc1": inside}, inside, bias=True),
        down=source.linear(name, {"linear_fc2": dims.out_width}, inside, bias=True),
    )


def _read_norm(source: WeightSource, name: str, width: int) -> Norm:
    return Norm(source.take(f"{name}.weight", width), source.take(f"{name}.bias", width))


class VisionEncoder:
    """From normalised pixels to rows that stand for visual placeholders. No state."""

    def __init__(self, dims: VisionDims, weights: VisionWeights) -> None:
        self.dims = dims
        self.weights = weights
        self.dtype = weights.positions.dtype
        self.device = weights.positions.device
        # Half of a head's pairs turn with the row, the others with the column.
        half = dims.width // dims.heads // 2
        self._frequencies = rope_frequencies(half, dims.rope_theta).to(self.device)
        # Frames of a camera have one size; few are kept, for a large picture's are large.
        self._placed = lru_cache(maxsize=KEPT_GRIDS)(self._place)

    @torch.inference_mode()
    def encode(self, media: Sequence[Tensor]) -> list[Tensor]:
        """Encodes images and temporal slices of videos, each of itself alone.

        media: each [frames, channels, height, width], sides multiples of `dims.factor`; one frame
        stands for all of a patch. Returns for each [tokens, (1 + mergers) * out_width], by rows of
        its picture: what stands for the placeholder, then what DeepStack adds, layer by layer.
        """
        rows: list[Tensor] = []
        for part in _passes(media, self.dims.patch**2):
            rows += self._encode(part)
        return rows

    def _encode(self, media: Sequence[Tensor]) -> list[Tensor]:
        counts = [medium.shape[2] * medium.shape[3] // self.dims.patch**2 for medium in media]
        bounds = to_device(list(accumulate(counts, initial=0)), torch.int64, self.device)
        rows = self.transform(*self.place(media), bounds)
        return list(torch.split(rows, [count // self.dims.merge**2 for count in counts]))

    def place(self, media: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Patches of all media, where they are in their pictures: [patches, width], a new tensor;
        cosines and sines for `rope`."""
        dims, weights = self.dims, self.weights
        grids = [(m.shape[2] // dims.patch, m.shape[3] // dims.patch) for m in media]
        patches = [patchify(m.to(self.device, self.dtype), dims) for m in media]
        x = linear(patches[0] if len(patches) == 1 else torch.cat(patches), weights.patches)
        placed = [self._placed(*grid) for grid in grids]
        if len(placed) == 1:
            positions, cos, sin = placed[0]
        else:
            positions, cos, sin = (torch.cat(each) for each in zip(*placed, strict=True))
        return x.add_(positions), cos, sin

    def transform(self, x: Tensor, cos: Tensor, sin: Tensor, bounds: Tensor) -> Tensor:
        """The layers and the mergers. x, cos, sin: of `place`; x is written to. bounds: [media + 1]
        int64 of each medium's patches, padding behind the last. Returns [tokens, (1 + mergers) *
        out_width]. Nothing is read back: it can be captured."""
        dims, weights = self.dims, self.weights
        merged: list[Tensor] = []
        layers = weights.layers
        nexts = [*(layer.attention_norm for layer in layers[1:]), weights.merger.norm]
        normed = _norm(layers[0].attention_norm, x)
        for index, (layer, next_norm) in enumerate(zip(layers, nexts, strict=True)):
            qkv = linear(normed, layer.qkv)
            qk, v = torch.split(
                qkv.view(len(x), 3 * dims.heads, -1), [2 * dims.heads, dims.heads], dim=1
            )
            q, k = rope(qk, cos, sin).chunk(2, dim=1)
            y = linear(windowed_attention(q, k, v, bounds).flatten(1), layer.out)
            normed = _add_norm(layer.ffn_norm, y, x)
            y = linear(linear(normed, layer.up, "gelu_tanh"), layer.down)
            normed = _add_norm(next_norm, y, x)
            if index in dims.deepstack:
                merger = weights.deepstack[dims.deepstack.index(index)]
                merged.append(_merge(merger, _norm(merger.norm, self._blocks(x))))
        last = _merge(weights.merger, self._blocks(normed))
        return torch.cat([last, *merged], dim=1)

    def _blocks(self, x: Tensor) -> Tensor:
        """Patches of a token side by side: [patches, width] -> [tokens, merge ** 2 * width]."""
        return x.view(-1, self.dims.merge**2 * self.dims.width)

    def _places(self, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Row and column of every patch of a picture, in the order of the patches."""
        places = torch.arange(height * width, device=self.device).view(height, width)
        flat = _by_blocks(places, self.dims.merge)
        return flat // width, flat % width

    def _place(self, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of a picture of so many patches: learnt positions [patches, width], and cosines and sines
        for `rope`."""
        rows, columns = self._places(height, width)
        return self._positions(height, width, rows, columns), *self._angles(rows, columns)

    def _positions(self, height: int, width: int, rows: Tensor, columns: Tensor) -> Tensor:
        """Learnt positions, stretched bilinearly so that corners meet: [patches, width]."""
        side, table = self.dims.side, self.weights.positions
        y = rows.float() * (side - 1) / max(height - 1, 1)
        x = columns.float() * (side - 1) / max(width - 1, 1)
        top, left = y.floor().long(), x.floor().long()
        bottom, right = (top + 1).clamp(max=side - 1), (left + 1).clamp(max=side - 1)
        down, across = (y - top)[:, None], (x - left)[:, None]
        corners = (
            (top, left, (1 - down) * (1 - across)),
            (top, right, (1 - down) * across),
            (bottom, left, down * (1 - across)),
            (bottom, right, down * across),
        )
        total = sum(table[row * side + column].float() * share for row, column, share in corners)
        assert isinstance(total, Tensor)
        return total.to(self.dtype)

    def _angles(self, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines for `rope`, half of the pairs for each axis."""
        axes = [axis.float()[:, None] * self._frequencies for axis in (rows, columns)]
        return rope_factors(torch.cat(axes, dim=1), self.dtype)


def patchify(pixels: Tensor, dims: VisionDims) -> Tensor:
    """[frames, channels, height, width] -> [patches, channels * frames * patch ** 2], patches by
    blocks of one token each, blocks by rows. A single frame is repeated."""
    frames, channels, height, width = pixels.shape
    assert frames in (1, dims.frames) and channels == dims.channels, (pixels.shape, dims)
    assert height % dims.factor == width % dims.factor == 0 < min(height, width), pixels.shape
    x = pixels.expand(dims.frames, -1, -1, -1).reshape(
        dims.frames, channels, height // dims.factor, dims.merge, dims.patch,
        width // dims.factor, dims.merge, dims.patch,
    )  # fmt: skip
    return x.permute(2, 5, 3, 6, 1, 0, 4, 7).reshape(-1, dims.patch_values)


def _by_blocks(grid: Tensor, merge: int) -> Tensor:
    """[height, width] -> [height * width], blocks of merge x merge one after the other."""
    height, width = grid.shape
    x = grid.view(height // merge, merge, width // merge, merge)
    return x.transpose(1, 2).flatten()


def _passes(media: Sequence[Tensor], patch_area: int) -> Iterator[list[Tensor]]:
    """Media in order, so many together that a pass stays within MAX_PATCHES."""
    part: list[Tensor] = []
    held = 0
    for medium in media:
        count = medium.shape[2] * medium.shape[3] // patch_area
        if part and held + count > MAX_PATCHES:
            yield part
            part, held = [], 0
        part.append(medium)
        held += count
    if part:
        yield part


def _merge(merger: Merger, x: Tensor) -> Tensor:
    return linear(linear(x, merger.up, "gelu"), merger.down)


def _norm(norm: Norm, x: Tensor) -> Tensor:
    return layer_norm(x, norm.weight, norm.bias, EPS)


def _add_norm(norm: Norm, change: Tensor, x: Tensor) -> Tensor:
    """Adds to the residual stream x, in place, what a layer gave; normalises it for the next."""
    return add_layer_norm_(change, x, norm.weight, norm.bias, EPS)
