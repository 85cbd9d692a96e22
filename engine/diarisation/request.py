"""One chunk of a recording, of which a diariser says who speaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.diarisation.speaker_cache import Chunking


@dataclass(frozen=True, slots=True)
class ChunkRequest:
    """key: of its owner, whose chunks are read in their order. stretch: see `frames.stretch`, of
    the chunk and what it sees beside itself. behind, chunk: places. frames: of the chunk. Its rows
    are [frames, speakers] probabilities."""

    key: str
    chunking: Chunking
    stretch: NDArray[np.float32]
    behind: int
    chunk: int
    frames: int
    draft: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Places."""
        return self.behind + self.chunk
