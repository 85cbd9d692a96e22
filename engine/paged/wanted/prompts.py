"""What a request may want of its prompt, besides an answer or instead of one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import Result


class PooledTokens(Enum):
    """Of which of a prompt's tokens the last hidden states are wanted, instead of an answer."""

    NONE = 0  # an answer is
    LAST = 1
    ALL = 2  # then nothing of the prompt is taken from the cache: that has keys and values only


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledResult(Result):
    """hidden: [1 or prompt tokens, width] float32, what the model makes of them. num_cached: prompt
    tokens that were found in the cache."""

    hidden: NDArray[np.float32]
    num_cached: int


class Scored(NamedTuple):
    """A token's log probability (natural), and the likeliest ones in its place: (token, log
    probability), best first."""

    logprob: float
    top: list[tuple[int, float]]
