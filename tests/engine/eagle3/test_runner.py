"""A head drafts from true features, whoever wrote them and whenever; answers are as without it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Phase
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.paged import draft_model
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.paged.wanted.prompts import PooledTokens
from lookhear.engine.sampling.params import SamplingParams
from tests.engine.eagle3.heads import Headed, build_headed, request
from tests.engine.recording import RecordedMemory, Recorder, make_opaque
from tests.engine.runners import MODELS, finish


@pytest.fixture(scope="module")
def headed(tmp_path_factory: pytest.TempPathFactory) -> Headed:
    return build_headed(tmp_path_factory.mktemp("headed"))


def plain(headed: Headed, asked: PagedRequest) -> tuple[int, ...]:
    runner = headed.runner(is_drafted=False)
    return finish(runner, [runner.place(asked)])[asked.key].tokens


def test_alone_it_guesses_what_the_reference_does(headed: Headed) -> None:
    asked = request("r")
    runner = headed.runner()
    found = finish(runner, [runner.place(asked)])["r"]
    assert found.tokens == plain(headed, asked)
    assert headed.check_drafts("r") > 50
    assert runner.stats()["draft_passes"] > 50


def test_batched_with_others_it_guesses_as_alone(headed: Headed) -> None:
    asked = [request(f"r{i}", 5 + 17 * i, i) for i in range(5)]
    runner = headed.runner()
    together = finish(runner, [runner.place(one) for one in asked])
    for one in asked:
        assert together[one.key].tokens == plain(headed, one)
        assert headed.check_drafts(one.key)


@settings(max_examples=6, deadline=None)
@given(chunk=st.integers(2, 40), count=st.integers(2, 70), seed=st.integers(0, 99))
def test_prompts_in_chunks_cut_anywhere(headed: Headed, chunk: int, count: int, seed: int) -> None:
    asked = request("r", count, seed, max_new_tokens=8)
    runner = headed.runner()
    found = finish(runner, [runner.place(asked)], chunk)["r"]
    assert found.tokens == plain(headed, asked)
    assert headed.check_drafts("r")


def test_long_contexts_are_read_in_parts(headed: Headed, monkeypatch: pytest.MonkeyPatch) -> None:
    """While others draft already."""
    monkeypatch.setattr(draft_model, "CHUNK", 9)
    asked = [request(f"r{i}", 3 + 40 * i, i, max_new_tokens=30) for i in range(3)]
    runner = headed.runner()
    together = finish(runner, [runner.place(one) for one in asked])
    for one in asked:
        assert together[one.key].tokens == plain(headed, one)
        assert headed.check_drafts(one.key)


def test_a_single_token_is_context_enough(headed: Headed) -> None:
    asked = request("r", 1)
    runner = headed.runner()
    assert finish(runner, [runner.place(asked)])["r"].tokens == plain(headed, asked)
    assert headed.check_drafts("r")


def test_what_was_found_in_the_cache_has_features_and_is_not_read_again(headed: Headed) -> None:
    first = request("a", 70, 5)
    runner = headed.runner()
    finish(runner, [runner.place(first)])
    read = runner.stats()["draft_tokens_read"]
    second = request("b", tokens=(*first.tokens[:60], *request("x", 12, 6).tokens))
    found = finish(runner, [runner.place(second)])["b"]
    assert runner.num_found == 48
    assert found.tokens == plain(headed, second)
    assert headed.check_drafts("b")
    again = headed.runner()
    finish(again, [again.place(second)])
    alone = again.stats()["draft_tokens_read"]
    assert runner.stats()["draft_tokens_read"] - read == alone - 48


def test_features_are_there_where_the_head_has_read_nothing(headed: Headed) -> None:
    """Of a prefix that a request for vectors wrote, which is drafted for by nobody."""
    tokens = request("x", 70, 7).tokens
    runner = headed.runner()
    pooled = request("v", tokens=tokens, max_new_tokens=0, pooled=PooledTokens.LAST)
    finish(runner, [runner.place(pooled)])
    asked = request("r", tokens=tokens)
    found = finish(runner, [runner.place(asked)])["r"]
    assert runner.num_found == 64
    assert found.tokens == plain(headed, asked)
    assert headed.check_drafts("r")


def test_blocks_that_were_somebody_elses_are_read_anew(headed: Headed) -> None:
    """With room for one, also of requests for vectors; one is given up in the midst."""
    runner = headed.runner(num_blocks=8)
    for seed in range(6):
        asked = request(f"r{seed}", 60, seed)
        sequence = runner.place(asked)
        for _ in range(2):
            demand = sequence.demand()
            runner.launch([(sequence, demand.known + demand.draft)])()
        runner.release(sequence)
        if seed % 2:
            pooled = request(f"v{seed}", 60, 50 + seed, max_new_tokens=0, pooled=PooledTokens.LAST)
            finish(runner, [runner.place(pooled)])
            asked = request(f"r{seed}", 60, 50 + seed)
        headed.drafts.pop(asked.key, None)
        found = finish(runner, [runner.place(asked)])[asked.key]
        assert found.tokens == plain(headed, asked)
        assert headed.check_drafts(asked.key)


def test_who_waits_for_a_prefix_is_drafted_for_behind_it(headed: Headed) -> None:
    tokens = request("x", 50, 9).tokens
    runner = headed.runner()
    asked = [request(f"r{i}", tokens=(*tokens, i)) for i in range(3)]
    together = finish(runner, [runner.place(one) for one in asked], 20)
    for one in asked:
        assert together[one.key].tokens == plain(headed, one)
        assert headed.check_drafts(one.key)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_what_is_drawn_is_the_same(headed: Headed, temperature: float) -> None:
    asked = [
        request(f"r{i}", 20 + i, i, sampling=SamplingParams(temperature=temperature, seed=i))
        for i in range(4)
    ]
    runner = headed.runner()
    together = finish(runner, [runner.place(one) for one in asked])
    for one in asked:
        assert together[one.key].tokens == plain(headed, one)
        assert headed.drafts[one.key]


def test_captured_passes_write_features_too(
    headed: Headed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replayed on a recorder that poisons what was not copied in."""
    make_opaque(monkeypatch, *MODELS)
    asked = [request(f"r{i}", 5 + 17 * i, i) for i in range(5)]
    runner = headed.runner(Acceleration(False, RecordedMemory(), Recorder(0)))
    together = finish(runner, [runner.place(one) for one in asked], 40)
    stats = runner.passes.graphs.stats()
    assert stats["graph_passes"] > 0 and stats["eager_passes"] == 0
    for one in asked:
        assert together[one.key].tokens == plain(headed, one)
        assert headed.check_drafts(one.key)


def test_a_guess_never_outgrows_what_was_reserved(headed: Headed) -> None:
    """Up to the last place of the last block."""
    for count in (15, 16, 17, 31):
        for most in (4, 16, 17):
            asked = request("r", count, count, max_new_tokens=most)
            runner = headed.runner()
            sequence = runner.place(asked)
            assert finish(runner, [sequence])["r"].tokens == plain(headed, asked)
            assert sequence.phase is Phase.DONE
