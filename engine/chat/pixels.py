"""How Qwen3-VL sees a picture: at a size its budget allows, in normalised pixels.

    any size --budget--> sides that are multiples of 32 --bicubic, normalise--> [frames, 3, H, W]

The same numbers as the checkpoint's own processor makes (transformers, Qwen2VLImageProcessor,
Qwen3VLVideoProcessor and, of Qwen3-Omni, Qwen2VLVideoProcessor): bicubic with antialiasing on
bytes, rounded, then one affine step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from lookhear.engine.checkpoints.loader import CheckpointError, read_json, whole_number
from lookhear.engine.core.request import RequestError
from lookhear.engine.models.vision_weights import VisionDims

Frames = NDArray[np.uint8]  # [frames, height, width, 3], RGB
Pixels = NDArray[np.float32]  # [frames, 3, height, width]
Size = tuple[int, int]  # height, width
Channels = tuple[float, float, float]  # a number for red, green and blue

LOW_TOKENS = 256  # detail "low": 512 x 512 pixels' worth where a token is 32 x 32
MAX_RATIO = 200  # of the sides
CAPPED_TOKENS = 768  # of a frame, where a video processor says that they are capped and not how
EDGES = {"shortest_edge": "min_pixels", "longest_edge": "max_pixels"}  # pixels, by either name


@dataclass(frozen=True, slots=True)
class PixelRules:
    """factor: pixels per token, both ways. frames: of a video, in one token. min_pixels,
    max_pixels: of an image, or of a video: of all its frames, or, if per_frame, of each. mean, std:
    of values from 0 to 1. frame_tokens: that a frame of a video has at most, which then gets no
    more than its share of max_pixels, either."""

    factor: int
    frames: int
    min_pixels: int
    max_pixels: int
    mean: Channels
    std: Channels
    per_frame: bool = False
    frame_tokens: int | None = None

    @classmethod
    def from_folder(cls, folder: Path, dims: VisionDims, *, video: bool = False) -> PixelRules:
        """Reads preprocessor_config.json (or video_preprocessor_config.json), or its part of
        processor_config.json; raises `CheckpointError`, also if it does not fit the encoder. Of
        older checkpoints one file is for both."""
        part = "video_processor" if video else "image_processor"
        path = folder / f"{'video_' if video else ''}preprocessor_config.json"
        config = read_json(path, required=False)
        if not config:
            path = folder / "processor_config.json"
            config = read_json(path, required=False).get(part) or {}
        if not config and video:
            path = folder / "preprocessor_config.json"
            config = read_json(path, required=False)
        size = {**config, **(config.get("size") or {})}
        if not video:  # of an image these count more than edges that are there, too
            named = {edge: config.get(name) for edge, name in EDGES.items()}
            size |= {edge: pixels for edge, pixels in named.items() if pixels is not None}
        for key, expected in (
            ("patch_size", dims.patch),
            ("merge_size", dims.merge),
            ("temporal_patch_size", dims.frames),
        ):
            if config.get(key) != expected:
                theirs = f"the vision encoder's {expected}"
                raise CheckpointError.of(path, key, theirs, config.get(key))
        least, most = (_pixels(size, path, *names) for names in EDGES.items())
        mean, std = read_normalisation(config, path)
        rules = cls(dims.factor, dims.frames, least, most, mean, std)
        if not video or not config.get("cap_pixels_per_frame"):
            return rules
        told = {"max_video_tokens": CAPPED_TOKENS, **config}
        return replace(rules, frame_tokens=whole_number(told, path, "max_video_tokens"))

    def num_tokens(self, size: Size) -> int:
        """Of a picture of a size that `image_size` or `video_size` gave."""
        return (size[0] // self.factor) * (size[1] // self.factor)

    def of_each_frame(self, min_tokens: int, max_tokens: int) -> PixelRules:
        """The same for videos whose frames are seen at the size of one, of so many tokens."""
        rules = self.limited(max_tokens)
        least = min(min_tokens * self.factor**2, rules.max_pixels)
        return replace(rules, min_pixels=least, per_frame=True, frame_tokens=None)

    def limited(self, max_tokens: int) -> PixelRules:
        """The same with at most so many tokens of pixels per image (per video: that many pixels in
        all its frames, or in each). Very thin pictures exceed it: no side is less than a token."""
        most = min(self.max_pixels, max(1, max_tokens) * self.factor**2)
        return replace(self, min_pixels=min(self.min_pixels, most), max_pixels=most)

    def for_detail(self, detail: str) -> PixelRules:
        """detail: "low" (at most LOW_TOKENS), or "high" or "auto": as the checkpoint has it."""
        if detail not in ("low", "high", "auto"):
            raise RequestError(
                "invalid_value", f"detail: expected 'low', 'high' or 'auto', got {detail!r}"
            )
        return self.limited(LOW_TOKENS) if detail == "low" else self

    def image_size(self, size: Size) -> Size:
        """The size at which an image of that size is seen; `RequestError` if it is a thread."""
        check_ratio(size)
        return self._fitted(size, 1, 1)

    def video_size(self, size: Size, num_frames: int) -> Size:
        """The size at which frames of that size are seen: max_pixels are shared by all of them, if
        not those of each."""
        if self.per_frame:
            return self.image_size(size)
        height, width = size
        if min(size) < self.factor:
            scale = max(self.factor / height, self.factor / width)
            size = int(height * scale), int(width * scale)
        check_ratio(size)
        num_frames = max(num_frames, self.frames)  # a single one is repeated
        rules = self._capped(num_frames)
        return rules._fitted(size, num_frames, round(num_frames / self.frames) * self.frames)

    def _capped(self, num_frames: int) -> PixelRules:
        """The same for a video of so many frames, each of which has its limit."""
        if self.frame_tokens is None:
            return self
        share = min(self.frame_tokens * self.factor**2, self.max_pixels // num_frames)
        return replace(self, max_pixels=max(share, int(self.min_pixels * 1.05)) * num_frames)

    def _fitted(self, size: Size, num_frames: int, counted: int) -> Size:
        """Multiples of the factor, near the size in proportion, within the limits. counted: the
        number of frames that is compared with the limits, which is not always that of frames."""
        factor, area = self.factor, num_frames * size[0] * size[1]
        height, width = (round(side / factor) * factor for side in size)
        if counted * height * width > self.max_pixels:
            shrink = math.sqrt(area / self.max_pixels)
            height, width = (math.floor(side / shrink / factor) * factor for side in size)
        elif counted * height * width < self.min_pixels:
            grow = math.sqrt(self.min_pixels / area)
            height, width = (math.ceil(side * grow / factor) * factor for side in size)
        return max(factor, height), max(factor, width)

    def prepare(self, frames: Frames, size: Size) -> Pixels:
        """Resized and normalised: [frames, height, width, 3] bytes -> [frames, 3, *size]."""
        assert frames.dtype == np.uint8 and frames.shape[3] == 3, (frames.dtype, frames.shape)
        # What came by a socket is read-only, which torch does not know.
        x = torch.tensor(frames).permute(0, 3, 1, 2)
        if x.shape[2:] != size:
            # Bytes in, bytes out: torch rounds between the two directions as Pillow does.
            x = F.interpolate(x, size, mode="bicubic", antialias=True, align_corners=False)
        mean, std = (
            torch.tensor(values).mul(255.0).view(3, 1, 1) for values in (self.mean, self.std)
        )
        pixels: Pixels = ((x.float() - mean) / std).contiguous().numpy()
        return pixels


def share_tokens(rules: PixelRules, sizes: Sequence[Size], max_tokens: int) -> list[Size]:
    """Sizes at which the images of one request are seen, max_tokens together at most.

    What is too much is taken from the largest: all images get the same limit, and small ones that
    stay below it are seen as they would be alone. `RequestError` if not even that is enough.
    """

    def fit(limit: int) -> list[Size]:
        limited = rules.limited(limit)
        return [limited.image_size(size) for size in sizes]

    return _largest(rules, fit, max_tokens)


def share_video_tokens(rules: PixelRules, size: Size, num_frames: int, max_tokens: int) -> Size:
    """Size at which the frames of a video are seen, max_tokens together at most."""
    slices = -(-num_frames // rules.frames)

    def fit(limit: int) -> list[Size]:
        limited = rules.limited(limit)
        return [limited.video_size(size, num_frames)] * slices

    return _largest(rules, fit, max_tokens)[0]


def _largest(rules: PixelRules, fit: Callable[[int], list[Size]], max_tokens: int) -> list[Size]:
    """What fits at the largest limit, by bisection: a smaller limit never costs more."""

    def cost(sizes: Sequence[Size]) -> int:
        return sum(map(rules.num_tokens, sizes))

    low, high = 1, max(1, -(-rules.max_pixels // rules.factor**2))
    if cost(whole := fit(high)) <= max_tokens:
        return whole
    if (least := cost(fit(low))) > max_tokens:
        raise RequestError(
            "context_length_exceeded",
            f"expected pictures of at most {max_tokens} tokens together, got {least} at least",
        )
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(fit(middle)) <= max_tokens else (low, middle)
    return fit(low)


def temporal_slices(
    pixels: Pixels, seconds: Sequence[float], frames: int
) -> list[tuple[float, Pixels]]:
    """A video as (time, pixels of so many frames) each; the last frame fills up the last slice.

    A slice's time is the middle between its first and its last frame's.
    """
    assert len(pixels) == len(seconds) >= 1, (pixels.shape, len(seconds))
    slices = []
    for start in range(0, len(seconds), frames):
        part, times = pixels[start : start + frames], seconds[start : start + frames]
        missing = frames - len(part)
        filled = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)])
        slices.append(((times[0] + times[-1]) / 2, filled))
    return slices


def check_ratio(size: Size) -> None:
    """Raises `RequestError` if a picture is a thread."""
    if min(size) < 1 or max(size) > MAX_RATIO * min(size):
        raise RequestError(
            "invalid_image",
            f"expected a picture whose sides differ at most {MAX_RATIO} times, "
            f"got {size[1]} x {size[0]} pixels",
        )


def _pixels(config: Mapping[str, Any], path: Path, *names: str) -> int:
    value = next((config[name] for name in names if config.get(name) is not None), None)
    if type(value) is not int or value < 1:
        raise CheckpointError.of(path, f"size.{names[0]}", "pixels >= 1", value)
    return value


def read_normalisation(config: Mapping[str, Any], path: Path) -> tuple[Channels, Channels]:
    """Mean and deviation of values from 0 to 1, as which all pixels are seen. Raises
    `CheckpointError`, also where a processor leaves them otherwise."""
    for key in ("do_rescale", "do_normalize"):
        if config.get(key) is False:
            raise CheckpointError.of(path, key, "true", False)
    scale = config.get("rescale_factor")
    if scale is not None and not (isinstance(scale, float) and math.isclose(scale, 1 / 255)):
        raise CheckpointError.of(path, "rescale_factor", "1 / 255", scale)
    mean, std = (_channels(config, path, key) for key in ("image_mean", "image_std"))
    if min(std) <= 0:
        raise CheckpointError.of(path, "image_std", "positive numbers", std)
    return mean, std


def _channels(config: Mapping[str, Any], path: Path, key: str) -> Channels:
    value = config.get(key)
    if not (
        isinstance(value, list)
        and len(value) == 3
        and all(isinstance(x, int | float) and not isinstance(x, bool) for x in value)
    ):
        raise CheckpointError.of(path, key, "three numbers", value)
    return float(value[0]), float(value[1]), float(value[2])
