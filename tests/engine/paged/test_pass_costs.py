"""What is measured at the start, and what is said of a model that cannot do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.paged.pass_costs import SIZES, measured_costs
from lookhear.engine.paged.runner import PagedRunner


@pytest.fixture
def runner(served_asr: Path) -> PagedRunner:
    model = Qwen3AsrModel.from_folder(served_asr)
    return PagedRunner(model, max_rows=2, num_blocks=9, max_context=64, encoder_bytes=2**20)


def test_passes_of_every_size_take_what_the_clock_says(runner: PagedRunner) -> None:
    ticks = iter(range(1_000))
    found = measured_costs(runner, lambda: float(next(ticks)))
    assert (found.sizes, found.seconds, found.draft) == (SIZES, (1.0,) * len(SIZES), None)
    runner.check(0)


def broken(model: Qwen3Model, hidden: Tensor) -> Tensor:
    return torch.full((len(hidden), model.vocab), torch.nan)


def too_large(model: Qwen3Model, hidden: Tensor) -> Tensor:
    raise torch.OutOfMemoryError("tried to allocate 3 GiB")


def wrong(model: Qwen3Model, hidden: Tensor) -> Tensor:
    raise KeyError("a bug")


@pytest.mark.parametrize(
    ("logits", "kind", "said"),
    [
        (broken, RuntimeError, "not finite"),
        (too_large, RuntimeError, "tried to allocate 3 GiB"),
        (wrong, KeyError, "a bug"),
    ],
    ids=["broken", "too large", "wrong"],
)
def test_what_a_pass_fails_with_is_said(
    logits: Callable[[Qwen3Model, Tensor], Tensor],
    kind: type[Exception],
    said: str,
    runner: PagedRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Qwen3Model, "logits", logits)
    with pytest.raises(kind, match=said):
        measured_costs(runner, lambda: 0.0)
