"""`lookhear bench` against a real server, on a few seconds of speech."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.bench.command import bench


def test_live(server: ServerProcess, tmp_path: Path) -> None:
    where = "--server", server.address.base_url, "--out", str(tmp_path)
    done = bench("live", "single", "--sessions", "1", "--language", "en", "--seconds", "8", *where)
    assert done.returncode == 0, done.stderr
    assert "commit lag per word" in done.stdout
    result: dict[str, Any] = json.loads((tmp_path / "live-single.json").read_text("utf-8"))
    assert result["wer_all"] <= 0.2, result
    assert result["drops"] == result["violation_count"] == result["retracted_words"] == 0
    assert 0 < result["commit_lag_s"]["p50"] <= result["commit_lag_s"]["p95"]
    assert result["settled_lag_s"]["p50"] <= result["commit_lag_s"]["p50"]
    assert result["utterance"]["laal_s"]["n"] == result["utterance"]["final_s"]["n"] > 0


def test_capacity_as_json(server: ServerProcess, tmp_path: Path) -> None:
    # How many it holds on a busy machine is not the matter here: bounds that nothing breaks.
    bounds = "--bound", "60", "--growth", "1000", "--wer-slack", "1", "--late", "60"
    where = "--server", server.address.base_url, "--out", str(tmp_path)
    done = bench("capacity", "--seconds", "2.5", "--most", "2", "--json", *bounds, *where)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert (result["sessions"], result["limited_by"]) == (2, "most")
    assert [probe["sessions"] for probe in result["probes"]] == [1, 2]


def test_offline(server: ServerProcess, tmp_path: Path) -> None:
    where = "--server", server.address.base_url, "--out", str(tmp_path)
    done = bench("offline", "--limit", "1", "--language", "en", "--json", *where)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["utterances"] == len(result["heard"]) == 2
    assert result["rtfx"] > 0 and result["wer_all"] <= 0.3
    assert result["answer_s"]["n"] == 2


def test_a_server_of_another_kind_is_one_line(server: ServerProcess, tmp_path: Path) -> None:
    url = server.address.websocket_url("/nothing", {})
    done = bench("live", "single", "--server", url, "--out", str(tmp_path))
    assert done.returncode == 1 and done.stdout == ""
    assert "no such address" in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr
