"""Media of one shape by captured graphs: one for a number of them, whosever they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.device.graphs import Fields, Shape
from lookhear.engine.device.staging import Integers, to_device
from lookhear.engine.paged.request import Medium


class MediaGraphs:
    """Encodes media as the model does. See `MediaEncoder`.

    shape, dtype: of the features of one. counts: of media in a pass, ascending. tokens: of one.
    transform: (features [count, *shape], integers by name) -> [count * tokens, width]; nothing is
    read back in it. eager: the model's own. integers: that a pass over so many wants.
    """

    def __init__(
        self,
        acceleration: Acceleration,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        counts: Sequence[int],
        tokens: int,
        transform: Callable[[Tensor, Fields], Tensor],
        eager: Callable[[Sequence[Medium]], list[Tensor]],
        integers: Callable[[int], Mapping[str, Integers]] = lambda count: {},
    ) -> None:
        assert acceleration.memory is not None
        self._most, self._tokens = counts[-1], tokens
        self._transform, self._eager, self._integers = transform, eager, integers
        self._features = acceleration.memory.persistent((self._most, *shape), dtype)
        self.graphs = acceleration.new_graphs(self._most + 256)
        shapes: list[Shape] = [(count,) for count in counts]
        self.graphs.plan("encode", shapes, self._region, self._padding)

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Per medium [tokens, width], in memory that the next call may write."""
        encoded: list[Tensor] = []
        for first in range(0, len(media), self._most):
            if encoded:  # this pass writes where the one before did
                encoded = [rows.clone() for rows in encoded]
            encoded += self._encode(media[first : first + self._most])
        return encoded

    def _encode(self, media: Sequence[Medium]) -> list[Tensor]:
        shape = self.graphs.fit("encode", len(media))
        if shape is None:
            eager: list[Tensor] = self.graphs.run("encode", None, lambda: self._eager(media))
            return eager
        self.graphs.staging.put(self._padding(shape), is_fixed=True)
        for place, medium in zip(self._features, media, strict=False):
            place.copy_(to_device(medium.features, torch.float32, self._features.device))
        rows: Tensor = self.graphs.run("encode", shape, lambda: None)
        return list(torch.split(rows[: len(media) * self._tokens], self._tokens))

    def unread(self) -> list[Callable[[], None]]:
        """Nothing."""
        return []

    def _padding(self, shape: Shape) -> dict[str, Integers]:
        # The first is there to tell the region how many there are.
        return {"media": np.zeros(shape[0], np.int64), **self._integers(shape[0])}

    def _region(self, fields: Fields) -> Tensor:
        return self._transform(self._features[: len(fields["media"])], fields)
