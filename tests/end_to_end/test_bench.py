"""`lookhear bench` against a real server, on a few seconds of speech."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lookhear.commands.private_server import ServerProcess


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lookhear", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
    )


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
    done = bench("capacity", "--seconds", "4", "--most", "2", "--json", *bounds, *where)
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


def test_human(server: ServerProcess, tmp_path: Path) -> None:
    """By any recordings that --data names: the real ones are in tests/real."""
    data = Path(__file__).parent.parent / "data"
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


def test_a_server_of_another_kind_is_one_line(server: ServerProcess, tmp_path: Path) -> None:
    url = server.address.websocket_url("/nothing", {})
    done = bench("live", "single", "--server", url, "--out", str(tmp_path))
    assert done.returncode == 1 and done.stdout == ""
    assert "no such address" in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


def test_abuse(server: ServerProcess, tmp_path: Path) -> None:
    """Whether it holds is a matter of time, which is not the matter here: texts are."""
    where = "--server", server.address.base_url, "--out", str(tmp_path)
    done = bench("abuse", "garbage", "churn", "--seconds", "4", "--json", *where)
    assert done.returncode in (0, 1), done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert [row["attack"] for row in result["attacks"]] == ["garbage", "churn"]
    for row in result["attacks"]:
        assert sum(row["tries"].values()) > 10, row
        assert row["drops"] == 0 and row["texts"] == result["undisturbed"]["texts"]
        assert all(row["texts"])


def test_nobody_else_is_attacked(tmp_path: Path) -> None:
    done = bench("abuse", "--server", "http://192.0.2.1:8000", "--out", str(tmp_path))
    assert done.returncode == 2 and "only servers on this machine" in done.stderr


def test_chaos(tmp_path: Path) -> None:
    """A few faults of each kind that needs no new engine; two hundred are for a quiet machine."""
    faults = "cut-sockets", "freeze-sockets", "cut-frozen", "freeze-engine"
    few = "--faults", "4", "--sessions", "1", "--seconds", "8", "--json", "--out", str(tmp_path)
    done = bench("chaos", *faults, *few)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert sum(result["faults"].values()) == 4 and set(result["faults"]) <= set(faults)
    assert result["lost"] == result["doubled"] == result["unfinished"] == 0
    assert result["words"] > 5 and result["reconnects"] > 0
    assert bench("chaos", "no-such-fault").returncode == 2
