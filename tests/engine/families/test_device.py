"""Which device an engine takes where nobody says."""

from __future__ import annotations

import pytest
import torch

from lookhear.engine.config import EngineConfig
from lookhear.engine.families import build
from lookhear.kernels.choice import mode


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    return monkeypatch


def test_by_default_a_card_is_used() -> None:
    assert EngineConfig().device == "auto"


def test_a_card_if_there_is_one(card: pytest.MonkeyPatch) -> None:
    assert build._device("auto") == "cuda" and build._device("cuda:1") == "cuda:1"
    assert build._device("cpu") == "cpu"


def test_an_old_card_is_left_alone_and_named(
    card: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    card.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert build._device("auto") == "cpu"
    assert "A card" in caplog.text and "expected compute capability 8.0, it has 7.5" in caplog.text
    assert build._device("cuda") == "cuda"  # whoever asks for it knows


def test_without_one_the_cpu_unless_a_card_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert build._device("auto") == "cpu"
    with pytest.raises(RuntimeError, match="expected a CUDA device for 'cuda:1'"):
        build._device("cuda:1")


def test_who_runs_the_kernels_is_asked_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOOKHEAR_TRITON", "bogus")
    mode.cache_clear()
    with pytest.raises(ValueError, match="LOOKHEAR_TRITON: expected one of auto, off, always"):
        build.build_core(EngineConfig(model="nowhere"), lambda stage, share: None)
    mode.cache_clear()
