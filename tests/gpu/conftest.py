"""Tests of a CUDA device. `make gpu-check` runs them on one; elsewhere they are skipped.

LOOKHEAR_GPU_DRY_RUN=1 runs them on a CPU instead, small, under Triton's interpreter: so that the
first card they meet finds faults in the kernels, not in the tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from lookhear.kernels.choice import mode

IS_DRY = os.environ.get("LOOKHEAR_GPU_DRY_RUN") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available() or IS_DRY:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; see `make gpu-check`"))


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cpu" if IS_DRY else "cuda")


@pytest.fixture(scope="session")
def sized() -> Callable[[int, int], int]:
    """What a card can do at the first size, the interpreter can at the second."""
    return lambda large, small: small if IS_DRY else large


@pytest.fixture(autouse=True)
def exact_float32() -> Iterator[None]:
    """float32 means float32: no TF32, in products or convolutions."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.fixture
def triton_is(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """Chooses who runs operations: Triton, or torch."""

    def choose(wanted: bool) -> None:
        on = "always" if IS_DRY else "auto"
        monkeypatch.setenv("LOOKHEAR_TRITON", on if wanted else "off")
        mode.cache_clear()

    yield choose
    monkeypatch.undo()
    mode.cache_clear()


class Errors:
    """Compares, and remembers the largest error for the report."""

    # Where a number is rounded to the dtype once or twice more than in its twin.
    LIMITS = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}

    def __init__(self, report: Callable[[str, object], None]) -> None:
        self._report = report
        self._worst = 0.0

    def close(self, ours: Tensor, exact: Tensor, limit: float | None = None) -> None:
        """ours against the twin's in float32 or better; limit: absolute, or relative above 1."""
        assert ours.shape == exact.shape, (ours.shape, exact.shape)
        assert not ours.isnan().any(), "expected numbers, got NaN"
        limit = self.LIMITS[ours.dtype] if limit is None else limit
        error = (ours.double() - exact.double()).abs() / exact.double().abs().clamp(min=1.0)
        worst = float(error.max()) if error.numel() else 0.0
        self._worst = max(self._worst, worst)
        self._report("max_error", f"{self._worst:.2e}")
        assert worst <= limit, f"expected an error of at most {limit}, got {worst}"


@pytest.fixture
def errors(record_property: Callable[[str, object], None]) -> Errors:
    return Errors(record_property)
