"""One chunk of a recording, of which a diariser says who speaks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Demand, Phase, Result, StopReason
from lookhear.engine.diarisation.speaker_cache import Chunking


@dataclass(frozen=True, slots=True)
class ChunkRequest:
    """key: of its owner, whose chunks are read in their order. stretch: see `frames.stretch`, of
    the chunk and what it sees beside itself. behind, chunk: places. frames: of the chunk."""

    key: str
    chunking: Chunking
    stretch: NDArray[np.float32]
    behind: int
    chunk: int
    frames: int
    draft: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoSpeaks(Result):
    """probabilities: [frames of the chunk, speakers]."""

    probabilities: NDArray[np.float32]


@dataclass(slots=True)
class ChunkSequence:
    """A chunk that is to be read; satisfies `Running`. is_read: it is on its way."""

    request: ChunkRequest
    phase: Phase = Phase.PREFILL
    is_read: bool = False
    num_drafted: int = 0
    probabilities: NDArray[np.float32] | None = field(default=None)

    @property
    def key(self) -> str:
        """Its owner's."""
        return self.request.key

    def demand(self) -> Demand:
        """All of it at once."""
        return Demand(self.request.behind + self.request.chunk, 0, False, self.is_read)

    def take(self, probabilities: NDArray[np.float32]) -> None:
        """Of the whole chunk."""
        self.probabilities, self.phase = probabilities, Phase.DONE

    def result(self) -> WhoSpeaks:
        """Only when it is done."""
        assert self.probabilities is not None
        return WhoSpeaks(
            key=self.key,
            tokens=(),
            logprobs=(),
            num_accepted=0,
            stop=StopReason.END,
            num_passes=1,
            probabilities=self.probabilities,
        )
