"""Where tokens are on the three axes of Qwen's M-RoPE: time, height and width. numpy on the host.

    text    A   B   [ image of 2 x 3 tokens ]   C   D
    time    0   1    2  2  2  2  2  2           5   6
    height  0   1    2  2  2  3  3  3           5   6
    width   0   1    2  3  4  2  3  4           5   6

Text counts up on all axes alike; what follows an image begins behind the largest position in it. So
from the prompt's end on, position = place + delta, with one delta per request.
Source: Qwen2-VL (Wang et al., 2024); each temporal slice of a video is an image of its own, as in
Qwen3-VL, where time is written in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grid:
    """Visual tokens [start, start + height * width) of a prompt, in rows from the top. time: of a
    slice that stands behind another one of its video, how many positions it is later than the
    first; 0: it begins anew."""

    start: int
    height: int
    width: int
    time: int = 0


@dataclass(frozen=True, slots=True)
class PromptPositions:
    """axes: [3, tokens of the prompt]. delta: from any later place to its position."""

    axes: Positions
    delta: int

    @classmethod
    def of(cls, num_tokens: int, grids: Sequence[Grid] = ()) -> PromptPositions:
        """grids: in the order of their places, none overlapping."""
        parts: list[Positions] = []
        place = position = origin = 0
        for grid in grids:
            assert grid.start >= place and min(grid.height, grid.width) >= 1, (grid, place)
            assert not grid.time or (parts and grid.start == place), (grid, place)
            if not grid.time:
                parts.append(_text(position, grid.start - place))
                origin = position = position + grid.start - place
            rows, columns = np.divmod(np.arange(grid.height * grid.width), grid.width)
            parts.append(np.stack([np.full_like(rows, grid.time), rows, columns]) + origin)
            position = max(position, origin + max(grid.time + 1, grid.height, grid.width))
            place = grid.start + grid.height * grid.width
        assert place <= num_tokens, (place, num_tokens)
        parts.append(_text(position, num_tokens - place))
        position += num_tokens - place
        return cls(np.concatenate(parts, axis=1), position - num_tokens)

    def read(self, first: int, last: int) -> Positions:
        """Of places first .. last, in the prompt or beyond it: [3, last - first]."""
        known = self.axes[:, first:last]
        beyond = max(first, self.axes.shape[1])
        return np.concatenate([known, _text(beyond + self.delta, max(0, last - beyond))], axis=1)


def _text(position: int, count: int) -> Positions:
    return np.broadcast_to(np.arange(position, position + count, dtype=np.int64), (3, count))
