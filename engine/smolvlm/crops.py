"""How SmolVLM sees a picture: as crops of one size, by rows, and last as a whole of that size.

    <fake_token_around_image><row_1_col_1><image>...<fake_token_around_image><row_1_col_2><image>...
    (a new line behind each row of crops)
    (a new line)<fake_token_around_image><global-img><image>...<fake_token_around_image>

A small budget makes the picture smaller, so that it has fewer crops, and at last only the whole.
Source: the processors of SmolVLM and Idefics3 in transformers 5, with bicubic resizing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.chat.pictures import HeldPictures, Label, PartError, PartMedia, Place, blamed
from lookhear.engine.chat.pixels import Size, check_ratio, read_normalisation
from lookhear.engine.checkpoints.loader import CheckpointError, read_json, section, whole_number
from lookhear.engine.messages import ImagePart
from lookhear.engine.paged.request import Medium
from lookhear.engine.smolvlm.encoder import CropDims
from lookhear.engine.tokenizers.qwen import QwenTokenizer

MOST_SIDE = 4096  # pixels that a picture is enlarged to
AROUND, WHOLE, IMAGE = "<fake_token_around_image>", "<global-img>", "<image>"


@dataclass(frozen=True, slots=True)
class CropRules:
    """size: of a crop. longest: that a picture's longer side gets before it is cut; size: it is not
    cut. mean, std: of values from 0 to 1."""

    size: int
    longest: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @classmethod
    def from_folder(cls, folder: Path, dims: CropDims) -> CropRules:
        """Reads preprocessor_config.json, or its part of processor_config.json; raises
        `CheckpointError`, also if it does not fit the encoder."""
        path = folder / "preprocessor_config.json"
        config = read_json(path, required=False)
        if not config:
            path = folder / "processor_config.json"
            config = section(read_json(path), "image_processor", path)
        size = whole_number(section(config, "max_image_size", path), path, "longest_edge")
        if size != dims.size:
            theirs = f"the vision encoder's {dims.size}"
            raise CheckpointError.of(path, "max_image_size.longest_edge", theirs, size)
        longest = whole_number(section(config, "size", path), path, "longest_edge")
        mean, std = read_normalisation(config, path)
        cuts = config.get("do_image_splitting", True)
        return cls(size, longest if cuts else size, mean, std)

    @property
    def choices(self) -> list[int]:
        """Values of `longest` from the checkpoint's down to one without crops."""
        return [*range(self.longest, self.size, -self.size), self.size]

    def grid(self, size: Size, longest: int) -> tuple[int, int]:
        """Rows and columns of crops that a picture of that size has; (0, 0): it is not cut."""
        if longest <= self.size:
            return 0, 0
        height, width = self._multiples(_scaled(size, longest))
        rows, columns = height // self.size, width // self.size
        return (0, 0) if rows == columns == 1 else (rows, columns)

    def _multiples(self, size: Size) -> Size:
        height, width = size
        ratio, unit = width / height, self.size
        if width >= height:
            width = math.ceil(width / unit) * unit
            height = math.ceil(int(width / ratio) / unit) * unit
        else:
            height = math.ceil(height / unit) * unit
            width = math.ceil(int(height * ratio) / unit) * unit
        return height, width

    def prepare(self, picture: NDArray[np.uint8], longest: int) -> list[NDArray[np.float32]]:
        """[height, width, 3] bytes -> crops by rows, then the whole, each [3, size, size]."""
        # What came by a socket is read-only, which torch does not know.
        x = torch.tensor(picture).permute(2, 0, 1)[None]
        size = picture.shape[0], picture.shape[1]
        rows, columns = self.grid(size, longest)
        x = _resized(x, _scaled(size, max(longest, self.longest) if rows == 0 else longest))
        found: list[Tensor] = []
        if rows:
            x = _resized(x, (rows * self.size, columns * self.size))
            cut = x.view(3, rows, self.size, columns, self.size).permute(1, 3, 0, 2, 4)
            found += cut.flatten(0, 1).unbind(0)
        found.append(_resized(x, (self.size, self.size))[0])
        mean, std = (torch.tensor(v).mul(255.0).view(3, 1, 1) for v in (self.mean, self.std))
        return [((one.float() - mean) / std).contiguous().numpy() for one in found]


def _scaled(size: Size, longest: int) -> Size:
    """With that longer side, and the other one even."""
    height, width = size
    ratio = width / height
    if width >= height:
        width, height = longest, int(longest / ratio)
        height += height % 2
    else:
        height, width = longest, int(longest * ratio)
        width += width % 2
    height, width = max(height, 1), max(width, 1)
    most = max(height, width)
    if most > MOST_SIDE:
        if width >= height:
            return max(int(MOST_SIDE / (width / height)), 1), MOST_SIDE
        return MOST_SIDE, max(int(MOST_SIDE * (width / height)), 1)
    return height, width


def _resized(x: Tensor, size: Size) -> Tensor:
    """[1, 3, height, width] bytes."""
    if x.shape[2:] == size:
        return x
    # Bytes in, bytes out: torch rounds between the two directions as Pillow does.
    return F.interpolate(x, size, mode="bicubic", antialias=True, align_corners=False)


class CroppedPictures(HeldPictures):
    """See `PictureEncoder`; it sees no videos. make_medium: from a crop to what a request holds.
    tokens: of a crop. most: tokens of one picture, where its detail is not "high"."""

    def __init__(
        self,
        make_medium: Callable[[NDArray[np.float32]], Medium],
        rules: CropRules,
        tokens: int,
        most: int,
    ) -> None:
        super().__init__(IMAGE)
        self._make_medium = make_medium
        self._rules = rules
        self._tokens = tokens
        self._most = most

    def media_of(
        self,
        session: str,
        parts: Sequence[tuple[Place, object]],
        room: int,
        tokenizer: QwenTokenizer,
    ) -> dict[Place, PartMedia]:
        """See `HeldPictures`. Pictures of detail "auto" are made smaller, all alike, if they must
        be; of detail "low" only the whole is seen."""
        sizes: dict[Place, Size] = {}
        for place, part in parts:
            if not isinstance(part, ImagePart):
                raise PartError("invalid_model", "expected images, the model sees no videos", place)
            if part.detail not in ("low", "high", "auto"):
                expected = f"detail: expected 'low', 'high' or 'auto', got {part.detail!r}"
                raise PartError("invalid_value", expected, place)
            pixels = self._find(session, part.picture, place)
            sizes[place] = pixels.shape[0], pixels.shape[1]
            blamed(lambda place=place: check_ratio(sizes[place]), place)  # type: ignore[misc]
        images = [(place, part) for place, part in parts if isinstance(part, ImagePart)]
        if not images:  # a text without room is too long by itself, and no picture is to blame
            return {}
        for flexible in self._rules.choices:
            edges = {place: self._longest(part, sizes[place], flexible) for place, part in images}
            total = sum(self._cost(sizes[p], edge, tokenizer) for p, edge in edges.items())
            if total <= room:
                return {
                    place: self._seen(session, place, part, sizes[place], edges[place], tokenizer)
                    for place, part in images
                }
        raise PartError(
            "context_length_exceeded",
            f"expected pictures of at most {max(0, room)} tokens together, got {total} at least",
            images[-1][0],
        )

    def _longest(self, part: ImagePart, size: Size, flexible: int) -> int:
        rules = self._rules
        if part.detail == "high":
            return rules.longest
        if part.detail == "low":
            return rules.size
        fits = (e for e in rules.choices if self._crops(size, e) * self._tokens <= self._most)
        return min(flexible, next(fits, rules.size))

    def _crops(self, size: Size, longest: int) -> int:
        rows, columns = self._rules.grid(size, longest)
        return rows * columns + 1

    def _cost(self, size: Size, longest: int, tokenizer: QwenTokenizer) -> int:
        labels = _labels(*self._rules.grid(size, longest), tokenizer)
        return sum(len(label) + self._tokens for label in labels) + 1

    def _seen(
        self,
        session: str,
        place: Place,
        part: ImagePart,
        size: Size,
        longest: int,
        tokenizer: QwenTokenizer,
    ) -> PartMedia:
        def make() -> list[Medium]:
            pixels = self._find(session, part.picture, place)
            return [self._make_medium(crop) for crop in self._rules.prepare(pixels, longest)]

        media = self._cached((session, part.picture, longest), make)
        labels = _labels(*self._rules.grid(size, longest), tokenizer)
        tail = (tokenizer.token(AROUND),)
        return PartMedia(list(zip(labels, media, strict=True)), "image", tail=tail)


def _labels(rows: int, columns: int, tokenizer: QwenTokenizer) -> list[Label]:
    """What stands in front of each crop, and of the whole."""
    around = tokenizer.token(AROUND)
    labels: list[Label] = []
    for row in range(1, rows + 1):
        for column in range(1, columns + 1):
            line = tokenizer.encode("\n") if column == 1 and row > 1 else []
            labels.append((*line, around, *_spelled(f"<row_{row}_col_{column}>", tokenizer)))
    end = tokenizer.encode("\n\n") if rows else []
    labels.append((*end, around, *_spelled(WHOLE, tokenizer)))
    return labels


def _spelled(name: str, tokenizer: QwenTokenizer) -> list[int]:
    """One token, where the checkpoint has it."""
    return [tokenizer.added[name]] if name in tokenizer.added else tokenizer.encode(name)
