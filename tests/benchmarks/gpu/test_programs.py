"""The programs for a GPU, as far as a CPU can tell: clocks, tables, what is said without one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import cast

import pytest
import torch

from benchmarks import gpu_bench, gpu_check, gpu_profile
from benchmarks.gpu.answers import first_tokens, picture_prompts
from benchmarks.gpu.load import Client, decode_rate, text_request, tick_latencies
from benchmarks.gpu.models import GEOMETRIES, build, decoder_bytes, random_weights, write_folder
from benchmarks.gpu.tables import table
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Result, StopReason


class SlowCore:
    """Carries out one request per step, which takes so many seconds of a clock that is made up."""

    def __init__(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seconds = seconds
        self._clients: dict[str, Client] = {}
        self._time = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self._time)

    def add(self, key: str, priority: object, client: Client) -> None:
        self._clients[key] = client

    def drop(self, key: str) -> None:
        del self._clients[key]

    def changed(self, key: str) -> None:
        assert key in self._clients

    @property
    def has_work(self) -> bool:
        return any(client.wants_request() for client in self._clients.values())

    def step(self) -> None:
        waiting = [client for client in self._clients.values() if client.wants_request()]
        client = min(waiting, key=lambda c: c.due or 0.0)
        client.make_request()
        self._time += self._seconds
        client.absorb(Result(client.key, (), (), 0, StopReason.END))


def clients(count: int) -> list[Client]:
    return [Client(f"s{i}", object) for i in range(count)]


def test_an_idle_engine_answers_within_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    core = cast(EngineCore, SlowCore(0.1, monkeypatch))
    found = tick_latencies(core, clients(1), seconds=5.0)
    assert found == pytest.approx([0.1] * 4)


def test_too_many_sessions_are_late_and_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    core = cast(EngineCore, SlowCore(0.3, monkeypatch))
    found = tick_latencies(core, clients(10), seconds=5.0)
    assert sorted(found)[len(found) // 2] > 1.0
    few = tick_latencies(cast(EngineCore, SlowCore(0.3, monkeypatch)), clients(2), seconds=5.0)
    assert max(few) < 1.0


@pytest.mark.parametrize("rows", [1, 2])
def test_a_step_of_a_model_that_chats_is_a_token_a_row(rows: int, tmp_path: Path) -> None:
    """Though what random weights say comes again, and could be guessed."""
    write_folder(GEOMETRIES["qwen3-vl-2b"], tmp_path, tiny=True)
    with random_weights():
        core = build(tmp_path, "cpu", max_context_tokens=512).core
        vocab = core._runner._decoder.vocab  # type: ignore[attr-defined]
        requests = [text_request(f"d{i}", i, 32, 60, vocab) for i in range(rows)]
        rate, step = decode_rate(core, requests, warm=4, steps=40, seconds=30.0)
    assert rate == pytest.approx(rows / step, rel=1e-6)


def test_first_tokens_are_those_of_every_request(tmp_path: Path) -> None:
    """With a picture, beside rows that go on, and nothing is left behind."""
    write_folder(GEOMETRIES["qwen3-vl-2b"], tmp_path, tiny=True)
    with random_weights():
        core = build(tmp_path, "cpu", max_context_tokens=512).core
        runner = core._runner
        make = picture_prompts(runner._model, runner._decoder.vocab, 20, 2)  # type: ignore[attr-defined]
        found = first_tokens(core, make, others=2, at_once=3, times=2)
    assert len(found) == 6 and min(found) > 0.0
    assert not core.has_work and not core._running


@pytest.mark.parametrize("name", list(GEOMETRIES))
def test_a_decode_step_reads_what_public_checkpoints_weigh(name: str, tmp_path: Path) -> None:
    write_folder(GEOMETRIES[name], tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    weights, kept, audio = decoder_bytes(config, GEOMETRIES[name].family, 2)
    gigabytes, kilobytes, megabytes = {
        "whisper-large-v3-turbo": (0.316, 20, 30.7),
        "qwen3-asr-0.6b": (1.19, 112, 0),
        "qwen3-asr-1.7b": (3.44, 112, 0),
        "qwen3-vl-2b": (3.44, 112, 0),
    }[name]
    assert weights / 1e9 == pytest.approx(gigabytes, rel=0.01)
    assert (kept / 1024, audio / 1e6) == pytest.approx((kilobytes, megabytes), rel=0.01)
    assert not list(tmp_path.glob("*.safetensors"))


def test_a_result_becomes_a_table_whatever_is_missing() -> None:
    result = {
        "device": {"name": "A card"},
        "torch": "2",
        "geometry": "true",
        "bandwidth": 4e12,
        "models": {
            "m": {
                "decode": {
                    "eager": {"decode 1": {"tokens_per_second": 51.2, "roofline_share": 0.31}},
                    "transformers": {"decode 8": {"tokens_per_second": 99.0}},
                },
                "encoder": {"1 x 30 s": 2.5},
                "tick, window 8 s": {"n": 9, "p50_ms": 20.0, "p95_ms": 30.0},
                "sessions, window 8 s": {"sessions": 500, "tried": {}},
            },
            "n": {},
        },
        "failures": ["n: eager: start: no time left"],
    }
    text = table(result)
    assert "4.00 TB/s" in text and "51 (31%)" in text and "99" in text
    assert "500" in text and "no time left" in text


def test_a_profile_names_what_took_the_time() -> None:
    x = torch.ones(300, 300)
    found = gpu_profile.profiled(lambda: [x @ x for _ in range(5)], "cpu")
    assert ["aten::mm", 5] in [row[:2] for row in found["kernels"]]
    times = [row[2] for row in found["kernels"]]
    assert times == sorted(times, reverse=True) and sum(times) <= found["busy_ms"] + 0.01
    models = {"m": {"encoder": found, "decode": {"graphs + overlap": {"decode 1": found}}}}
    text = gpu_profile.table({"models": models, "failures": ["n: start: no time left"]})
    assert text.count("aten::mm") == 2 and "m, decode 1" in text and "no time left" in text


def test_without_a_device_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.main([]) == 1
    assert gpu_check.main(["--allow-missing"]) == 0
    assert gpu_bench.main([]) == 1
    assert gpu_profile.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    programs = ["gpu-check", "gpu-check", "gpu-bench", "gpu-profile"]
    assert [line.partition(":")[0] for line in lines] == programs
    assert all(line.endswith("expected a CUDA device, torch sees none") for line in lines)
