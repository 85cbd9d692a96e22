"""The numbers of several workers together. Each is a process: prometheus_client decides when it is
imported where numbers are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lookhear.gateway.telemetry.metrics import FOLDER_VARIABLE, Metrics, worker_ended

WORKER = """
import os, sys
from pathlib import Path
from lookhear.engine.client.state import Availability, EngineState, Recovery
from lookhear.engine.messages import LiveLoad, Pong
from lookhear.gateway.telemetry.metrics import Metrics

number, folder = int(sys.argv[1]), Path(sys.argv[2])
metrics = Metrics(folder)
metrics.sessions_active.inc(number)
metrics.turns.labels("completed").inc(10 * number)
metrics.commit_lag.observe(0.1 * number)

def see(counters):
    state = EngineState("m", Availability.READY, "", 1.0, number)
    load = LiveLoad(1, number, 0.5 * number, 1.0, 2.0, 1)
    metrics.see_engines([state], {state.label: Pong(1, counters, 7.0)}, {"m": load},
                        Recovery(moved=number, held_bytes=number))

see({"steps": 5 * number})
print(os.getpid(), flush=True)
for line in sys.stdin:
    if line == "died\\n":
        state = EngineState("m", Availability.RESTARTING, "", 1.0, number)
        metrics.see_engines([state], {}, {}, Recovery(moved=number))
    if line == "ended\\n":
        metrics.see_engines([], {}, {}, Recovery(moved=number))
    if line == "back\\n":
        see({"steps": 1})
    print(metrics.render().decode() + "# EOF", flush=True)
"""
Values = dict[tuple[str, str], float]


class Worker:
    def __init__(self, number: int, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(number), str(folder)],
            env={**os.environ, FOLDER_VARIABLE: str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None and self.process.stdin is not None
        self._said, self._asked = self.process.stdout, self.process.stdin
        assert int(self._said.readline()) == self.process.pid

    def ask(self, what: str = "all") -> Values:
        """By name, and the replica it is of."""
        self._asked.write(f"{what}\n")
        self._asked.flush()
        text = "".join(iter(self._said.readline, "# EOF\n"))
        return {
            (sample.name.removeprefix("lookhear_"), sample.labels.get("replica", "")): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if "le" not in sample.labels
        }

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._said.close()
        self._asked.close()


def test_whoever_is_asked_tells_of_all_and_of_those_that_are_gone(tmp_path: Path) -> None:
    first, second = workers = [Worker(1, tmp_path), Worker(2, tmp_path)]
    try:
        seen = first.ask()
        assert seen == second.ask()
        assert seen["sessions_active", ""] == 3 and seen["turns_total", ""] == 30
        assert seen["commit_lag_seconds_count", ""] == 2
        assert seen["commit_lag_seconds_sum", ""] == pytest.approx(0.3)
        assert seen["live_places", ""] == 3 and seen["predicted_commit_lag_seconds", ""] == 1.0
        assert (seen["engine_steps", "1"], seen["engine_steps", "2"]) == (5, 10)
        assert seen["recovery_moved", ""] == seen["recovery_held_bytes", ""] == 3
        # An engine that is down has nothing, and the other's numbers stay.
        seen = first.ask("died")
        assert (seen["engine_ready", "1"], seen["engine_ready", "2"]) == (0, 1)
        assert ("engine_steps", "1") not in seen and seen["engine_steps", "2"] == 10
        assert seen["live_places", ""] == 2
        # One that was not needed any more is none that does not come up again.
        seen = first.ask("ended")
        assert seen == second.ask()
        assert ("engine_ready", "1") not in seen and seen["engine_ready", "2"] == 1
        seen = first.ask("back")
        assert seen["engine_ready", "1"] == 1 and seen["engine_steps", "1"] == 1
        # What is only true of the living goes with a worker, and what it has counted stays.
        second.end()
        worker_ended(second.process.pid, tmp_path)
        seen = first.ask()
        assert seen["sessions_active", ""] == 1 and seen["live_places", ""] == 1
        assert ("engine_steps", "2") not in seen
        assert seen["turns_total", ""] == 30 and seen["recovery_moved", ""] == 3
    finally:
        for worker in workers:
            worker.end()


def test_alone_and_together_they_have_the_same_names(tmp_path: Path) -> None:
    worker = Worker(1, tmp_path)
    try:
        together = {name for name, _ in worker.ask()}
    finally:
        worker.end()
    alone = {
        sample.name.removeprefix("lookhear_")
        for family in text_string_to_metric_families(Metrics().render().decode())
        for sample in family.samples
        if "le" not in sample.labels
    }
    assert {name for name in alone if not name.endswith("_created")} <= together
