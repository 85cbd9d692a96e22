"""What a checkpoint may say of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.checkpoints.traits import Traits


def written(folder: Path, data: object) -> Path:
    (folder / "lookhear.json").write_text(json.dumps(data))
    return folder


def test_most_checkpoints_say_nothing(tmp_path: Path) -> None:
    assert Traits.from_folder(tmp_path) == Traits(False, None, True)


def test_all_of_it(tmp_path: Path) -> None:
    data = {"short_windows": True, "longest_window_seconds": 12, "carries_text": False}
    assert Traits.from_folder(written(tmp_path, data)) == Traits(True, 12, False)


@pytest.mark.parametrize(
    "data",
    [
        {"short_windows": "yes"},
        {"carries_text": 1},
        {"longest_window_seconds": 121},
        {"longest_window_seconds": "12"},
        {"evidence_seconds": -1},
        {"evidence_seconds": "1"},
    ],
)
def test_wrong_values_name_the_field(tmp_path: Path, data: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match=next(iter(data)) + ": expected"):
        Traits.from_folder(written(tmp_path, data))
