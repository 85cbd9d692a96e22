"""What programs ask `torch.cuda` beside the engine, answered for an imagined card."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lookhear.engine.device import acceleration
from lookhear.kernels.triton import configs
from tests.engine.imagined.card import Card
from tests.engine.imagined.regions import ImaginedBackend

NAME = "Imagined card"
BYTES = 80 * 2**30


class Generator(torch.Generator):
    """Of the host, whatever it was made for."""

    def __new__(cls, device: Any = None) -> Generator:
        return super().__new__(cls)


def install(monkeypatch: pytest.MonkeyPatch, card: Card) -> None:
    """A program that is given the device "cuda" finds the card, with graphs."""
    properties = SimpleNamespace(
        name=NAME, total_memory=BYTES, multi_processor_count=132, major=9, minor=0
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "get_device_name": NAME,
        "get_device_capability": (9, 0),
        "get_device_properties": properties,
        "mem_get_info": (BYTES, BYTES),
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "current_device": 0,
        "synchronize": None,
        "empty_cache": None,
        "reset_peak_memory_stats": None,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    # Other tests of the process must not find this card's tiles.
    monkeypatch.setattr(configs, "table", cache(configs.table.__wrapped__))
    monkeypatch.setattr(torch, "Generator", Generator)
    monkeypatch.setattr(acceleration, "CudaBackend", lambda device: ImaginedBackend(card))
