"""`lookhear bench abuse`: what paced sessions notice while somebody attacks the server.

Four sessions speak at the speed of speech, first undisturbed, then during each attack; meanwhile
/health is asked ten times a second. An attack may raise the p95 of the commit lag to 1.5 times and
0.1 s, no text may change, /health answers within 0.2 s, and memory is back within a minute. The
attacker comes from an address of its own (127.0.0.2) and gives way to the server's processes. Only
servers on this machine are attacked.

uploads      two recordings of an hour           json-bodies  99 MiB of empty lists in a request
leavers      the same; the clients hang up       json-frames  30 MiB of them in a message
videos       a small request of four videos      heads        1,100 half-sent heads
bombs        pictures, sounds that inflate       bodies       bodies that lack their last byte
slow-urls    pictures that trickle               silent       100 WebSockets that say nothing
schemas      schemas no grammar can hold         garbage      wrong messages, as fast as answered
deaf         sessions that never read            fragments    pings, frames of one byte
churn        sessions that are suddenly gone
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

import psutil
from rich.console import Console
from rich.table import Table

from lookhear.bench.abuse.attacker import ATTACKS, TO_PICTURES, Job
from lookhear.bench.abuse.verdict import MEMORY_MORE, MEMORY_SHARE, Seen, reasons
from lookhear.bench.generator import Target, generate
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import Trace
from lookhear.bench.numbers import Json, live_numbers
from lookhear.bench.processes import wait_idle
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import crowd, long_session
from lookhear.bench.subject import (
    above_zero,
    add_result_arguments,
    add_server_arguments,
    begin,
    consoles,
    finish,
    models,
    require_one_server,
    target,
    warm_up,
)
from lookhear.errors import ConnectionFailed, LookhearError, UsageError
from lookhear.transport.address import Server

OURS = "--model demo-whisper --model demo-qwen3-vl --allow-network 127.0.0.0/8"
SESSIONS = 4
HEALTH_EVERY, HEALTH_LIMIT = 0.1, 10.0  # seconds
LEAD = 2.0  # seconds of an attack before the sessions begin
MEMORY_SECONDS = 60.0
NEVER = float("inf")
OVERTIME = 30.0  # seconds for an attacker to end


@dataclass(slots=True)
class Vitals:
    """`with Vitals(server, pid)`: asks /health and looks at the memory all the while.

    slowest: seconds that an answer took, NEVER if one did not come. peak: MiB.
    """

    server: Server
    pid: int | None
    slowest: float = 0.0
    peak: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Vitals:
        self._thread = threading.Thread(target=self._run, name="vitals", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(HEALTH_EVERY):
            began = time.monotonic()
            try:
                self.server.get_json("/health", timeout=HEALTH_LIMIT)
                took = time.monotonic() - began
            except LookhearError:
                took = NEVER
            self.slowest = max(self.slowest, took)
            if self.pid is not None:
                self.peak = max(self.peak, memory(self.pid))


def memory(pid: int) -> float:
    """MiB of the process and all below it."""
    total = 0.0
    try:
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            total += process.memory_info().rss / 2**20
    except psutil.NoSuchProcess:
        pass
    return total


def observe(
    subject: Target, sessions: Sequence[Session], console: Console, job: Job | None
) -> tuple[Seen, Json]:
    """The sessions through the server, during the attack of `job` if there is one; and what became
    of the attacker's tries. LookhearError."""
    server = Server(subject.address, subject.api_key)
    before = memory(subject.pid) if subject.pid else 0.0
    attacker = _attacker(job) if job else None
    try:
        with Vitals(server, subject.pid) as vitals:
            if attacker is not None:
                time.sleep(LEAD)  # they come into it, they do not meet it
            traces = _spoken(subject, sessions, console)
            tally = _tally(attacker) if attacker is not None else {}
    finally:
        if attacker is not None and attacker.poll() is None:
            attacker.kill()
            attacker.wait()
    after = _memory_after(subject.pid, MEMORY_SHARE * before + MEMORY_MORE) if job else before
    memories = before, vitals.peak, after
    if not traces:
        return Seen([""] * len(sessions), NEVER, NEVER, vitals.slowest, SESSIONS, *memories), tally
    numbers = live_numbers(sessions, traces)
    return Seen(
        [metrics.hypothesis(trace) for trace in traces],
        numbers["commit_lag_s"].get("p95", NEVER),
        numbers["final_s"].get("p95", NEVER),
        vitals.slowest,
        numbers["drops"],
        *memories,
    ), tally


def _spoken(subject: Target, sessions: Sequence[Session], console: Console) -> list[Trace]:
    """Nothing, if not one session lived to its end."""
    try:
        return generate(subject, sessions, SESSIONS, console, tell_language=True)
    except ConnectionFailed as error:
        console.print(str(error), style="dim", markup=False)
        return []


def _attacker(job: Job) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lookhear.bench.abuse.attacker", job.to_json()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _tally(attacker: subprocess.Popen[str]) -> Json:
    try:
        said, complaint = attacker.communicate(timeout=OVERTIME)
    except subprocess.TimeoutExpired:
        raise LookhearError(f"the attacker does not end within {OVERTIME:g} s") from None
    if attacker.returncode:
        lines = complaint.strip().splitlines()
        raise LookhearError(f"the attacker failed: {lines[-1] if lines else 'without a word'}")
    found: Json = json.loads(said)
    return found


def _memory_after(pid: int | None, back: float) -> float:
    """The least within MEMORY_SECONDS, or the first that is low enough."""
    if pid is None:
        return 0.0
    deadline = time.monotonic() + MEMORY_SECONDS
    least = memory(pid)
    while least > back and time.monotonic() < deadline:
        time.sleep(1.0)
        least = min(least, memory(pid))
    return least


# --- command -------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    """1 if an attack was noticed too much. LookhearError."""
    options = _options(argv)
    names = options.attacks or list(ATTACKS)
    for name in names:
        if name not in ATTACKS:
            raise UsageError(f"attack: expected one of {', '.join(ATTACKS)}, got {name!r}")
    console, aside = consoles(options)
    if options.server is None and not options.serve and options.model is None:
        options.serve = OURS
    with target(options, aside) as subject:
        place = _on_this_machine(subject)
        hears, sees = models(subject)
        warm_up(subject, options, aside)
        sessions = crowd(_said(options), SESSIONS)
        about = begin(["abuse", *argv])
        aside.print("undisturbed", style="bold")
        calm, _ = observe(subject, sessions, aside, None)
        rows: list[Json] = []
        for name in names:
            if name in TO_PICTURES and sees is None:
                aside.print(f"{name}: left out, no model here sees", style="dim")
                continue
            if subject.pid is not None:
                wait_idle(subject.pid)
            aside.print(name, style="bold")
            key = {"authorization": f"Bearer {subject.api_key}"} if subject.api_key else {}
            job = Job(name, *place, LEAD + options.seconds, hears, sees, key)
            seen, tally = observe(subject, sessions, aside, job)
            rows.append(
                {"attack": name, **_numbers(seen), "tries": tally, "too_much": reasons(calm, seen)}
            )
            aside.print("; ".join(rows[-1]["too_much"]) or "holds", style="dim")
        again, _ = observe(subject, sessions, aside, None)
    result: Json = {
        "scenario": "abuse",
        **about,
        "undisturbed": _numbers(calm),
        "undisturbed_again": _numbers(again),
        "attacks": rows,
    }
    path = finish("abuse", result, options)
    if not options.json:
        console.print(table(result))
    aside.print(f"written to {path}", style="dim")
    return 1 if any(row["too_much"] for row in rows) else 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lookhear bench abuse",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help="default: all")
    add_server_arguments(parser)
    parser.add_argument(
        "--seconds", type=above_zero, default=20.0, metavar="S", help="of each; default: 20"
    )
    parser.add_argument("--language", default="en", metavar="CODE", help="default: en")
    add_result_arguments(parser)
    options = parser.parse_args(argv)
    require_one_server(options)
    if options.seconds <= 0:
        raise UsageError(f"--seconds: expected more than 0, got {options.seconds:g}")
    return options


def _said(options: argparse.Namespace) -> Session:
    return long_session("speaker", 0, options.seconds, options.data, options.language)


def _on_this_machine(subject: Target) -> tuple[str, int]:
    """Host and port. UsageError for any other machine: this is no weapon."""
    parts = urlsplit(subject.address)
    if parts.scheme not in ("http", "ws") or parts.hostname not in ("127.0.0.1", "localhost"):
        raise UsageError(
            f"--server: expected http://127.0.0.1:PORT, for only servers on this machine are "
            f"attacked, got {subject.address}"
        )
    return "127.0.0.1", parts.port or 80


def _numbers(seen: Seen) -> Json:
    """JSON has no infinity: what never came is null."""
    found = asdict(seen)
    for name, value in found.items():
        if isinstance(value, float):
            found[name] = None if value == NEVER else round(value, 3)
    return found


def table(result: Json) -> Table:
    """A line for each attack."""
    shown = Table(title="\nfour paced sessions", title_justify="left", box=None)
    for number, column in enumerate(
        ("during", "lag p95 s", "final p95 s", "/health s", "MiB before", "peak", "after", "")
    ):
        shown.add_column(column, justify="right" if 0 < number < 7 else "left", no_wrap=number < 7)
    rows = [
        {"attack": "nothing", "too_much": [], **result["undisturbed"]},
        *result["attacks"],
        {"attack": "nothing, at the end", "too_much": [], **result["undisturbed_again"]},
    ]
    for row in rows:
        seconds = [row[name] for name in ("lag", "final", "health")]
        shown.add_row(
            row["attack"],
            *("never" if value is None else f"{value:.3f}" for value in seconds),
            *(f"{row[f'memory_{when}']:.0f}" for when in ("before", "peak", "after")),
            "; ".join(row["too_much"]) or "holds",
        )
    return shown
