"""The paged runner: caching, chunks, batch mates and drafts change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Priority, RequestError, Result
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.request import Medium, PagedRequest
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.sampling.params import SamplingParams
from tests.engine.runners import finish
from tools.random_checkpoints.qwen3 import build_served_qwen3_asr


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Qwen3AsrModel:
    folder = tmp_path_factory.mktemp("asr")
    build_served_qwen3_asr(folder, seed=5)
    return Qwen3AsrModel.from_folder(folder)


def make_runner(model: Qwen3AsrModel, num_blocks: int = 120, **changes: int) -> PagedRunner:
    values: dict[str, Any] = {"max_rows": 6, "max_context": 480, "encoder_bytes": 2**20, **changes}
    runner = PagedRunner(model, num_blocks=num_blocks, **values)
    for layer in runner.cache.layers:  # nothing unwritten may be read
        layer.fill_(torch.nan)
    return runner


def medium(model: Qwen3AsrModel, seed: int, frames: int = 200) -> Medium:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(model.encoder.dims.num_mels, frames)).astype(np.float32)
    return Medium.of(features, model.encoder.dims.num_tokens(frames))


def make_request(
    model: Qwen3AsrModel,
    key: str,
    media: list[Medium],
    *,
    seed: int = 0,
    before: int = 20,
    after: int = 9,
    **changes: object,
) -> PagedRequest:
    """Random text, audio, random text. The text before is the same for equal seeds."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 150, before).tolist()
    places = []
    for item in media:
        places.append((len(tokens), item))
        tokens += [model.audio_token] * item.num_tokens
    tokens += rng.integers(0, 150, after).tolist()
    values: dict[str, object] = {"max_new_tokens": 12, "loop_room": None, **changes}
    return PagedRequest(key, Priority.LIVE, tuple(tokens), tuple(places), **values)  # type: ignore[arg-type]


def alone(model: Qwen3AsrModel, request: PagedRequest) -> Result:
    runner = make_runner(model)
    return finish(runner, [runner.place(request)])[request.key]


def test_batched_with_others_equals_alone(model: Qwen3AsrModel) -> None:
    requests = [
        make_request(model, f"r{i}", [medium(model, i, 40 * i + 30)], seed=i, before=5 * i + 1)
        for i in range(5)
    ]
    runner = make_runner(model)
    together = finish(runner, [runner.place(request) for request in requests])
    for request in requests:
        expected = alone(model, request)
        assert together[request.key].tokens == expected.tokens
        np.testing.assert_allclose(
            together[request.key].logprobs, expected.logprobs, rtol=0, atol=1e-4
        )
    assert len({result.tokens for result in together.values()}) > 1


@settings(max_examples=12, deadline=None)
@given(chunk=st.integers(1, 60), draft=st.lists(st.integers(0, 149), max_size=8))
def test_chunks_cut_anywhere_and_drafts_equal_plain(
    model: Qwen3AsrModel, chunk: int, draft: list[int]
) -> None:
    media = [medium(model, 1), medium(model, 2, 77)]
    plain = alone(model, make_request(model, "r", media))
    right = plain.tokens[: len(draft) // 2]
    runner = make_runner(model)
    drafted = make_request(model, "r", media, draft=(*right, *draft))
    result = finish(runner, [runner.place(drafted)], chunk)["r"]
    assert result.tokens == plain.tokens and result.stop == plain.stop


def test_a_right_draft_needs_one_pass(model: Qwen3AsrModel) -> None:
    request = make_request(model, "r", [medium(model, 3)])
    plain = alone(model, request)
    drafted = alone(model, make_request(model, "r", [medium(model, 3)], draft=plain.tokens))
    assert drafted.tokens == plain.tokens
    assert drafted.num_passes == 1


def test_what_is_cached_is_not_read_again_and_answers_alike(model: Qwen3AsrModel) -> None:
    media = [medium(model, 1), medium(model, 2)]
    request = make_request(model, "r", media)
    runner = make_runner(model)
    first = finish(runner, [runner.place(request)])["r"]
    read = runner.num_read
    second = finish(runner, [runner.place(request)])["r"]
    assert second.tokens == first.tokens
    length = len(request.tokens)
    assert runner.num_read - read == length - (length - 1) // BLOCK_TOKENS * BLOCK_TOKENS
    assert runner.num_found == length - (runner.num_read - read)


def test_same_text_and_other_audio_share_nothing_behind_it(model: Qwen3AsrModel) -> None:
    one = make_request(model, "a", [medium(model, 1)])
    two = make_request(model, "b", [medium(model, 2)])
    assert one.tokens == two.tokens, "the ids are the same"
    expected = alone(model, two)
    runner = make_runner(model)
    finish(runner, [runner.place(one)])
    sequence = runner.place(two)
    assert sequence.num_cached == 20 // BLOCK_TOKENS * BLOCK_TOKENS
    assert finish(runner, [sequence])["b"].tokens == expected.tokens


def test_tenants_share_nothing(model: Qwen3AsrModel) -> None:
    runner = make_runner(model)
    finish(runner, [runner.place(make_request(model, "a", [medium(model, 1)], salt=b"x"))])
    sequence = runner.place(make_request(model, "b", [medium(model, 1)], salt=b"y"))
    assert sequence.num_cached == 0
    finish(runner, [sequence])


def test_a_prefix_that_many_begin_with_at_once_is_read_once(model: Qwen3AsrModel) -> None:
    requests = [
        make_request(model, f"r{i}", [medium(model, i, 60)], before=200, seed=9) for i in range(6)
    ]
    runner = make_runner(model, num_blocks=400)
    results = finish(runner, [runner.place(request) for request in requests], chunk=64)
    own = sum(len(r.tokens) - 192 for r in requests)
    assert runner.num_read == 192 + own
    assert runner.num_found == 5 * 192
    for request in requests[:2]:
        assert results[request.key].tokens == alone(model, request).tokens


def test_those_who_wait_go_on_when_the_one_who_reads_is_gone(model: Qwen3AsrModel) -> None:
    for steps in range(4):
        runner = make_runner(model)
        first, second = (
            runner.place(make_request(model, key, [medium(model, 1)], before=100)) for key in "ab"
        )
        assert second.is_waiting and not first.is_waiting
        for _ in range(steps):
            runner.launch([(first, 40)])()
        runner.release(first)
        assert not second.is_waiting
        result = finish(runner, [second])["b"]
        assert result.tokens == alone(model, second.request).tokens
        assert second.num_named * BLOCK_TOKENS >= 100 // BLOCK_TOKENS


def test_the_pin_of_an_owner_outlives_its_request(model: Qwen3AsrModel) -> None:
    request = make_request(model, "owner", [medium(model, 1)], final_tokens=40)
    runner = make_runner(model, num_blocks=40)
    finish(runner, [runner.place(request)])
    # Others run until every block that is not pinned has been used for something else.
    for i in range(12):
        other = make_request(model, f"o{i}", [medium(model, 20 + i)], seed=50 + i, before=200)
        finish(runner, [runner.place(other)])
    again = runner.place(request)
    assert again.num_cached == 32
    finish(runner, [again])
    runner.forget("owner")
    runner.check(0)


def test_what_can_never_fit_is_refused_and_takes_nothing(model: Qwen3AsrModel) -> None:
    runner = make_runner(model)
    with pytest.raises(RequestError, match="expected at most 480 tokens .* got 530") as caught:
        runner.place(make_request(model, "r", [], before=500, after=18))
    assert caught.value.code == "context_length_exceeded"
    runner.check(0)


def test_a_token_that_only_the_tokenizer_knows_is_refused_and_takes_nothing(
    model: Qwen3AsrModel,
) -> None:
    runner, request = make_runner(model), make_request(model, "r", [])
    beyond = request._replace(tokens=(*request.tokens, model.decoder.dims.vocab))
    with pytest.raises(RequestError, match="below [0-9]+; its tokenizer makes [0-9]+") as caught:
        runner.place(beyond)
    assert caught.value.code == "invalid_value"
    runner.check(0)
    finish(runner, [runner.place(request)])


def test_audio_that_is_not_a_number_fails_alone(model: Qwen3AsrModel) -> None:
    broken = Medium.of(np.full((model.encoder.dims.num_mels, 90), np.nan, np.float32), 12)
    runner = make_runner(model)
    bad = runner.place(make_request(model, "bad", [broken]))
    good_request = make_request(model, "good", [medium(model, 1)], seed=3)
    good = runner.place(good_request)
    failures = runner.launch([(bad, bad.demand().known), (good, good.demand().known)])()
    (failure,) = failures
    assert failure.key == "bad" and "not finite" in failure.message
    runner.release(bad)
    assert finish(runner, [good])["good"].tokens == alone(model, good_request).tokens
    # What it wrote is nobody's: the same blocks serve the next request.
    again = make_request(model, "next", [medium(model, 1)], seed=4)
    assert finish(runner, [runner.place(again)])["next"].tokens == alone(model, again).tokens


def test_an_encoder_out_of_memory_fails_its_own_request(
    model: Qwen3AsrModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    heavy = medium(model, 7)
    encode = model.encode

    def limited(media: list[Medium]) -> list[torch.Tensor]:
        if any(item.digest == heavy.digest for item in media):
            raise RuntimeError("out of memory")
        return encode(media)

    monkeypatch.setattr(model, "encode", limited)
    runner = make_runner(model)
    bad = runner.place(make_request(model, "bad", [heavy]))
    good = runner.place(make_request(model, "good", [medium(model, 1)], seed=3))
    failures = runner.launch([(bad, bad.demand().known), (good, good.demand().known)])()
    assert [f.key for f in failures] == ["bad"]
    assert "out of memory" in failures[0].message
    runner.release(bad)
    finish(runner, [good])


def test_sampling_does_not_depend_on_batch_mates(model: Qwen3AsrModel) -> None:
    hot = SamplingParams(temperature=1.0, seed=7, top_k=40)
    request = make_request(model, "hot", [medium(model, 1)], sampling=hot)
    expected = alone(model, request)
    runner = make_runner(model)
    mates = [make_request(model, f"m{i}", [medium(model, 5 + i)], seed=i + 1) for i in range(3)]
    together = finish(runner, [runner.place(r) for r in (*mates, request)])
    assert together["hot"].tokens == expected.tokens
    drafted = make_request(
        model, "hot", [medium(model, 1)], sampling=hot, draft=expected.tokens[:6]
    )
    assert alone(model, drafted).tokens == expected.tokens


def test_what_still_grows_is_kept_by_nobody(model: Qwen3AsrModel) -> None:
    closed = medium(model, 1)
    open_window = medium(model, 2, 90)._replace(is_final=False)
    request = make_request(model, "live", [closed, open_window])
    runner = make_runner(model)
    first = finish(runner, [runner.place(request)])["live"]
    stats = runner.stats()
    last_named = (20 + closed.num_tokens) // BLOCK_TOKENS
    assert stats["cached_blocks"] == last_named
    width = model.decoder.dims.width
    assert stats["encoder_cache_bytes"] == closed.num_tokens * width * 4
    again = runner.place(request)
    assert again.num_cached == last_named * BLOCK_TOKENS
    assert finish(runner, [again])["live"].tokens == first.tokens
