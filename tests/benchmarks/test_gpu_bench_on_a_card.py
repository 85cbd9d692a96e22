"""`gpu_bench` on an imagined card, small: nothing of it mixes tensors of host and device, hands a
kernel what it cannot take, or waits while it serves."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_bench
from engine.core import EngineCore
from tests.engine.device.card import Phase
from tests.engine.device.driver import install
from tests.engine.device.launches import imagine, present


def test_every_section_comes_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("transformers.models.qwen3.modeling_qwen3")  # before torch is changed
    card, launches = imagine(monkeypatch, in_flight=1)
    install(monkeypatch, card)
    step = EngineCore.step

    def served(core: EngineCore) -> Any:
        with card.during(Phase.SERVING):
            return step(core)

    monkeypatch.setattr(EngineCore, "step", served)
    sections = ("decode", "encoder", "tick")
    options = [option for name in sections for option in ("--section", name)]
    written = tmp_path / "result.json"
    with present(card):
        status = gpu_bench.main(
            ["--device", "cuda", "--geometry", "tiny", "--model", "qwen3-asr-0.6b",
             "--output", str(written), *options]
        )  # fmt: skip
    result = json.loads(written.read_text(encoding="utf-8"))
    assert (status, result["failures"]) == (0, [])
    model = result["models"]["qwen3-asr-0.6b"]
    assert set(model["decode"]) == {"eager", "graphs", "graphs + overlap", "transformers"}
    assert model["passes"]["graphs + overlap"]["graph_passes"] > 0
    assert launches.num > 1000 and card.num["replays"] > 20
