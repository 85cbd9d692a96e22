"""Requests that are read whole, in one pass, and give numbers instead of tokens. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Demand, Phase, Result, StopReason


class Asked(Protocol):
    """What is read. key: of its owner. size: tokens of a step's budget."""

    @property
    def key(self) -> str:
        """See `Asked`."""

    @property
    def size(self) -> int:
        """See `Asked`."""


A = TypeVar("A", bound=Asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsResult(Result):
    """rows: [n, of each], what was made of it."""

    rows: NDArray[np.float32]


@dataclass(slots=True)
class SinglePass(Generic[A]):
    """One that is to be read; satisfies `Running`. is_read: it is on its way."""

    request: A
    phase: Phase = Phase.PREFILL
    is_read: bool = False
    num_drafted: int = 0
    rows: NDArray[np.float32] | None = None

    @property
    def key(self) -> str:
        """Its owner's."""
        return self.request.key

    def demand(self) -> Demand:
        """All of it at once."""
        return Demand(self.request.size, 0, False, self.is_read)

    def take(self, rows: NDArray[np.float32]) -> None:
        """Of all of it."""
        self.rows, self.phase = rows, Phase.DONE

    def result(self) -> RowsResult:
        """Only when it is done."""
        assert self.rows is not None
        return RowsResult(
            key=self.key,
            tokens=(),
            logprobs=(),
            num_accepted=0,
            stop=StopReason.END,
            num_passes=1,
            rows=self.rows,
        )
