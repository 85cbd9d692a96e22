"""Qwen3-VL's vision encoder: images of any size, many in one pass, each seeing itself only.

    pixels [frames, 3, H, W] -> patches of 16 x 16, in blocks of 2 x 2 -> layers of full attention
    behind some layers, and behind the last: a merger, block of patches -> one token

Attention is in blocks of one medium each (an image, or one temporal slice of a video), so a
medium's tokens are a function of its own pixels, and media of many requests make one batch.
DeepStack (Meng et al., 2024) is why there are several mergers: the decoder adds what the early ones
say behind its own first layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

import torch
from torch import Tensor

from lookhear.engine.device.staging import to_device
from lookhear.engine.models.vision_weights import VisionDims, VisionWeights
from lookhear.kernels import linear, rope, rope_factors, rope_frequencies, windowed_attention

MAX_PATCHES = 16_384  # in one pass, unless a single medium has more; inside they are wide
KEPT_GRIDS = 4  # sizes of pictures whose positions are kept


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
        nexts = [*(layer.attention.norm for layer in layers[1:]), weights.merger.norm]
        normed = layers[0].attention.norm(x)
        for index, (layer, next_norm) in enumerate(zip(layers, nexts, strict=True)):
            qkv = linear(normed, layer.attention.qkv)
            qk, v = torch.split(
                qkv.view(len(x), 3 * dims.heads, -1), [2 * dims.heads, dims.heads], dim=1
            )
            q, k = rope(qk, cos, sin).chunk(2, dim=1)
            y = linear(windowed_attention(q, k, v, bounds).flatten(1), layer.attention.out)
            normed = layer.ffn.norm.add_(y, x)
            normed = next_norm.add_(layer.ffn(normed, "gelu_tanh"), x)
            if index in dims.deepstack:
                merger = weights.deepstack[dims.deepstack.index(index)]
                merged.append(merger(merger.norm(self._blocks(x))))
        last = weights.merger(self._blocks(normed))
        return torch.cat([last, *merged], dim=1)

    def _blocks(self, x: Tensor) -> Tensor:
        """Patches of a token side by side: [patches, width] -> [tokens, merge ** 2 * width]."""
        return x.view(-1, self.dims.merge**2 * self.dims.width)

    def _place(self, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of a picture of so many patches: learnt positions [patches, width], and cosines and sines
        for `rope`."""
        places = torch.arange(height * width, device=self.device).view(height, width)
        flat = _by_blocks(places, self.dims.merge)
        rows, columns = flat // width, flat % width
        # Half of the pairs turn with each axis.
        angles = [axis.float()[:, None] * self._frequencies for axis in (rows, columns)]
        cos, sin = rope_factors(torch.cat(angles, dim=1), self.dtype)
        return self._positions(height, width, rows, columns), cos, sin

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
