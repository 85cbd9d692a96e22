"""`lookhear bench human` against a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.bench.command import bench


def test_human(server: ServerProcess, tmp_path: Path) -> None:
    """By any recordings that --data names: the real ones are in tests/real."""
    data = Path(__file__).parents[2] / "data"
    few = "--lang", "en", "--limit", "1", "--minutes", "0.1", "--burst", "--data", str(data)
    where = "--server", server.address.base_url, "--out", str(tmp_path)
    done = bench("human", "pauses", "nobody", *few, *where)
    assert done.returncode == 0, done.stderr
    assert "commit lag" in done.stdout and "white noise" in done.stdout
    result: dict[str, Any] = json.loads((tmp_path / "human.json").read_text("utf-8"))
    pauses, nobody = result["conditions"]
    for way in ("file", "live", "burst"):
        assert pauses[way]["wer_all"] <= 0.2, pauses
    live = pauses["live"]
    assert live["violation_count"] == live["retracted_words"] == live["overtakings"] == 0
    assert live["sentences"] > 0 and live["gap_to_file"]["utterances"] > 0
    assert set(nobody["live"]["by_sound"]) == set(nobody["file"]["heard"])
