"""More of a recording that a transducer is to hear, and what it wrote. Pure: no tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Demand, Phase, Priority, Result, StopReason

PLACE = 0.08  # seconds, of all that are published


@dataclass(frozen=True, slots=True)
class TransducerRequest:
    """key: of its owner, whose requests are carried out in their order; each goes on where the last
    one was, unless it is_first. stretch: see `frames.stretch`, of so many log-mel frames. is_last:
    there will be no more of this recording; before that, frames are of whole chunks. chunk: places
    of each. begin: of the stretch in the recording, in places. place: seconds of one. prompt: in
    which language it is heard; None: as the model has it."""

    key: str
    priority: Priority
    stretch: NDArray[np.float32]
    frames: int
    chunk: int
    is_first: bool
    is_last: bool
    begin: int
    place: float = PLACE
    prompt: int | None = None
    draft: tuple[int, ...] = ()


@dataclass(slots=True)
class TransducerSequence:
    """It, running; satisfies `Running`. cost: places that it takes. is_heard: it is on its way."""

    request: TransducerRequest
    cost: int
    phase: Phase = Phase.PREFILL
    is_heard: bool = False
    num_drafted: int = 0
    _result: Result | None = field(default=None)

    @property
    def key(self) -> str:
        """Its owner's."""
        return self.request.key

    def demand(self) -> Demand:
        """All of it at once."""
        return Demand(max(1, self.cost), 0, divisible=False, waiting=self.is_heard)

    def take(
        self, tokens: Sequence[int], logprobs: Sequence[float], places: Sequence[int], passes: int
    ) -> None:
        """What was written: places, from the first of the request on."""
        at = [(self.request.begin + place) * self.request.place for place in places]
        self._result = Result(
            key=self.key,
            tokens=tuple(tokens),
            logprobs=tuple(logprobs),
            num_accepted=0,
            stop=StopReason.END,
            num_passes=passes,
            token_times=tuple((start, start + self.request.place) for start in at),
        )
        self.phase = Phase.DONE

    def result(self) -> Result:
        """Only when it is done."""
        assert self._result is not None
        return self._result
