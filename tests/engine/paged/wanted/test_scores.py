"""How probable a prompt's tokens are: as probable as they were when they were written, whatever is
cached, however the prompt is cut, whoever else is read, from graphs as without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Priority
from lookhear.engine.device.acceleration import CPU, Acceleration
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.paged.wanted import scores
from lookhear.engine.paged.wanted.prompts import Scored
from lookhear.engine.sampling.params import SamplingParams
from tests.engine.recording import RecordedMemory, Recorder, make_opaque
from tests.engine.runners import MODELS, finish, paged_runner

MOST = 3


@pytest.fixture(scope="module")
def model(served_asr: Path) -> Qwen3AsrModel:
    return Qwen3AsrModel.from_folder(served_asr)


def prompt(key: str, tokens: tuple[int, ...] | int, **changes: Any) -> PagedRequest:
    """tokens: or how many, drawn."""
    if isinstance(tokens, int):
        tokens = tuple(np.random.default_rng(tokens).integers(0, 150, tokens).tolist())
    fields: dict[str, Any] = {"max_new_tokens": 6, "loop_room": None, **changes}
    return PagedRequest(key, Priority.LIVE, tokens, **fields)


def read(runner: PagedRunner, requests: list[PagedRequest], chunk: int) -> list[PagedSequence]:
    sequences = [runner.place(request) for request in requests]
    finish(runner, sequences, chunk)
    return sequences


def assert_alike(found: list[Scored], expected: list[Scored], most: int) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert len(one.top) >= most
        for (_, mine), (_, theirs) in zip(one.top[:most], other.top, strict=False):
            assert mine == pytest.approx(theirs, abs=1e-4)


def test_a_text_is_as_probable_as_it_was_when_it_was_written(model: Qwen3AsrModel) -> None:
    runner = paged_runner(model)
    asked = prompt("r", 20, sampling=SamplingParams(logprobs=MOST))
    [written] = read(runner, [asked], 1000)
    answer = written.generated
    assert len(answer.tokens) == 6
    [whole] = read(runner, [prompt("s", (*asked.tokens, *answer.tokens), scored=MOST)], 1000)
    assert len(whole.scores) == len(asked.tokens) + len(answer.tokens) - 1
    told = whole.scores[len(asked.tokens) - 1 :]
    for i, score in enumerate(told):
        assert score.logprob == pytest.approx(answer.logprobs[i], abs=1e-4)
        assert [token for token, _ in score.top] == [token for token, _ in answer.tops[i]]
        assert score.top[0][0] == answer.tokens[i]
        assert score.top[0][1] == pytest.approx(score.logprob, abs=1e-6)


@pytest.fixture(scope="module", params=["eager", "graphs", "overlapping"])
def runner(model: Qwen3AsrModel, request: pytest.FixtureRequest) -> Iterator[PagedRunner]:
    kinds: dict[str, Acceleration] = {
        "eager": CPU,
        "graphs": Acceleration(False, RecordedMemory(), Recorder()),
        "overlapping": Acceleration(overlaps=True),
    }
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "graphs":
            make_opaque(patch, *MODELS)
        yield paged_runner(model, kinds[request.param])


@settings(max_examples=10, deadline=None)
@given(chunk=st.integers(1, 60), sizes=st.lists(st.integers(1, 70), min_size=1, max_size=5))
def test_chunks_batch_mates_and_graphs_change_nothing(
    model: Qwen3AsrModel, runner: PagedRunner, chunk: int, sizes: list[int]
) -> None:
    asked = [prompt(f"r{i}", size, scored=i % 2 * MOST) for i, size in enumerate(sizes)]
    others = [prompt(f"o{i}", size + 3) for i, size in enumerate(sizes[:1])]
    together = read(runner, [*asked, *others], chunk)
    for one, sequence in zip(asked, together, strict=False):
        [alone] = read(paged_runner(model), [prompt("a", one.tokens, scored=MOST)], 1000)
        assert len(alone.scores) == len(one.tokens) - 1
        assert_alike(sequence.scores, alone.scores, one.scored or 0)
        assert sequence.generated.tokens == alone.generated.tokens
    assert not together[-1].scores  # nobody asked


def test_what_is_cached_is_read_again(model: Qwen3AsrModel) -> None:
    runner = paged_runner(model)
    [first] = read(runner, [prompt("a", 60)], 1000)
    [second] = read(runner, [prompt("b", 60, scored=0)], 1000)
    [third] = read(runner, [prompt("c", 60)], 1000)
    assert len(second.scores) == 59 and second.num_cached == 0
    assert third.num_cached > 0 and third.generated.tokens == first.generated.tokens


@pytest.mark.parametrize("chunk", [1, 7, 50, 1000])
def test_numbers_are_those_of_torch(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "CHUNK", chunk)
    torch.manual_seed(0)
    head, hidden, tokens = torch.randn(8, 40), torch.randn(50, 8), torch.randint(0, 40, (50,))

    def logits(states: torch.Tensor) -> torch.Tensor:
        assert len(states) <= chunk
        return states @ head

    found = scores.Scores(logits, hidden, tokens, MOST).read()
    expected = torch.log_softmax(hidden @ head, -1)
    assert len(found) == 50
    for score, row, token in zip(found, expected, tokens.tolist(), strict=True):
        best = row.topk(MOST)
        assert score.logprob == pytest.approx(row[token].item(), abs=1e-5)
        assert [token for token, _ in score.top] == best.indices.tolist()
        assert [value for _, value in score.top] == pytest.approx(best.values.tolist(), abs=1e-5)
