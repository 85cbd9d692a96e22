"""How probable each token of a prompt is behind those before it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lookhear.engine.device.staging import Readback
from lookhear.engine.paged.wanted.prompts import Scored
from lookhear.kernels.sampling import token_logprobs, top_logprobs

CHUNK = 128  # tokens whose logits are there at once: of a vocabulary of 152,000 these are 78 MB


class Scores:
    """Of tokens of a step, on their way to the host.

    logits: of hidden states. hidden: [n, width], of what stands before each of them. tokens: [n],
    which they are. most: of the likeliest ones of each, so many.
    """

    def __init__(
        self, logits: Callable[[Tensor], Tensor], hidden: Tensor, tokens: Tensor, most: int
    ) -> None:
        rows: list[Tensor] = []
        for first in range(0, len(hidden), CHUNK):
            values = logits(hidden[first : first + CHUNK])
            parts = [token_logprobs(values, tokens[first : first + CHUNK])[:, None]]
            if most:
                parts += top_logprobs(values, min(most, values.shape[1]))
            rows.append(torch.cat([part.double() for part in parts], 1))
        self._numbers = Readback(torch.cat(rows))

    def read(self) -> list[Scored]:
        """One per token. Waits until they are here."""
        found: list[Scored] = []
        for logprob, *rest in self._numbers.rows():
            count = len(rest) // 2
            pairs = zip(map(int, rest[:count]), rest[count:], strict=True)
            found.append(Scored(logprob, [pair for pair in pairs if pair[1] > -math.inf]))
        return found
