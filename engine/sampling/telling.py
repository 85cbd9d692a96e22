"""How likely tokens are where it matters, on its way from the device to the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.device.staging import Readback, to_device
from lookhear.engine.sampling.expected import Told


class Telling:
    """Of rows of logits. scores: [n, vocab], under all rules. tokens: [n], chosen there. firsts: of
    each row the tokens with which words begin that are expected there. others: whether the
    likeliest token but the chosen one is wanted."""

    def __init__(
        self,
        scores: Tensor,
        tokens: Tensor,
        firsts: Sequence[Sequence[int]],
        *,
        others: bool = False,
    ) -> None:
        self._counts = [len(each) for each in firsts]
        most = max(self._counts)
        padded = np.array([[*each, *[0] * (most - len(each))] for each in firsts], np.int64)
        index = to_device(padded.reshape(len(firsts), most), torch.int64, scores.device)
        values, likeliest = scores.topk(2 if others else 1)
        total = scores.logsumexp(-1, keepdim=True)
        own = scores.gather(1, tokens[:, None]) - total
        columns = [own, values[:, :1] - total]
        if others:
            is_second = likeliest[:, :1] == tokens[:, None]
            columns.append(torch.where(is_second, likeliest[:, 1:], likeliest[:, :1]))
            columns.append(torch.where(is_second, values[:, 1:], values[:, :1]) - total)
        told = torch.cat([*columns, scores.gather(1, index) - total], dim=1)
        self._others = others
        self._values = Readback(told.double())

    def read(self) -> list[Told]:
        """Waits for it. Of each row."""
        values = self._values.array().tolist()
        if self._others:
            return [
                Told(own, best, firsts[:count], int(other), logprob)
                for (own, best, other, logprob, *firsts), count in zip(
                    values, self._counts, strict=True
                )
            ]
        return [
            Told(own, best, firsts[:count])
            for (own, best, *firsts), count in zip(values, self._counts, strict=True)
        ]


def with_forced(tokens: Tensor, forced: Sequence[int | None]) -> Tensor:
    """The tokens [n], those in their places that are forced; None: none is."""
    places = [(n, token) for n, token in enumerate(forced) if token is not None]
    if not places:
        return tokens
    index = to_device([n for n, _ in places], torch.int64, tokens.device)
    theirs = to_device([token for _, token in places], torch.int64, tokens.device)
    return tokens.index_copy(0, index, theirs)
