"""SmolVLM's vision encoder by captured graphs: a shape for a number of crops, whosever they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.device.graphs import Fields, Shape
from lookhear.engine.device.staging import Integers, to_device
from lookhear.engine.paged.request import Medium
from lookhear.engine.smolvlm.encoder import MAX_CROPS
from lookhear.engine.smolvlm.model import SmolVlmModel

CROPS = (1, 2, 4, 8, 12, MAX_CROPS)  # of one pass; a whole picture of the published ones has 17


class CropGraphs:
    """Encodes media as the model does. See `MediaEncoder`."""

    def __init__(self, model: SmolVlmModel, acceleration: Acceleration) -> None:
        assert acceleration.memory is not None
        self._model = model
        encoder = self._encoder = model.encoder
        dims = encoder.dims
        size = (CROPS[-1], dims.channels, dims.size, dims.size)
        self._pixels = acceleration.memory.persistent(size, encoder.dtype)
        self.graphs = acceleration.new_graphs(CROPS[-1] + 256)
        shapes: list[Shape] = [(count,) for count in CROPS]
        self.graphs.plan("encode", shapes, self._region, lambda shape: self._integers(shape[0]))

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Per crop [num_tokens, width], in memory that the next call may write."""
        encoded: list[Tensor] = []
        for first in range(0, len(media), CROPS[-1]):
            if encoded:  # this pass writes where the one before did
                encoded = [rows.clone() for rows in encoded]
            encoded += self._encode(media[first : first + CROPS[-1]])
        return encoded

    def _encode(self, media: Sequence[Medium]) -> list[Tensor]:
        shape = self.graphs.fit("encode", len(media))
        if shape is None:
            eager: list[Tensor] = self.graphs.run("encode", None, lambda: self._model.encode(media))
            return eager
        self.graphs.staging.put(self._integers(shape[0]), is_fixed=True)
        for place, medium in zip(self._pixels, media, strict=False):
            place.copy_(to_device(medium.features, torch.float32, self._pixels.device))
        rows: Tensor = self.graphs.run("encode", shape, lambda: None)
        tokens = self._encoder.dims.num_tokens
        return list(torch.split(rows[: len(media) * tokens], tokens))

    def unread(self) -> list[Callable[[], None]]:
        """Nothing."""
        return []

    def _integers(self, count: int) -> dict[str, Integers]:
        return {"bounds": np.array(self._encoder.bounds(count), np.int64)}

    def _region(self, fields: Fields) -> Tensor:
        bounds = fields["bounds"]
        return self._encoder.transform(self._pixels[: len(bounds) - 1], bounds)
