"""Graphs: which passes are captured, which shape a step takes, what is counted; and that replays on
buffers full of garbage, with every number of the host baked, answer as eager passes do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from lookhear.engine.device.acceleration import CPU, Acceleration
from lookhear.engine.device.graphs import Fields, Graphs, row_buckets
from lookhear.engine.device.staging import PinnedStaging
from lookhear.engine.models.audio_graphs import CHUNKS, AudioGraphs
from lookhear.engine.models.qwen3 import Qwen3ChatModel, Qwen3Model
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.paged.passes import PREFILL_BUCKETS
from lookhear.engine.paged.request import Medium
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.runner import WhisperRunner
from tests.engine.recording import RecordedMemory, Recorder, Recording, make_opaque
from tests.engine.runners import MODELS, ROWS, paged_runner, quiet, whisper_runner
from tests.engine.traces import (
    Played,
    Visit,
    assert_same,
    once,
    paged_request,
    paged_trace,
    picture,
    play,
    sound,
    whisper_trace,
)
from tools.random_checkpoints.qwen3 import build_random_qwen3
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl
from tools.random_checkpoints.whisper import build_random_whisper


def recorded(*, overlaps: bool = False, bytes_per_graph: int = 0) -> Acceleration:
    return Acceleration(overlaps, RecordedMemory(), Recorder(bytes_per_graph))


# --- the layer alone -----------------------------------------------------------------------------


def test_batch_sizes_end_with_all_rows() -> None:
    assert row_buckets(1) == [1]
    assert row_buckets(6) == [1, 2, 4, 6]
    assert row_buckets(64) == [1, 2, 4, 8, 16, 24, 32, 48, 64]
    assert row_buckets(150) == [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 150]


def doubling(bytes_per_graph: int = 0) -> Graphs:
    graphs = recorded(bytes_per_graph=bytes_per_graph).new_graphs(256)
    graphs.plan("double", [(4,), (1,), (16,)], lambda fields: fields["x"] * 2, fill)
    return graphs


def fill(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {"x": np.zeros(shape, np.int64)}


def test_a_step_takes_the_smallest_shape_it_fits_or_none() -> None:
    graphs = doubling()
    assert graphs.fit("double", 1) is None, "nothing is captured yet"
    shares: list[float] = []
    graphs.capture(shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert [graphs.fit("double", n) for n in (1, 2, 4, 5, 17)] == [(1,), (4,), (4,), (16,), None]
    assert graphs.fit("another", 1) is None
    graphs.staging.put({"x": np.array([7, 8, 0, 0])}, is_fixed=True)
    assert graphs.run("double", (4,), lambda: None).tolist() == [14, 16, 0, 0]
    assert graphs.run("double", None, lambda: torch.tensor([1])).tolist() == [1]
    assert graphs.num_runs == {"double graph": 1, "double eager": 1}
    assert graphs.stats() == {"graphs": 3, "graph_passes": 1, "eager_passes": 1}


def test_the_largest_are_captured_first_and_the_budget_ends_it() -> None:
    graphs = doubling(bytes_per_graph=2**30)
    graphs.capture(quiet)  # 2 GiB by default
    assert graphs.num_captured == 2
    assert [graphs.fit("double", n) for n in (1, 16)] == [(4,), (16,)]


def test_what_cannot_be_captured_runs_eager(caplog: pytest.LogCaptureFixture) -> None:
    def stubborn(fields: Fields) -> Tensor:
        if len(fields["x"]) == 4:
            raise RuntimeError("not while capturing")
        return fields["x"] * 2

    graphs = doubling()
    graphs.plan("stubborn", [(1,), (4,), (8,)], stubborn, fill)
    graphs.capture(quiet)
    assert [graphs.fit("stubborn", n) for n in (1, 4, 8)] == [(8,), (8,), (8,)]
    assert graphs.num_captured == 4
    assert "stubborn of (4,) cannot be captured: not while capturing" in caplog.text


def test_without_a_backend_nothing_is_captured() -> None:
    graphs = CPU.new_graphs(16)
    graphs.plan("double", [(4,)], lambda fields: fields["x"] * 2, fill)
    graphs.capture(quiet)
    assert not graphs.is_on and graphs.fit("double", 1) is None


@pytest.mark.parametrize(
    "region",
    [
        lambda fields: fields["x"] * fields["x"].tolist()[0],
        lambda fields: fields["x"] * int(fields["x"].max()),
        lambda fields: fields["x"] + torch.tensor([1]),
        lambda fields: fields["x"][fields["x"] > 0],
        lambda fields: fields["x"] if fields["x"].any() else fields["x"] + 1,
    ],
)
def test_the_recorder_notices_what_a_gpu_could_not_capture(
    region: Callable[[Fields], Tensor],
) -> None:
    graphs = recorded().new_graphs(256)
    graphs.plan("bad", [(4,)], region, fill)
    with pytest.raises(AssertionError):
        graphs.capture(quiet)


def test_the_recorder_bakes_what_is_read_on_the_host() -> None:
    factor = [2]
    graphs = recorded().new_graphs(256)
    graphs.plan("times", [(2,)], lambda fields: fields["x"] * factor[0], fill)
    graphs.capture(quiet)
    factor[0] = 100
    graphs.staging.put({"x": np.array([3, 4])}, is_fixed=True)
    assert graphs.run("times", (2,), lambda: None).tolist() == [6, 8]


def test_staging_takes_turns_and_never_moves() -> None:
    staging = PinnedStaging(RecordedMemory(), 64)
    first = staging.put({"a": np.arange(3), "b": np.arange(6).reshape(2, 3)})
    assert first["b"].tolist() == [[0, 1, 2], [3, 4, 5]]
    again = staging.put({"a": np.arange(3, 6), "b": np.ones((2, 3), np.int64), "c": np.arange(2)})
    assert again["a"].data_ptr() == first["a"].data_ptr()
    assert again["b"].data_ptr() == first["b"].data_ptr()
    assert again["b"].data_ptr() % 16 == again["a"].data_ptr() % 16
    assert (again["a"].tolist(), again["c"].tolist()) == ([3, 4, 5], [0, 1])
    large = staging.put({"a": np.arange(100)})
    assert large["a"].tolist() == list(range(100))
    with pytest.raises(AssertionError):
        staging.put({"a": np.arange(100)}, is_fixed=True)


# --- Qwen3-ASR -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asr(served_asr: Path) -> Qwen3AsrModel:
    return Qwen3AsrModel.from_folder(served_asr)


@pytest.fixture(scope="module")
def eager(asr: Qwen3AsrModel) -> Played:
    played = play(paged_runner(asr), paged_trace(asr), max_rows=ROWS)
    assert len({r.tokens for results in played.results.values() for r in results}) > 20
    return played


@pytest.mark.parametrize("overlap", [0, 1])
def test_replays_give_the_tokens_of_eager_passes(
    asr: Qwen3AsrModel, eager: Played, overlap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_opaque(monkeypatch, *MODELS)
    runner = paged_runner(asr, recorded(overlaps=bool(overlap)))
    graphs = runner.passes.graphs
    assert graphs.num_captured == len(row_buckets(ROWS)) + len(PREFILL_BUCKETS)
    played = play(runner, paged_trace(asr), max_rows=ROWS, overlap=overlap)
    assert_same(played, eager)
    unused = [
        (name, shape)
        for name, kind in graphs._kinds.items()
        for shape, graph in kind.graphs.items()
        if not cast(Recording, graph).num_replays
    ]
    assert not unused, "the trace should use every shape"
    stats = runner.stats()
    assert stats["graph_passes"] > 0 and stats["eager_passes"] == 0
    assert graphs.num_runs["decode graph"] > graphs.num_runs["prefill graph"] > 0
    assert runner.stats()["graphs"] == graphs.num_captured + len(CHUNKS)


def test_audio_of_any_length_and_number_goes_through_graphs(
    asr: Qwen3AsrModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two chunks make a window here. One window, many, short ones, more than any graph takes."""
    make_opaque(monkeypatch, *MODELS)
    encoder = AudioGraphs(asr, recorded())
    with torch.inference_mode():
        encoder.graphs.capture(quiet)
        for frames in ([1], [100], [101], [200], [200, 37], [8, 200, 160, 99], [200, 70] * 66):
            media = [sound(asr, i, number)[1] for i, number in enumerate(frames)]
            ours, theirs = encoder.encode(media), asr.encode(media)
            for mine, expected, medium in zip(ours, theirs, media, strict=True):
                assert len(mine) == medium.num_tokens
                torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)
    assert encoder.graphs.num_runs == {"encode graph": 6 + 3}


def test_what_fits_no_graph_runs_eager_and_is_counted(
    asr: Qwen3AsrModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_opaque(monkeypatch, *MODELS)
    requests = [paged_request(asr, f"r{i}", i, before=380, max_new_tokens=3) for i in range(6)]
    visits = [Visit(r.key, once(r)) for r in requests]
    expected = play(paged_runner(asr), visits, max_rows=ROWS)
    runner = paged_runner(asr, recorded())
    assert_same(play(runner, visits, max_rows=ROWS), expected)
    assert runner.passes.graphs.num_runs == {"prefill eager": 1, "decode graph": 2}
    assert runner.stats()["eager_passes"] == 1


def test_a_budget_that_is_spent_changes_no_token(
    asr: Qwen3AsrModel, eager: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_opaque(monkeypatch, *MODELS)
    acceleration = replace(recorded(bytes_per_graph=2**20), graph_bytes=7 * 2**20)
    runner = paged_runner(asr, acceleration)
    assert runner.passes.graphs.num_captured == 7
    assert_same(play(runner, paged_trace(asr), max_rows=ROWS), eager)
    stats = runner.stats()
    assert stats["graph_passes"] > 0 and stats["eager_passes"] > 0


# --- Qwen3-VL ------------------------------------------------------------------------------------


def test_pictures_positions_and_deepstack_go_through_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_random_qwen3_vl(tmp_path, seed=5)
    model = Qwen3VLModel.from_folder(tmp_path)
    make_opaque(monkeypatch, *MODELS)
    visits = []
    for i, sizes in enumerate([[(3, 4)], [(5, 2), (2, 6)], [], [(1, 7)], [(4, 4)]]):
        media = [picture(model, 10 * i + j, *size) for j, size in enumerate(sizes)]
        request = paged_request(model, f"r{i}", i, before=4 + 9 * i, media=media)
        visits.append(Visit(f"r{i}", once(request), comes=2 * i))
    parts = 1 + len(model.encoder.dims.deepstack)
    assert parts > 1 and model.decoder.dims.rope_sections is not None
    for budget in (512, 21):  # the second cuts pictures in two
        expected = play(
            paged_runner(model, parts=parts), visits, max_rows=ROWS, token_budget=budget
        )
        runner = paged_runner(model, recorded(), parts=parts)
        played = play(runner, visits, max_rows=ROWS, token_budget=budget)
        assert_same(played, expected)
        assert runner.stats()["eager_passes"] == 0


def given(width: int, seed: int, count: int) -> tuple[int, Medium]:
    """Embeddings of a client's, and the token they stand for."""
    rows = np.random.default_rng(seed).normal(size=(count, width))
    return 7, Medium.given(rows.astype(np.float32))


@pytest.mark.parametrize("sees", [False, True])
def test_embeddings_of_clients_go_through_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sees: bool
) -> None:
    model: Qwen3VLModel | Qwen3ChatModel
    parts = 1
    if sees:
        build_random_qwen3_vl(tmp_path, seed=5)
        model = Qwen3VLModel.from_folder(tmp_path)
        parts += len(model.encoder.dims.deepstack)
    else:
        build_random_qwen3(tmp_path, seed=5)
        model = Qwen3ChatModel(Qwen3Model.from_folder(tmp_path), ())
    width = model.decoder.dims.width
    visits = []
    for i, counts in enumerate([[3], [20, 2], [], [17]]):
        media = [given(width, 10 * i + j, count) for j, count in enumerate(counts)]
        if isinstance(model, Qwen3VLModel):
            media.append(picture(model, i, 3, 2 + i))
        request = paged_request(model, f"r{i}", i, before=4 + 9 * i, media=media)
        visits.append(Visit(f"r{i}", once(request), comes=2 * i))
    make_opaque(monkeypatch, *MODELS)
    for budget in (512, 19):  # the second cuts them in two
        expected = play(
            paged_runner(model, parts=parts), visits, max_rows=ROWS, token_budget=budget
        )
        runner = paged_runner(model, recorded(), parts=parts)
        assert_same(play(runner, visits, max_rows=ROWS, token_budget=budget), expected)
        assert runner.stats()["eager_passes"] == 0


# --- Whisper -------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0, 1])
def test_whisper_replays_give_the_tokens_of_eager_passes(
    tmp_path: Path, overlap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_random_whisper(tmp_path, layers=2, width=32, heads=2, seed=3)
    model, tokenizer = WhisperModel.from_folder(folder), WhisperTokenizer.from_folder(folder)
    visits = whisper_trace(tokenizer)
    expected = play(WhisperRunner(model, tokenizer, ROWS), visits, max_rows=ROWS)
    assert len({r.tokens for results in expected.results.values() for r in results}) > 10
    make_opaque(monkeypatch, *MODELS)
    runner = whisper_runner(model, tokenizer, recorded(overlaps=bool(overlap)))
    played = play(runner, visits, max_rows=ROWS, overlap=overlap)
    assert_same(played, expected)
    for key, results in expected.results.items():
        for ours, theirs in zip(played.results[key], results, strict=False):
            assert ours.language == theirs.language
            assert ours.token_times == theirs.token_times
            assert ours.no_speech_prob == pytest.approx(theirs.no_speech_prob, abs=1e-5)
    runs = runner.passes.graphs.num_runs
    assert runs["encode 64000 eager"] > 0 and runs["encode 32000 graph"] > 0
    assert runs["decode graph"] > 0 and runs["prompt graph"] > 0 and runs["decode eager"] == 0
    assert runs["prompt eager"] > 0, "a prompt of 110 tokens is too long"
