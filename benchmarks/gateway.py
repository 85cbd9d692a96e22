"""How many live sessions one core of the gateway carries, whatever the model: no engine works.

    python -m benchmarks.gateway                     # search, with and without voice detection
    python -m benchmarks.gateway --sessions 300      # one number of sessions
    python -m benchmarks.gateway --sessions 300 --profile FOLDER   # py-spy, not to be timed

The real gateway process, its threads included, is pinned to one core; a null engine (real channel,
no model) and the load generator share the others. Every session sends 50 messages a second. It is
carried if the 99th percentile of the event-loop lag is below 50 ms, all audio that was sent is
heard within the window, and no session is lost; a run whose generator was late says nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.socket_load.flood import PACKET_SECONDS
from lookhear.bench import machine
from lookhear.bench.result_file import add_file_arguments, write_result

Json = dict[str, Any]

MODES: dict[str, Json] = {
    "server_vad": {"type": "transcription"},
    "manual": {"type": "transcription", "audio": {"input": {"turn_detection": None}}},
}
LAG_BOUND_MS = 50.0  # p99
GENERATOR_BOUND_MS = 20.0  # p99 of its lateness: a packet
BACKLOG_BOUND = 0.5  # seconds of audio per session that may be unheard more than before


@dataclass(frozen=True, slots=True)
class Setting:
    """core: the gateway's. others: for the engine and the generator."""

    core: int
    others: list[int]
    seconds: float
    settle: float
    seed: int


@contextlib.contextmanager
def process(module: str, options: Json, cores: Sequence[int]) -> Iterator[subprocess.Popen[str]]:
    """A module of ours that talks in JSON lines; ended with its pipe."""
    # Pinned before it begins: a library may start threads when it is imported.
    command = ["taskset", "--cpu-list", ",".join(map(str, cores))]
    command += [sys.executable, "-m", module, json.dumps(options)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def line(child: subprocess.Popen[str]) -> Json:
    """The next JSON line of a child. RuntimeError if it ended."""
    assert child.stdout is not None
    text = child.stdout.readline()
    if not text:
        raise RuntimeError(f"expected a line of {child.args!r}, it ended with {child.wait()}")
    found: Json = json.loads(text)
    return found


def report(gateway: subprocess.Popen[str]) -> Json:
    """What happened since the last report."""
    assert gateway.stdin is not None
    gateway.stdin.write("\n")
    gateway.stdin.flush()
    return line(gateway)


def measure(sessions: int, mode: str, setting: Setting, profile: Path | None = None) -> Json:
    """One run -> its numbers; "carried" says whether it counts."""
    options = {"engine_cores": setting.others}
    with process("benchmarks.socket_load.null_gateway", options, [setting.core]) as gateway:
        port = line(gateway)["port"]
        wanted = {
            "port": port,
            "sessions": sessions,
            "update": MODES[mode],
            "seconds": setting.seconds + 1.0,
            "settle": setting.settle,
            "recording": 120.0,
            "seed": setting.seed,
        }
        with process("benchmarks.socket_load.flood", wanted, setting.others) as flood:
            line(flood)  # all are open
            time.sleep(setting.settle)
            report(gateway)
            if profile is not None:
                _profile(gateway.pid, setting.seconds, profile / f"{mode}-{sessions}")
            else:
                time.sleep(setting.seconds)
            found = report(gateway)
            played = line(flood)
    unheard = sessions - found["heard_seconds"] / found["seconds"]
    result = {
        "sessions": sessions,
        "mode": mode,
        "messages_per_second": round(sessions / PACKET_SECONDS),
        "heard_per_second": round(found["heard_seconds"] / found["seconds"], 2),
        "backlog_seconds_per_session": round(unheard * found["seconds"] / sessions, 3),
        **{key: found[key] for key in ("seconds", "cpu", "lag_ms")},
        # Of those that were handled: fewer than were sent, if it fell behind.
        "us_per_message": round(
            1e6 * found["cpu"] * found["seconds"] * PACKET_SECONDS / max(found["heard_seconds"], 1),
            1,
        ),
        "sessions_lost": sessions - found["sessions"],
        "generator": played,
    }
    return result | {"verdict": verdict(result)}


def verdict(result: Json) -> str:
    """ "carried", or why not."""
    if result["generator"]["late_ms"].get("p99", 0.0) > GENERATOR_BOUND_MS:
        return "generator late"
    if result["sessions_lost"] or result["generator"]["errors"]:
        return "sessions lost"
    if result["lag_ms"]["p99"] >= LAG_BOUND_MS:
        return "loop late"
    if result["backlog_seconds_per_session"] > BACKLOG_BOUND:
        return "falls behind"
    return "carried"


def _profile(pid: int, seconds: float, path: Path) -> None:
    """Where the gateway spends its time, as py-spy sees it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["py-spy", "record", "--pid", str(pid), "--duration", str(int(seconds))]
    command += ["--rate", "250", "--format", "raw", "--output", f"{path}.txt"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def search(mode: str, setting: Setting, low: int, step: int, console: Console) -> list[Json]:
    """All runs on the way to the largest number of sessions that is carried: up from `low` by
    doubling steps, then between the last that was and the first that was not."""
    runs: list[Json] = []

    def carried(sessions: int) -> bool:
        # Another program on the machine can spoil a run, never make it better: best of two.
        for _ in range(2):
            runs.append(measure(sessions, mode, setting))
            console.print(brief(runs[-1]))
            if runs[-1]["verdict"] == "carried":
                return True
        return False

    best, worst, stride = 0, 0, step
    at = low
    while not worst:
        if carried(at):
            best, at, stride = at, at + stride, stride * 2
        else:
            worst = at
    while worst - best > step:
        at = best + (worst - best) // (2 * step) * step or best + step
        if carried(at):
            best = at
        else:
            worst = at
    return runs


def brief(run: Json) -> str:
    """A run in one line."""
    lag, late = run["lag_ms"], run["generator"]["late_ms"]
    return (
        f"{run['mode']:>10} {run['sessions']:>5} sessions: loop lag p50 {lag['p50']:.1f} "
        f"p99 {lag['p99']:.1f} max {lag['max']:.1f} ms, {100 * run['cpu']:.0f} % of the core, "
        f"{run['us_per_message']:.0f} us per message, "
        f"behind {run['backlog_seconds_per_session']:.2f} s, generator p99 {late['p99']:.1f} ms: "
        f"{run['verdict']}"
    )


def best(runs: list[Json], mode: str) -> Json | None:
    """The largest run of the mode that was carried."""
    good = [run for run in runs if run["mode"] == mode and run["verdict"] == "carried"]
    return max(good, key=lambda run: int(run["sessions"]), default=None)


def table(runs: list[Json]) -> Table:
    """The largest run of each mode that holds."""
    shown = Table(title="one core of the gateway", box=None, title_justify="left")
    for name in ("mode", "sessions", "messages/s", "lag p50", "p99", "max ms", "core %", "us/msg"):
        shown.add_column(name, justify="right")
    for mode in MODES:
        if (run := best(runs, mode)) is None:
            continue
        lag, rate = run["lag_ms"], run["messages_per_second"]
        cells = [f"{lag[q]:.1f}" for q in ("p50", "p99", "max")]
        cost = f"{run['us_per_message']:.0f}"
        shown.add_row(
            mode, str(run["sessions"]), str(rate), *cells, f"{100 * run['cpu']:.0f}", cost
        )
    return shown


def main(argv: list[str]) -> int:
    """Prints a table and writes the result file."""
    cores = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="benchmarks.gateway", description=__doc__)
    parser.add_argument("--sessions", type=int, nargs="*", help="only these, no search")
    parser.add_argument("--mode", choices=MODES, nargs="*", default=list(MODES))
    parser.add_argument("--seconds", type=float, default=20.0, help="counted, of each run")
    parser.add_argument("--settle", type=float, default=5.0, help="seconds before that")
    parser.add_argument("--low", type=int, default=100, help="where the search begins")
    parser.add_argument("--step", type=int, default=20, help="how exactly it ends")
    parser.add_argument("--core", type=int, default=cores[0], help="the gateway's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="where py-spy writes to")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    console = Console(highlight=False)
    others = [core for core in cores if core != options.core] or cores
    setting = Setting(options.core, others, options.seconds, options.settle, options.seed)
    result = machine.describe(["benchmarks.gateway", *argv])
    runs: list[Json] = []
    for mode in options.mode:
        if options.sessions:
            for sessions in options.sessions:
                runs.append(measure(sessions, mode, setting, options.profile))
                console.print(brief(runs[-1]))
        else:
            runs += search(mode, setting, options.low, options.step, console)
    result |= {
        "sessions_per_core": {
            mode: found["sessions"] for mode in options.mode if (found := best(runs, mode))
        },
        "runs": runs,
    }
    console.print(table(runs))
    path = write_result(options, "gateway", result)
    console.print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
