"""A turn of one session, whoever listens to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import Event


class Turn(ABC):
    """An owner (see `Owner`) that is fed as somebody speaks. num_samples: received so far.
    voiced_until: position up to which there is speech. has_ended: whether no more audio may come.
    is_done: whether the turn was completed, or has failed."""

    num_samples: int
    voiced_until: int
    has_ended: bool
    is_done: bool

    @abstractmethod
    def append(self, samples: NDArray[np.float32], voiced_until: int) -> None:
        """Add samples (mono, 16 kHz). voiced_until: as in `AppendAudio`."""

    def end(self) -> None:
        """No more audio will come."""
        self.has_ended = True

    @abstractmethod
    def wants_request(self) -> bool:
        """See `Owner`, as all below."""

    @property
    @abstractmethod
    def is_urgent(self) -> bool:
        """Whether somebody has finished speaking."""

    @abstractmethod
    def cost(self) -> Cost:
        """Of the next request."""

    @abstractmethod
    def make_request(self) -> Any:
        """About what is to be heard now."""

    @abstractmethod
    def absorb(self, result: Result) -> list[Event]:
        """What a request has heard."""

    @abstractmethod
    def settle(self) -> list[Event]:
        """What needs no request."""

    @abstractmethod
    def fail(self, code: str, message: str) -> list[Event]:
        """The turn is over."""
