"""Qwen3-VL's vision encoder by captured graphs: a shape for a number of patches, whatever pictures
they belong to. Patches and where they are come before it; their pictures are integers of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.device.graphs import Fields, Shape
from lookhear.engine.device.staging import Integers, to_device
from lookhear.engine.models.vision_encoder import VisionEncoder
from lookhear.engine.paged.request import Medium

TOKENS = (16, 64, 128, 256, 512, 1024)  # of one pass; a frame of a camera has 256 at most
MEDIA = 16  # of one pass


class Seeing(Protocol):
    """A model that sees, or its encoder alone."""

    @property
    def encoder(self) -> VisionEncoder:
        """Pixels to rows."""

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """See `PagedModel.encode`."""


class VisionGraphs:
    """Encodes media as the model does. See `MediaEncoder`."""

    def __init__(self, model: Seeing, acceleration: Acceleration) -> None:
        assert acceleration.memory is not None
        self._model = model
        self._encoder: VisionEncoder = model.encoder
        dims, dtype = self._encoder.dims, self._encoder.dtype
        self._area = dims.merge**2  # patches of a token
        most = TOKENS[-1] * self._area
        turned = (most, 1, dims.width // dims.heads)
        self._patches = acceleration.memory.persistent((most, dims.width), dtype)
        self._cos = acceleration.memory.persistent(turned, dtype)
        self._sin = acceleration.memory.persistent(turned, dtype)
        self.graphs = acceleration.new_graphs(most + 256)
        shapes: list[Shape] = [(tokens * self._area, MEDIA) for tokens in TOKENS]
        self.graphs.plan("encode", shapes, self._region, lambda shape: self._integers([], shape))

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Per medium [num_tokens, parts * width], in memory that the next call may write."""
        counts = [medium.num_tokens * self._area for medium in media]
        shape = self.graphs.fit("encode", sum(counts), len(media))
        if shape is None:
            eager: list[Tensor] = self.graphs.run("encode", None, lambda: self._model.encode(media))
            return eager
        device = self._patches.device
        pixels = [to_device(medium.features, torch.float32, device) for medium in media]
        self.graphs.staging.put(self._integers(counts, shape), is_fixed=True)
        held = self._patches, self._cos, self._sin
        for buffer, values in zip(held, self._encoder.place(pixels), strict=True):
            buffer[: len(values)] = values
        rows: Tensor = self.graphs.run("encode", shape, lambda: None)
        sizes = [medium.num_tokens for medium in media]
        return list(torch.split(rows[: sum(sizes)], sizes))

    def unread(self) -> list[Callable[[], None]]:
        """Nothing."""
        return []

    def _integers(self, counts: Sequence[int], shape: Shape) -> dict[str, Integers]:
        """counts: patches of each medium. places: [patches] in the buffers, for their number."""
        ends = list(accumulate(counts, initial=0))
        bounds = np.full(shape[1] + 1, ends[-1], np.int64)
        bounds[: len(ends)] = ends
        return {"places": np.arange(shape[0]), "bounds": bounds}

    def _region(self, fields: Fields) -> Tensor:
        count = len(fields["places"])
        x = self._patches[:count].clone()  # the layers write to it
        return self._encoder.transform(x, self._cos[:count], self._sin[:count], fields["bounds"])
