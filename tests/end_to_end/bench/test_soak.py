"""`lookhear bench soak` on a server of its own, interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SECONDS = 120.0


def test_it_is_interrupted_and_reports(tmp_path: Path) -> None:
    """Each row is in the file when it is there."""
    short = "--seconds", "3", "--file-seconds", "3", "--file-every", "1", "--every", "4"
    few = "--minutes", "60", "--share", "0.05", "--out", str(tmp_path)
    command = [sys.executable, "-m", "lookhear", "bench", "soak", *short, *few]
    path = tmp_path / "soak.json"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as soak:
        result: dict[str, Any] = {}
        deadline = time.monotonic() + SECONDS
        while not (result.get("sessions") and result["files"] and result["videos"]):
            assert soak.poll() is None and time.monotonic() < deadline, result
            time.sleep(0.1)
            result = json.loads(path.read_text("utf-8")) if path.exists() else {}
        soak.send_signal(signal.SIGINT)
        said, complaints = soak.communicate(timeout=60)
    assert soak.returncode == 0, complaints
    assert "commit lag p95" in said and "Traceback" not in complaints
    done: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert len(done["minutes"]) >= len(result["minutes"]) and done["reasons"] == []
    assert done["sessions_at_once"] == max(1, int(0.05 * done["places"]))
    assert done["wrong_words"] <= 0.2 * done["words"] and done["words"] > 0
    for row in done["minutes"]:
        assert set(row["memory_mib"]) >= {"gateway", "engine 1", "engine 2"}
        assert row["descriptors"]["gateway"] > 3
