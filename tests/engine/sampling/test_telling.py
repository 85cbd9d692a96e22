"""What is told of rows: the model's own log probabilities, each row's own tokens."""

from __future__ import annotations

import torch

from lookhear.engine.sampling.telling import Telling, with_forced


def test_each_row_is_told_its_own() -> None:
    scores = torch.randn(3, 11, generator=torch.Generator().manual_seed(0))
    logs = scores.log_softmax(-1)
    tokens = torch.tensor([4, 0, 10])
    firsts = [(1, 2, 10), (), (7,)]
    for n, told in enumerate(Telling(scores, tokens, firsts).read()):
        assert told.own == logs[n, tokens[n]].item()
        assert told.best == logs[n].max().item()
        assert list(told.firsts) == [logs[n, first].item() for first in firsts[n]]


def test_forced_tokens_take_the_places_of_others() -> None:
    chosen = torch.tensor([5, 6, 7])
    assert with_forced(chosen, [None, 1, None]).tolist() == [5, 1, 7]
    assert with_forced(chosen, [None] * 3) is chosen
    assert chosen.tolist() == [5, 6, 7], "others may read them"
