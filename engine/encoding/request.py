"""One medium that is encoded for an engine elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Demand, Phase, Result, StopReason
from lookhear.engine.paged.request import Medium


@dataclass(frozen=True, slots=True)
class EncodingRequest:
    """key: of its owner."""

    key: str
    medium: Medium
    draft: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded(Result):
    """rows: see `MediumEncoded`."""

    rows: NDArray[np.float32]


@dataclass(slots=True)
class EncodingSequence:
    """A medium that is to be encoded; satisfies `Running`. is_read: it is on its way."""

    request: EncodingRequest
    phase: Phase = Phase.PREFILL
    is_read: bool = False
    num_drafted: int = 0
    rows: NDArray[np.float32] | None = field(default=None)

    @property
    def key(self) -> str:
        """Its owner's."""
        return self.request.key

    def demand(self) -> Demand:
        """All of it at once. Media are bounded by the encoder's budget, not by the decoder's."""
        return Demand(1, 0, False, self.is_read)

    def take(self, rows: NDArray[np.float32]) -> None:
        """Of the whole medium."""
        self.rows, self.phase = rows, Phase.DONE

    def result(self) -> Encoded:
        """Only when it is done."""
        assert self.rows is not None
        return Encoded(
            key=self.key,
            tokens=(),
            logprobs=(),
            num_accepted=0,
            stop=StopReason.END,
            num_passes=1,
            rows=self.rows,
        )
