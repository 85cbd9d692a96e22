"""Which tokens may come next."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.rules import MAX_INITIAL_TIMESTAMP, Rule, TokenRules
from tools.random_checkpoints.whisper import VOCABULARY, build_random_whisper


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> WhisperTokenizer:
    folder = build_random_whisper(tmp_path_factory.mktemp("w"), layers=1, width=16, heads=1)
    return WhisperTokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def rules(tokenizer: WhisperTokenizer) -> TokenRules:
    return TokenRules(tokenizer, VOCABULARY, torch.device("cpu"))


def logits(seed: int) -> torch.Tensor:
    return torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 5


def test_text_is_text_or_the_end(rules: TokenRules, tokenizer: WhisperTokenizer) -> None:
    for seed in range(20):
        assert int(rules.masked(logits(seed)[None], [Rule.FIRST])[0].argmax()) <= tokenizer.eot
    loud = logits(0)
    loud[tokenizer.eot] = 100.0
    assert int(rules.masked(loud[None], [Rule.FIRST])[0].argmax()) == tokenizer.eot
    assert torch.equal(loud, loud.clone()), "the rules do not write to the logits"


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_timestamps_come_in_pairs_and_never_go_back(
    rules: TokenRules, tokenizer: WhisperTokenizer, seed: int
) -> None:
    history: tuple[int, ...] = ()
    first = tokenizer.timestamp_begin
    for step in range(12):
        scores = logits(seed * 31 + step)
        scores[first:] += 6.0 * (step % 3)  # sometimes the model is fond of timestamps
        token = int(rules.timestamps(scores[None], [history])[0].argmax())
        if step == 0:
            assert first <= token <= first + MAX_INITIAL_TIMESTAMP
        history = (*history, token)
        if token == tokenizer.eot:
            break
    stamps = [t for t in history if t >= first]
    assert stamps == sorted(stamps)
    for i in range(len(history) - 2):
        assert not all(t >= first for t in history[i : i + 3]), "three timestamps in a row"


@pytest.mark.parametrize("kinds", [[a, b] for a in Rule for b in Rule])
def test_many_rows_at_once_are_masked_as_each_alone(rules: TokenRules, kinds: list[Rule]) -> None:
    rows = torch.stack([logits(seed) for seed in range(2)])
    before = rows.clone()
    alone = [rules.masked(row[None], [kind]) for row, kind in zip(rows, kinds, strict=True)]
    assert torch.equal(rules.masked(rows, kinds), torch.cat(alone))
    assert torch.equal(rows, before)
    assert torch.equal(rules.masked(rows[:1], [Rule.PLAIN]), rows[:1])


@settings(max_examples=20, deadline=None)
@given(
    histories=st.lists(
        st.lists(st.integers(0, 9) | st.integers(-30, -1), max_size=6), min_size=1, max_size=5
    )
)
def test_timestamps_of_many_rows_are_those_of_each_alone(
    rules: TokenRules, tokenizer: WhisperTokenizer, histories: list[list[int]]
) -> None:
    """Negative ones: timestamps from the end of what there are."""
    said = [tuple(t if t >= 0 else VOCABULARY + t for t in history) for history in histories]
    rows = torch.stack([logits(seed) for seed in range(len(said))])
    before = rows.clone()
    alone = [rules.timestamps(row[None], [h]) for row, h in zip(rows, said, strict=True)]
    assert torch.equal(rules.timestamps(rows, said), torch.cat(alone))
    assert torch.equal(rows, before)
