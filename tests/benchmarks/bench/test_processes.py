"""What a server's processes used, and what its engines did: of all that a model has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.bench.processes import Usage, Watch, Work
from lookhear.engine.client.state import Availability, EngineState, Recovery, labelled
from lookhear.engine.messages import Pong
from lookhear.gateway.telemetry.metrics import Metrics

COUNTERS = "requests", "drafted_tokens", "accepted_tokens"
counts = st.tuples(*(st.integers(0, 10**6) for _ in COUNTERS), st.integers(0, 10**6))


@given(st.lists(counts, min_size=1, max_size=4))
def test_the_work_of_all_engines_is_counted(engines: list[tuple[int, ...]]) -> None:
    """As the gateway writes it."""
    states, stats = [], {}
    for number, (*values, busy) in enumerate(engines, 1):
        states.append(EngineState("m", Availability.READY, "", 1.0, number))
        counters = dict(zip(COUNTERS, values, strict=True))
        stats[labelled("m", number)] = Pong(1, counters, busy)
    metrics = Metrics()
    metrics.see_engines(states, stats, {}, Recovery())
    work = Work.parse(metrics.render().decode(), 5.0)
    requests, drafted, accepted, busy = map(sum, zip(*engines, strict=True))
    assert work == Work(5.0, requests, busy, drafted, accepted)


def test_a_server_that_says_nothing_of_engines() -> None:
    assert Work.parse("lookhear_sessions_active 0.0\n", 0.0) is None


def test_processes_of_one_name_are_added_up() -> None:
    watch = Watch(os.getpid())
    half = [(at, 100 << 20, at / 2) for at in range(0, 121, 2)]
    watch._usages = {
        1: Usage("engine", [(float(at), rss, cpu) for at, rss, cpu in half]),
        2: Usage("engine", [(float(at), 2 * rss, cpu) for at, rss, cpu in half]),
        3: Usage("gateway", [(float(at), rss, cpu) for at, rss, cpu in half[:31]]),
    }
    table = watch.by_minute()
    assert [row["minute"] for row in table["engine"]] == [0, 1]
    for row in table["engine"]:
        assert row["rss_mib"] == pytest.approx(300.0) and row["cpu"] == pytest.approx(1.0)
    assert table["gateway"] == [{"minute": 0, "rss_mib": 100.0, "cpu": 0.5}]


def test_what_a_process_used_that_began_meanwhile_counts() -> None:
    watch = Watch(os.getpid())
    watch._sample()
    busy = "import sys, time\nwhile time.process_time() < 0.6: pass\nprint(flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-c", busy + "sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        watch._sample()
        child.stdin.close()
    assert watch.totals()["cpu_seconds"] > 0.5  # the system counts in hundredths
