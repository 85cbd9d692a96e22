"""Programs that measure models: each by a process of its own, all of them ended in time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu_bench
from benchmarks.gpu.output import CUT_OFF, output_path

TINY = ("--device", "cpu", "--geometry", "tiny")
MODELS = ["qwen3-asr-0.6b", "whisper-large-v3-turbo"]


def test_several_models_become_one_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUT", str(tmp_path))
    chosen = [part for name in MODELS for part in ("--model", name)]
    assert gpu_bench.main([*TINY, *chosen, "--section", "eager: decode 1"]) == 0
    result = json.loads((tmp_path / "gpu-bench.json").read_text())
    assert (list(result["models"]), result["failures"]) == (MODELS, [])
    for model in result["models"].values():
        assert model["decode"]["eager"]["decode 1"]["tokens_per_second"] > 0
    assert result["bandwidth"] > 0 and result["device"] == {"name": "CPU"}
    shown = capfd.readouterr().out  # each figure as it comes
    assert shown.count('eager: decode 1: {"tokens_per_second"') == 2


def test_what_was_measured_is_kept_when_a_section_never_ends(tmp_path: Path) -> None:
    code = f"""
import sys, threading
from benchmarks import gpu_bench
gpu_bench.Bench.encoder = lambda *_: threading.Event().wait()
sys.exit(gpu_bench.main([*{TINY!r}, "--model", {MODELS[0]!r}, "--section", "eager: decode 1",
    "--section", "encoder", "--seconds", "15", "--output", {str(tmp_path / "result.json")!r}]))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == CUT_OFF, ended.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["failures"] == [f"{MODELS[0]}: encoder: cut off"]
    assert result["models"][MODELS[0]]["decode"]["eager"]["decode 1"]["step_ms"] > 0


def test_where_a_result_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUT", raising=False)
    assert output_path("a.json", None, is_trial=True) is None
    kept = output_path("a.json", None, is_trial=False)
    assert kept is not None and kept.parts[-3:] == ("benchmarks", "results", "a.json")
    monkeypatch.setenv("OUT", str(tmp_path))
    assert output_path("a.json", None, is_trial=True) == tmp_path / "a.json"
    assert output_path("a.json", Path("b.json"), is_trial=False) == Path("b.json")
