"""Tables of tiles: what is in a file is checked, and what is measured is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lookhear.kernels.triton import configs
from lookhear.kernels.triton.configs import (
    DEFAULTS,
    HOPPER,
    Tile,
    parsed,
    table,
    tile,
    trying,
)

CARD = "NVIDIA H200 (of tests)"


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with a card; returns where its user's table is looked for."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: CARD)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 6))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = configs.user_path(CARD)
    path.parent.mkdir(parents=True)
    # Only what is tested here may see such a machine's tiles.
    monkeypatch.setattr(configs, "table", table.__wrapped__)
    return path


def test_without_a_card_there_are_defaults() -> None:
    assert dict(table()) == dict(DEFAULTS)
    assert tile("norm", 128) == Tile(8, 4) and tile("norm", 129) == Tile(4, 4)


def test_what_was_measured_on_a_hopper_is_for_hoppers(
    card: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tile("few rows, norm", 1) == dict(DEFAULTS["few rows, norm"])[1]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert tile("few rows, norm", 1) == dict(HOPPER["few rows, norm"])[1]
    assert tile("norm", 128) == dict(DEFAULTS["norm"])[128]
    for kernel, rows in HOPPER.items():
        assert [limit for limit, _ in rows] == [limit for limit, _ in DEFAULTS[kernel]], kernel


def test_trials_of_two_kernels_hold_side_by_side() -> None:
    with trying("norm", Tile(2, 8)), trying("vocabulary", Tile(512, 4)):
        assert tile("norm", 128) == Tile(2, 8) and tile("vocabulary", 1) == Tile(512, 4)
    assert tile("norm", 128) == Tile(8, 4)


def test_a_measured_table_stands_instead_of_the_defaults(card: Path) -> None:
    rows = [[128, [4, 2, 1]], [None, [2, 8, 1]]]
    card.write_text(json.dumps({"device": CARD, "tiles": {"norm": rows}}))
    assert tile("norm", 100) == Tile(4, 2) and tile("norm", 5000) == Tile(2, 8)
    assert tile("vocabulary", 7) == DEFAULTS["vocabulary"][0][1]
    assert card.name == "nvidia-h200-of-tests.json"


@pytest.mark.parametrize(
    "tiles",
    [
        None,
        {"norms": [[None, [8, 4, 1]]]},
        {"norm": []},
        {"norm": [[None, [8, 4]]]},
        {"norm": [[None, [7, 4, 1]]]},
        {"norm": [[None, [8, 3, 1]]]},
        {"norm": [[128, [8, 4, 1]]]},
        {"norm": [[128, [8, 4, 1]], [64, [8, 4, 1]], [None, [8, 4, 1]]]},
        {"norm": [["all", [8, 4, 1]]]},
        {"norm": [[None, [True, 4, 1]]]},
    ],
)
def test_a_broken_table_says_so_and_breaks_nothing(
    tiles: Any, card: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="tiles"):
        parsed({"tiles": tiles})
    card.write_text(json.dumps({"tiles": tiles}))
    assert tile("norm", 128) == Tile(8, 4)
    assert "tiles" in caplog.text
    card.write_text("{")
    assert tile("norm", 128) == Tile(8, 4)


def test_a_trial_holds_for_one_kernel_and_ends() -> None:
    with trying("norm", Tile(2, 8)):
        assert tile("norm", 9) == Tile(2, 8)
        assert tile("vocabulary", 9) == DEFAULTS["vocabulary"][0][1]
    assert tile("norm", 9) == Tile(8, 4)


@pytest.mark.parametrize(
    ("cuda", "capability", "wanted", "expected"),
    [
        ("13.0", (9, 0), "auto", True),
        ("13.0", (12, 0), "auto", True),
        ("13.0", (8, 9), "auto", False),  # the instructions came with Hopper
        ("13.0", (9, 0), "off", False),
        (None, (9, 4), "auto", False),  # another maker's card, which torch calls CUDA too
    ],
)
def test_launches_are_early_where_the_card_can(
    cuda: str | None,
    capability: tuple[int, int],
    wanted: str,
    expected: bool,
    card: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setenv("LOOKHEAR_EARLY_LAUNCH", wanted)
    assert configs.launches_early.__wrapped__() is expected
