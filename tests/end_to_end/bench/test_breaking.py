"""`lookhear bench` attacks a real server, and breaks one of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.bench.command import bench


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
