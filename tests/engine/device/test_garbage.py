"""The collector is left alone while there is work, and put back as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from lookhear.engine.device.garbage import BUSY_EVERY, IDLE_EVERY, THRESHOLDS, tended, unlooked_at

pytestmark = pytest.mark.usefixtures("left_alone_again")


@pytest.fixture
def full_collections() -> Iterator[list[int]]:
    seen: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            seen.append(1)

    gc.callbacks.append(count)
    yield seen
    gc.callbacks.remove(count)


def test_all_is_looked_at_when_idle_and_seldom_when_busy(full_collections: list[int]) -> None:
    before = gc.get_threshold()
    with tended(100.0) as tend:
        assert gc.get_threshold() == THRESHOLDS and gc.get_freeze_count() > 0
        full_collections.clear()
        for now, is_idle, expected in (
            (100.0 + IDLE_EVERY - 0.1, True, 0),
            (100.0 + IDLE_EVERY, False, 0),
            (100.0 + IDLE_EVERY, True, 1),
            (100.0 + IDLE_EVERY + 0.1, True, 1),
            (100.0 + IDLE_EVERY + BUSY_EVERY - 0.1, False, 1),
            (100.0 + IDLE_EVERY + BUSY_EVERY, False, 2),
        ):
            tend(now, is_idle)
            assert len(full_collections) == expected, (now, is_idle)
    assert gc.get_threshold() == before


@pytest.mark.parametrize("had_frozen", [False, True])
def test_what_was_frozen_before_stays_frozen(
    had_frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "collect", lambda: 0)  # of all that the tests have loaded: a second
    gc.freeze() if had_frozen else gc.unfreeze()
    with tended(100.0):
        assert gc.get_freeze_count() > 0
    assert (gc.get_freeze_count() > 0) == had_frozen


def test_what_is_loaded_is_never_looked_at(full_collections: list[int]) -> None:
    with unlooked_at():
        assert not gc.isenabled()
        loaded = [[number] for number in range(100_000)]
    assert gc.isenabled() and full_collections == []
    assert gc.get_freeze_count() > len(loaded)
    gc.unfreeze()
