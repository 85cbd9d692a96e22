"""Which frames of a video are looked at. Pure: times in, frame numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookhear.media.base import MediaError

__all__ = ["FrameSampling", "choose_frames"]

MAX_FRAMES = 768  # Qwen's processors stop there too
MAX_STEPS = 1 << 20
GRACE = 6e-4  # seconds: Matroska rounds its times to whole milliseconds


@dataclass(frozen=True, slots=True)
class FrameSampling:
    """One of `fps` (frames per second), `count` (spread over the whole video) and `indices` (frame
    numbers from 0, ascending); none of them: every frame. Never more than `max_frames`: every frame
    and `fps` are thinned out evenly, a larger `count` and more `indices` are refused.

    Raises ValueError for what cannot be meant.
    """

    fps: float | None = None
    count: int | None = None
    indices: tuple[int, ...] | None = None
    max_frames: int = MAX_FRAMES

    def __post_init__(self) -> None:
        given = [name for name in ("fps", "count", "indices") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"expected one of fps, count and indices; got {' and '.join(given)}")
        if self.max_frames < 1:
            raise ValueError(f"max_frames: expected at least 1; got {self.max_frames}")
        if self.fps is not None and not 0 < self.fps <= 1000:
            raise ValueError(f"fps: expected more than 0 and at most 1000; got {self.fps:g}")
        if self.count is not None and not 1 <= self.count <= self.max_frames:
            raise ValueError(f"count: expected 1 to {self.max_frames} frames; got {self.count}")
        if self.indices is not None:
            self.check_indices(self.indices)

    def check_indices(self, indices: tuple[int, ...]) -> None:
        if not 1 <= len(indices) <= self.max_frames:
            raise ValueError(
                f"indices: expected 1 to {self.max_frames} of them; got {len(indices)}"
            )
        if indices[0] < 0 or any(a >= b for a, b in zip(indices, indices[1:], strict=False)):
            raise ValueError("indices: expected frame numbers from 0, each larger than the last")


def choose_frames(times: Sequence[float], end: float, sampling: FrameSampling) -> list[int]:
    """times: [n] seconds at which the frames are shown, ascending; the last one until `end`.
    Gives the numbers of those chosen.

    Ascending and without repeats: a video of fewer frames than `count` gives all it has. With `fps`
    the frames are those on display at 0, 1/fps, 2/fps ... seconds after the first.
    Raises MediaError ("too_short") if an index is beyond the end.
    """
    total = len(times)
    if sampling.indices is not None:
        if sampling.indices[-1] >= total:
            raise MediaError(
                "too_short",
                f"expected a video with a frame {sampling.indices[-1]}, counted from 0; "
                f"got one of {total} frames",
            )
        return list(sampling.indices)
    if sampling.count is not None:
        return spread(total, sampling.count)
    if sampling.fps is None or not total:
        return spread(total, sampling.max_frames)
    starts = np.asarray(times, dtype=np.float64)
    # Bounded, because the times of a damaged file may span years.
    steps = int(min(max(end - starts[0], 0) * sampling.fps, MAX_STEPS))
    grid = starts[0] + np.arange(steps + 1) / sampling.fps
    grid = grid[(grid < end - GRACE) | (grid == starts[0])]
    shown = np.searchsorted(starts, grid + GRACE, side="right") - 1
    chosen = np.unique(shown)
    return [int(chosen[i]) for i in spread(len(chosen), sampling.max_frames)]


def spread(total: int, count: int) -> list[int]:
    """`count` of the numbers 0 ... total - 1, evenly, with both ends; all if there are fewer."""
    if count >= total:
        return list(range(total))
    if count == 1:
        return [(total - 1) // 2]
    return [int(i * (total - 1) / (count - 1) + 0.5) for i in range(count)]
