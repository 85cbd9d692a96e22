"""`gpu_bench` on an imagined card, small: nothing of it mixes tensors of host and device, hands a
kernel what it cannot take, or waits while it serves."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks import gpu_bench
from benchmarks.gpu import program
from benchmarks.gpu.load import tick_latencies
from benchmarks.gpu.models import (
    GEOMETRIES,
    RandomWeights,
    build,
    random_weights,
    write_folder,
)
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families import family
from tests.engine.imagined.card import Phase
from tests.engine.imagined.driver import install
from tests.engine.imagined.launches import imagine, present

pytestmark = pytest.mark.usefixtures("left_alone_again")


# Graphs alone are those of graphs + overlap; `tests/engine/imagined` plays both.
@pytest.mark.parametrize(
    ("dtype", "modes"),
    [
        ("bfloat16", ("eager", "graphs + overlap")),
        ("fp8", ("graphs + overlap",)),
        ("int4", ("graphs + overlap",)),
    ],
)
def test_every_section_comes_to_its_end(
    dtype: str, modes: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importlib.import_module("transformers.models.qwen3.modeling_qwen3")  # before torch is changed
    card, launches = imagine(monkeypatch, in_flight=1)
    install(monkeypatch, card)
    step = EngineCore.step

    def served(core: EngineCore) -> Any:
        with card.during(Phase.SERVING):
            return step(core)

    monkeypatch.setattr(EngineCore, "step", served)
    for refusal in ("fp8_refusal", "int8_refusal"):
        monkeypatch.setattr(family, refusal, lambda device: None)
    monkeypatch.setattr(gpu_bench, "MODES", {mode: gpu_bench.MODES[mode] for mode in modes})
    sections = ("decode", "encoder", "tick")
    options = [option for name in sections for option in ("--section", name)]
    written = tmp_path / "result.json"
    with present(card):
        status = gpu_bench.main(
            ["--device", "cuda", "--geometry", "tiny", "--model", "qwen3-asr-0.6b",
             "--dtype", dtype, "--kv-cache-dtype", "auto" if dtype == "bfloat16" else "fp8",
             "--output", str(written), *options]
        )  # fmt: skip
    result = json.loads(written.read_text(encoding="utf-8"))
    assert (status, result["failures"]) == (0, [])
    model = result["models"]["qwen3-asr-0.6b"]
    assert set(model["decode"]) == {*modes, "transformers"}
    assert model["passes"]["graphs + overlap"]["graph_passes"] > 0
    assert launches.num > 1000 and card.num["replays"] > 20


@pytest.mark.parametrize("name", ["whisper-large-v3-turbo", "qwen3-asr-0.6b"])
def test_at_true_size_every_pass_of_live_sessions_is_captured_and_compiled(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two layers, the others are alike."""
    card, launches = imagine(monkeypatch, in_flight=1, computes=False)
    install(monkeypatch, card)
    geometry = GEOMETRIES[name]
    write_folder(geometry, tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(cut(json.loads(config.read_text()))))
    bench = gpu_bench.Bench(program.parser("gpu-bench", "").parse_args([]), [])
    bench._folder = tmp_path
    limits = {"max_rows": 4, "max_context_tokens": 1024, "kv_cache_gigabytes": 0.1}
    windows = {"window_step_seconds": 8.0, "min_window_seconds": 8.0}
    monkeypatch.setattr(RandomWeights, "take_either", nothing)  # is computed with them
    with random_weights(), present(card):
        core = build(tmp_path, "cuda", **limits, **windows, overlap=1).core
        launch = core._runner.launch

        def watched(work: Any) -> Any:
            with card.launching():
                return launch(work)

        monkeypatch.setattr(core._runner, "launch", watched)
        with card.during(Phase.SERVING):
            for window in (30, 8) if geometry.family == "whisper" else (8,):
                for count in (1, 5):
                    make = bench.clients(geometry, core, window)
                    tick_latencies(core, make(count), seconds=1.0)
        stats = core.stats()
    assert stats["graph_passes"] > 5 and stats["eager_passes"] == 0
    assert launches.late == [], "compiled while somebody waits"


def nothing(weights: RandomWeights, name: str, *shapes: tuple[int, ...]) -> Tensor:
    """In memory that nobody writes to, and so has not."""
    return torch.zeros(shapes[0], dtype=weights._dtype, device=weights._device)


def cut(config: dict[str, Any]) -> dict[str, Any]:
    """Two layers of everything."""
    changed: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            value = cut(value)
        elif key in ("num_hidden_layers", "encoder_layers", "decoder_layers"):
            value = min(value, 2)
        elif key == "layer_types":
            value = value[:2]
        changed[key] = value
    return changed
