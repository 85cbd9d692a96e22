"""`lookhear bench sweep` against a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.bench.command import bench


def test_what_was_measured_is_not_measured_again(server: ServerProcess, tmp_path: Path) -> None:
    asked = ["--server", server.address.base_url, "--json", "--out", str(tmp_path)]
    asked += ["--sessions", "--lengths", "2", "--seconds", "1"]
    done = bench("sweep", *asked, "--rates", "8")
    assert done.returncode == 0, done.stderr
    [first] = json.loads(done.stdout)["points"]
    assert first["numbers"]["files"] == 8 and first["numbers"]["refused"] == 0
    assert first["numbers"]["wer_all"] < 0.2
    (tmp_path / "sweep.html").unlink()
    done = bench("sweep", *asked, "--rates", "8", "16")
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["points"][0] == first and result["points"][1]["point"]["load"] == 16
    assert "1 points are known from before" in done.stderr
    html = (tmp_path / "sweep.html").read_text("utf-8")
    assert html.count("<tr>") == 1 + 2 and "<svg" in html
