"""Our EAGLE3 head and one of transformers' parts on the same random weights: the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear.engine.eagle3.config import LargeModel
from lookhear.engine.eagle3.head import Eagle3Head
from lookhear.engine.models.qwen3 import Qwen3Model
from tests.engine.batches import paged_batch
from tests.engine.eagle3.reference import ReferenceHead, model_states
from tools.random_checkpoints.eagle3 import build_random_eagle3, write_head
from tools.random_checkpoints.qwen3 import TEXT, build_random_qwen3

TOLERANCE = 1e-4
VOCAB = TEXT["vocab_size"]
SHAPES: dict[str, dict[str, Any]] = {
    "eagle": {"says": 90},
    "pickled": {"says": 90, "is_pickled": True},
    "all_tokens": {},
    "named_layers": {"says": 40, "layers": (1, 3, 7)},
    "one_layer": {"layers": (6,)},
    "norms_of_heads": {"says": 40, "qk_norm": True},
    "bias": {"says": 40, "attention_bias": True},
    "norm_before_residual": {"says": 40, "top": {"norm_before_residual": True}},
    "speculators": {"says": 90, "form": "speculators"},
    "speculators_layers": {"form": "speculators", "layers": (0, 2, 5)},
    "norm_of_inputs": {"form": "speculators", "says": 30, "top": {"norm_before_fc": True}},
    "norm_after": {
        "form": "speculators", "says": 30, "top": {"norm_before_residual": False}
    },
    "one_key_head": {"says": 90, "num_key_value_heads": 1, "head_dim": 6},
}  # fmt: skip


class Pair:
    """ours, theirs: heads on the same model, of which transformers' is `model`."""

    def __init__(self, folder: Path, changes: dict[str, Any]) -> None:
        large, own = folder / "large", folder / "head"
        self.model = build_random_qwen3(large, num_hidden_layers=8, seed=2)
        tensors = build_random_eagle3(own, large, seed=1, **changes)
        self.decoder = Qwen3Model.from_folder(large)
        named = LargeModel(large, ("Qwen3ForCausalLM",), self.decoder.dims, VOCAB)
        self.ours = Eagle3Head.from_folder(own, named, self.decoder)
        embeddings = self.model.model.embed_tokens.weight.detach()
        self.theirs = ReferenceHead(own, tensors, embeddings, embeddings)
        self.decoder.tap = self.ours.tap


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp(request.param), SHAPES[request.param])


def drawn(count: int, seed: int) -> Tensor:
    return torch.randint(VOCAB, (count,), generator=torch.Generator().manual_seed(seed))


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE


def their_features(pair: Pair, tokens: Tensor) -> Tensor:
    states = model_states(pair.model, tokens.tolist(), pair.ours.tap.layers)
    with torch.no_grad():
        return pair.theirs.features(states)


def test_the_model_keeps_features_for_it(pair: Pair) -> None:
    """In two steps of two rows, padded, wherever their blocks are."""
    tokens = {1: drawn(40, 1), 2: drawn(25, 2)}
    tables = {1: [5, 2, 9], 2: [7, 1]}
    cache = pair.decoder.new_cache(12)
    assert cache.features is not None
    cache.features.fill_(torch.nan)
    for past, counts in (({1: 0, 2: 0}, {1: 23, 2: 9}), ({1: 23, 2: 9}, {1: 17, 2: 16})):
        packed = [tokens[row][past[row] : past[row] + counts[row]] for row in (1, 2)]
        batch = paged_batch(
            [tables[1], tables[2]], [*past.values()], [*counts.values()], num_tokens=48
        )
        inputs = torch.cat([*packed, drawn(48 - sum(counts.values()), 3)])
        pair.decoder.forward(inputs, batch, cache)
    for row, table in tables.items():
        slots = [table[place // 16] * 16 + place % 16 for place in range(len(tokens[row]))]
        close(cache.features[slots], their_features(pair, tokens[row]))


@pytest.mark.parametrize("cut", [1, 16, 29, 37])
def test_logits_and_next_features_agree_whole_and_in_pieces(pair: Pair, cut: int) -> None:
    tokens = drawn(38, 5)
    features = their_features(pair, tokens)[:-1]
    cache = pair.ours.new_cache(8)
    cache.layers[0].fill_(torch.nan)
    parts = []
    for first, last in ((0, cut), (cut, 37)):
        if first < last:
            batch = paged_batch([[6, 3, 4]], [first], [last - first])
            part = pair.ours.forward(
                tokens[first + 1 : last + 1], features[first:last], batch, cache
            )
            parts.append(part)
    ours = torch.cat(parts)
    with torch.no_grad():
        theirs = pair.theirs(tokens[1:], features)
        values = pair.theirs.logits(theirs)
    close(ours, theirs)
    logits = pair.ours.logits(ours)
    assert logits.shape == (37, VOCAB)
    close(logits[:, pair.theirs.said], values)
    assert torch.equal(pair.theirs.said[values.argmax(-1)], logits.argmax(-1))
    silent = torch.ones(VOCAB, dtype=torch.bool)
    silent[pair.theirs.said] = False
    assert (logits[:, silent] == -torch.inf).all()


def test_it_goes_on_with_its_own_features(pair: Pair) -> None:
    """Token by token behind a context, as the reference that reads all of it each time."""
    tokens = drawn(21, 8).tolist()
    features = their_features(pair, torch.tensor(tokens))[:-1]
    expected = pair.theirs.chain(tokens, features, 6)
    cache = pair.ours.new_cache(4)
    batch = paged_batch([[2, 1]], [0], [20])
    hidden = pair.ours.forward(torch.tensor(tokens[1:]), features, batch, cache)[-1:]
    drafted = [int(pair.ours.logits(hidden).argmax())]
    while len(drafted) < 6:
        batch = paged_batch([[2, 1]], [19 + len(drafted)], [1])
        hidden = pair.ours.forward(torch.tensor(drafted[-1:]), hidden, batch, cache)
        drafted.append(int(pair.ours.logits(hidden).argmax()))
    assert drafted == expected


@torch.no_grad()
def test_the_reference_looks_at_all_drafts_at_once_as_at_each(pair: Pair) -> None:
    tokens = drawn(21, 8).tolist()
    features = their_features(pair, torch.tensor(tokens))
    contexts = [tokens, tokens[:5], tokens[:2]]
    known = [features[: len(context) - 1] for context in contexts]
    lengths = (2, 6, 4)
    drafts = [pair.theirs.chain(*of) for of in zip(contexts, known, lengths, strict=True)]
    assert pair.theirs.agrees(contexts, known, drafts)
    for row, length in enumerate(lengths):
        for place in (0, length - 1):
            wrong = [list(draft) for draft in drafts]
            wrong[row][place] = (wrong[row][place] + 1) % VOCAB
            assert not pair.theirs.agrees(contexts, known, wrong)


def test_what_a_file_repeats_of_the_model_is_kept_once(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "a", {})
    decoder, own = pair.decoder, tmp_path / "b"
    assert pair.ours.weights.tokens is decoder.weights.tokens
    tensors = build_random_eagle3(own, tmp_path / "a" / "large")
    tensors["embed_tokens.weight"] = decoder.weights.tokens.clone()
    del tensors["lm_head.weight"]
    write_head(own, json.loads((own / "config.json").read_text()), tensors)
    head = Eagle3Head.from_folder(own, LargeModel(tmp_path, (), decoder.dims, VOCAB), decoder)
    assert head.weights.tokens is decoder.weights.tokens
    assert head.weights.logits is decoder.weights.head
