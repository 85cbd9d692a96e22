"""What is told of rows: the model's own log probabilities, each row's own tokens."""

from __future__ import annotations

import pytest
import torch

from lookhear.engine.sampling.telling import Telling, with_forced


def test_each_row_is_told_its_own() -> None:
    scores = torch.randn(3, 11, generator=torch.Generator().manual_seed(0))
    logs = scores.log_softmax(-1)
    tokens = torch.tensor([4, 0, 10])
    firsts = [(1, 2, 10), (), (7,)]
    for n, told in enumerate(Telling(scores, tokens, firsts).read()):
        assert told.own == pytest.approx(logs[n, tokens[n]].item(), abs=1e-6)
        assert told.best == pytest.approx(logs[n].max().item(), abs=1e-6)
        own = [logs[n, first].item() for first in firsts[n]]
        assert list(told.firsts) == pytest.approx(own, abs=1e-6)
        assert told.other == -1


def test_the_other_choice_is_the_likeliest_but_the_chosen_one() -> None:
    scores = torch.randn(4, 11, generator=torch.Generator().manual_seed(1))
    logs = scores.log_softmax(-1)
    tokens = logs.argmax(-1)
    tokens[2] = logs[2].argmin()
    for n, told in enumerate(Telling(scores, tokens, [()] * 4, others=True).read()):
        logs[n, tokens[n]], own = -torch.inf, logs[n, tokens[n]].item()
        assert told.own == pytest.approx(own, abs=1e-6)
        assert told.other == logs[n].argmax().item()
        assert told.other_logprob == pytest.approx(logs[n].max().item(), abs=1e-6)


def test_forced_tokens_take_the_places_of_others() -> None:
    chosen = torch.tensor([5, 6, 7])
    assert with_forced(chosen, [None, 1, None]).tolist() == [5, 1, 7]
    assert with_forced(chosen, [None] * 3) is chosen
    assert chosen.tolist() == [5, 6, 7], "others may read them"
