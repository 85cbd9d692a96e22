"""A head that was trained for some seconds is right far more often than one that was not."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from lookhear.engine.paged.runner import PagedRunner
from tests.engine.eagle3.heads import Headed, build_headed, request
from tests.engine.eagle3.reference import model_states
from tests.engine.runners import finish
from tools.random_checkpoints.eagle3 import write_head

STEPS, TOGETHER, AHEAD = 60, 6, 3


def written(headed: Headed, seeds: range) -> list[list[int]]:
    """Prompts with what the model goes on with, greedily."""
    runner = headed.runner(is_drafted=False)
    found = []
    for first in range(seeds.start, seeds.stop, TOGETHER):
        asked = [
            request(f"r{seed}", 6, seed, max_new_tokens=40)
            for seed in range(first, min(first + TOGETHER, seeds.stop))
        ]
        results = finish(runner, [runner.place(one) for one in asked])
        found += [[*one.tokens, *results[one.key].tokens] for one in asked]
    return found


def loss(headed: Headed, tokens: list[int], states: Tensor) -> Tensor:
    """Of the next token, and of those that are foretold from what the head made itself."""
    head, total = headed.reference, torch.zeros(())
    features, said = head.fc(states[:-2]), torch.tensor(tokens)
    for ahead in range(AHEAD):
        features = head(said[1 + ahead : 1 + ahead + len(features)], features)
        total = total + functional.cross_entropy(head.logits(features), said[2 + ahead :])
        features = features[:-1]
    return total


def train(headed: Headed, texts: list[list[int]]) -> None:
    """Writes the head anew."""
    states = [torch.cat(model_states(headed.theirs, text, (2, 4, 5)), -1) for text in texts]
    head = headed.reference
    optimizer = torch.optim.AdamW(head.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 - step / STEPS)
        chosen = torch.randint(len(texts), (TOGETHER,), generator=generator).tolist()
        optimizer.zero_grad()
        error = torch.stack([loss(headed, texts[i], states[i]) for i in chosen]).mean()
        error.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    tensors = {name: tensor.detach().clone() for name, tensor in head.placed().items()}
    config = json.loads((headed.folder / "config.json").read_text())
    write_head(headed.folder, config, tensors)


def rate(runner: PagedRunner, seeds: range) -> float:
    """Tokens for each pass."""
    tokens = passes = 0
    for seed in seeds:
        asked = request("r", 6, seed, max_new_tokens=40)
        result = finish(runner, [runner.place(asked)])["r"]
        tokens += len(result.tokens)
        passes += result.num_passes
    return tokens / passes


def test_a_trained_head_saves_passes(tmp_path: Path) -> None:
    """Of a model in which only a part of the first layer adds anything: it says simple things."""
    torch.manual_seed(0)
    headed = build_headed(tmp_path, says=None, silent_from=1)
    unseen = range(1000, 1006)
    before = rate(headed.runner(), unseen[:2])  # of few tokens: each is a round of wrong guesses
    train(headed, written(headed, range(24)))
    after = rate(headed.runner(), unseen)
    assert before < 1.3
    assert after > 2.0
