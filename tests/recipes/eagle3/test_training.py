"""The head as it is trained computes what the engine's does, and learns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lookhear.engine.eagle3.config import LargeModel
from lookhear.engine.eagle3.head import Eagle3Head
from tests.engine.batches import paged_batch
from tools.recipes.eagle3.corpus import LAYERS, Episode, Speaker, episodes
from tools.recipes.eagle3.evaluate import measure
from tools.recipes.eagle3.network import HeadNetwork, Pairs
from tools.recipes.eagle3.train import FOLDER, loss_of, new_head, train, write

VL = ("Qwen3VLForConditionalGeneration",)


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    torch.set_num_threads(1)
    return Speaker(FOLDER)


@pytest.fixture(scope="module")
def corpus(speaker: Speaker) -> list[Episode]:
    return list(episodes(speaker, ["chat", "colour"], range(4)))


def loaded(speaker: Speaker, head: HeadNetwork, folder: Path) -> Eagle3Head:
    write(head, folder)
    decoder = speaker.model.decoder
    return Eagle3Head.from_folder(
        folder, LargeModel(FOLDER, VL, decoder.dims, decoder.vocab), decoder
    )


def test_an_episode_is_what_the_model_says(speaker: Speaker, corpus: list[Episode]) -> None:
    assert len(corpus) == 8
    for episode in corpus:
        count = len(episode.tokens)
        assert episode.states.shape == (count - 1, len(LAYERS) * speaker.width)
        assert 2 < episode.first < count
        assert int(episode.tokens[-1]) in speaker.model.end_tokens


@torch.no_grad()
def test_it_computes_what_the_engine_does(
    speaker: Speaker, corpus: list[Episode], tmp_path: Path
) -> None:
    """Each place as if a draft began there, three tokens deep."""
    torch.manual_seed(1)
    theirs = new_head(speaker)
    for parameter in theirs.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.05)
    ours = loaded(speaker, theirs, tmp_path)
    assert ours.tap.layers == LAYERS
    episode = corpus[-1]
    tokens, count = episode.tokens, len(episode.tokens)
    features = theirs.fc(episode.states)
    true = theirs.pairs(theirs.inputs(tokens[1:], features), torch.arange(count - 1))
    places = torch.arange(count - 2)
    guessed: list[Pairs] = []
    found = []
    hidden = features[places]
    for _ in range(3):
        hidden, mine = theirs.step(tokens[places + 1], hidden, places, true, guessed)
        found.append(hidden)
        guessed.append(mine)
        places, hidden = places[:-1] + 1, hidden[:-1]
    table = list(range(1, 2 + count // 16))
    for begin in range(0, count - 4, 5):
        cache = ours.new_cache(len(table) + 1)
        batch = paged_batch([table], [0], [begin + 1])
        part = ours.forward(tokens[1 : begin + 2], features[: begin + 1], batch, cache)[-1:]
        for depth in range(3):
            torch.testing.assert_close(part[0], found[depth][begin], rtol=1e-4, atol=1e-4)
            logits = theirs.logits(found[depth][begin : begin + 1])
            torch.testing.assert_close(ours.logits(part), logits, rtol=1e-4, atol=1e-3)
            place = begin + depth + 1
            batch = paged_batch([table], [place], [1])
            part = ours.forward(tokens[place + 1 : place + 2], part, batch, cache)


def test_it_learns_what_it_is_shown(
    speaker: Speaker, corpus: list[Episode], tmp_path: Path
) -> None:
    """Some answers, in a few steps; and answers stay the model's."""
    torch.manual_seed(0)
    head = new_head(speaker)
    with torch.no_grad():
        before = sum(float(loss_of(head, episode)) for episode in corpus)
    train(head, corpus, lambda step: step / 32, rate=2e-3, seed=0)
    with torch.no_grad():
        after = sum(float(loss_of(head, episode)) for episode in corpus)
    assert after < before / 2
    write(head, tmp_path)
    worth = measure(speaker, tmp_path, "chat", 4)
    assert worth.same
    assert worth.tokens / worth.passes > 1.5
