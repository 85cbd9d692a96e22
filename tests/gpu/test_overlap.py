"""What overlapping steps stand on: a launch that never waits for the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Priority
from lookhear.engine.core.scheduler import Scheduler
from lookhear.engine.sampling.params import SamplingParams
from tests.engine.runners import ROWS
from tests.engine.traces import Asker, NoDesk, once, paged_request, whisper_request
from tests.gpu.conftest import IS_DRY
from tests.gpu.steps import Way, load_asr, load_whisper, paged_runner, prepare, whisper_runner

pytestmark = pytest.mark.gpu


@contextmanager
def no_waiting() -> Iterator[None]:
    """Any operation that waits for the device raises, apart from events."""
    if IS_DRY:
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def launch_without_waiting(runner: Any, requests: list[Any], warm_ups: int = 4) -> None:
    """Every launch behind the first few, in which prompts are read and kernels compiled."""
    core = EngineCore(NoDesk(), runner, Scheduler(ROWS, 10**9, 4096), overlap=1)
    for request in requests:
        core.add(request.key, Priority.LIVE, Asker(request.key, once(request)))
    launch, launches = runner.launch, 0

    def watched(work: Any) -> Any:
        nonlocal launches
        launches += 1
        if launches <= warm_ups:
            return launch(work)
        with no_waiting():
            return launch(work)

    runner.launch = watched
    while core.has_work:
        core.step()
    assert launches > warm_ups + 3


@pytest.mark.parametrize("graphs", [False, True])
def test_a_paged_step_is_launched_without_waiting(
    graphs: bool, device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_asr(tmp_path, device)
    prepare(monkeypatch)
    kinds = (
        SamplingParams(),
        SamplingParams(temperature=0.8, top_k=40, top_p=0.9, seed=3),
        SamplingParams(logit_bias=((5, 2.0),), logprobs=2),
    )
    requests = [
        paged_request(model, f"r{i}", i, sampling=kinds[i % 3], max_new_tokens=14 + 3 * i)
        for i in range(5)
    ]
    launch_without_waiting(paged_runner(model, Way(graphs, 1)), requests)


@pytest.mark.parametrize("graphs", [False, True])
def test_a_whisper_step_is_launched_without_waiting(
    graphs: bool, device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = load_whisper(tmp_path, device)
    prepare(monkeypatch)
    requests = [
        whisper_request(
            tokenizer, f"r{i}", i, temperature=0.7 * (i % 2), seed=i, max_new_tokens=14 + 3 * i
        )
        for i in range(4)
    ]
    launch_without_waiting(whisper_runner(model, tokenizer, Way(graphs, 1)), requests)
