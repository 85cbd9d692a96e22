"""Which ways to carry out steps a device and a configuration allow."""

from __future__ import annotations

from typing import Any

import pytest

from lookhear.engine.config import ConfigError, EngineConfig
from lookhear.engine.device.acceleration import CPU, Acceleration
from lookhear.engine.families.family import acceleration_of


def test_a_cpu_has_no_graphs_and_overlaps_only_when_told() -> None:
    assert acceleration_of(EngineConfig(), "cpu") == CPU == Acceleration()
    told = acceleration_of(EngineConfig(overlap=1, cuda_graphs="auto"), "cpu")
    assert told.overlaps and told.backend is None and told.memory is None
    assert not told.new_graphs(16).is_on


@pytest.mark.parametrize(
    "wrong", [{"overlap": 2}, {"cuda_graphs": "on"}, {"graph_gigabytes": -1.0}], ids=str
)
def test_wrong_settings_are_named(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"{name}: expected .*, got"):
        EngineConfig(**wrong)
