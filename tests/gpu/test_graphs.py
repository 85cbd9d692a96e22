"""Replays on the device against eager passes: the same tokens over scripted traces that take every
captured shape, with arrivals, aborts, drafts and noise; the same traces run on a CPU elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import build_core
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from tests.engine import playing
from tests.engine.runners import ROWS
from tests.engine.traces import (
    Visit,
    assert_same,
    once,
    paged_request,
    paged_trace,
    picture,
    play,
    whisper_trace,
)
from tests.gpu.conftest import IS_DRY
from tests.gpu.steps import (
    EAGER,
    OTHERS,
    Way,
    load_asr,
    load_vl,
    load_whisper,
    paged_runner,
    prepare,
    whisper_runner,
)

pytestmark = pytest.mark.gpu
LOGPROBS = 2e-3  # other shapes, other sums
Report = Callable[[str, object], None]


@pytest.mark.parametrize("way", OTHERS, ids=str)
def test_qwen3_asr(
    way: Way,
    device: torch.device,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Report,
) -> None:
    model = load_asr(tmp_path, device)
    prepare(monkeypatch)
    expected = play(paged_runner(model, EAGER), paged_trace(model), max_rows=ROWS)
    runner = paged_runner(model, way)
    played = play(runner, paged_trace(model), max_rows=ROWS, overlap=way.overlap)
    assert_same(played, expected, LOGPROBS)
    stats = runner.stats()
    record_property("passes", f"{stats['graph_passes']} graph, {stats['eager_passes']} eager")
    assert (stats["eager_passes"] == 0) is way.graphs


@pytest.mark.parametrize("way", OTHERS, ids=str)
def test_qwen3_vl(
    way: Way, device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_vl(tmp_path, device)
    prepare(monkeypatch)
    visits = []
    for i, sizes in enumerate([[(3, 4)], [(5, 2), (2, 6)], [], [(1, 7)], [(4, 4)]]):
        media = [picture(model, 10 * i + j, *size) for j, size in enumerate(sizes)]
        request = paged_request(model, f"r{i}", i, before=4 + 9 * i, media=media)
        visits.append(Visit(f"r{i}", once(request), comes=2 * i))
    parts = 1 + len(model.encoder.dims.deepstack)
    for budget in (512, 21):  # the second cuts pictures in two
        expected = play(
            paged_runner(model, EAGER, parts), visits, max_rows=ROWS, token_budget=budget
        )
        runner = paged_runner(model, way, parts)
        played = play(runner, visits, max_rows=ROWS, token_budget=budget, overlap=way.overlap)
        assert_same(played, expected, LOGPROBS)


@pytest.mark.parametrize("way", OTHERS, ids=str)
def test_whisper(
    way: Way, device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = load_whisper(tmp_path, device)
    prepare(monkeypatch)
    visits = whisper_trace(tokenizer)
    expected = play(whisper_runner(model, tokenizer, EAGER), visits, max_rows=ROWS)
    runner = whisper_runner(model, tokenizer, way)
    played = play(runner, visits, max_rows=ROWS, overlap=way.overlap)
    assert_same(played, expected, LOGPROBS)
    runs = runner.passes.graphs.num_runs
    assert (runs["encode 32000 graph"] > 0 and runs["decode eager"] == 0) is way.graphs


def test_a_graph_reads_what_was_copied_in_for_this_step(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffers are filled with garbage between steps; the device would stop at a bad index."""
    model: Qwen3AsrModel = load_asr(tmp_path, device)
    prepare(monkeypatch)
    visits = [
        Visit(f"r{i}", once(paged_request(model, f"r{i}", i, before=9 * i + 2)), comes=i)
        for i in range(5)
    ]
    expected = play(paged_runner(model, EAGER), visits, max_rows=ROWS)
    runner = paged_runner(model, Way(True, 1))
    staging = runner.passes.graphs.staging
    put = staging.put

    def poisoned(*args: object, **kwargs: bool) -> Mapping[str, torch.Tensor]:
        staging._target.fill_(2**20)  # type: ignore[attr-defined]
        runner.passes._media_rows.fill_(torch.nan)
        return put(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(staging, "put", poisoned)
    assert_same(play(runner, visits, max_rows=ROWS, overlap=1), expected, LOGPROBS)


@pytest.mark.skipif(IS_DRY, reason="an engine captures on a CUDA device only")
@pytest.mark.parametrize("name", ["demo-whisper", "demo-qwen3-asr"])
def test_sessions_hear_the_same_words(name: str, record_property: Report) -> None:
    """Noise as speech: what is heard is nonsense, but everybody's own."""
    resolve_checkpoint(name)
    scripts = {
        "a": playing.turn("a", 1, 2.0),
        "b": playing.turn("b", 2, 1.6, 0.7),
        "f": playing.file("f", 4, 5.0),
    }
    heard = []
    for graphs, overlap in (("off", 0), ("auto", 0), ("auto", 1)):
        config = EngineConfig(
            name, device="cuda", dtype="float32", cuda_graphs=graphs, overlap=overlap
        )
        core = build_core(config, lambda stage, share: None).core
        events = playing.play(core, *scripts.values())
        heard.append({key: playing.outcome(events, key) for key in scripts})
        stats = core.stats()
        record_property(
            f"{graphs} {overlap}", f"{stats['graph_passes']} graph, {stats['eager_passes']} eager"
        )
    assert heard[2] == heard[1]
    # Without graphs the host computes Qwen3-ASR's log-mel, which differs in its last digits: enough
    # for other nonsense.
    assert heard[1] == heard[0] or name == "demo-qwen3-asr"
