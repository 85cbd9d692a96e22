"""`lookhear bench capacity`: the most live sessions that a server holds within stated bounds.

N speakers of the same text (each at its own loudness and moment) talk at the speed of speech. N
holds if p95 commit lag and p95 final text stay within the bounds, the WER is not worse than
that of one session, the lag does not grow and no session is dropped.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from lookhear.bench.capacity import Bounds, Capacity, Probe, search, verdict
from lookhear.bench.generator import Target, generate
from lookhear.bench.numbers import Json, lags_of, live_numbers
from lookhear.bench.processes import Watch, wait_idle
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import crowd, long_session
from lookhear.bench.subject import (
    above_zero,
    add_result_arguments,
    add_server_arguments,
    begin,
    consoles,
    finish,
    from_zero,
    require_one_server,
    target,
    warm_up,
)
from lookhear.errors import ConnectionFailed, UsageError

ALONE = 2  # sessions, one after the other, that say what WER one has
PAUSE_SECONDS = 3.0  # between two probes of a server whose processes we cannot see


def measure(
    subject: Target,
    session: Session,
    sessions: int,
    console: Console,
    *,
    seed: int = 0,
    packet_seconds: float = 0.02,
) -> Json:
    """So many sessions at once, when the server has come to rest: all numbers, the lags of words,
    and if the server is ours to look at, what its processes used. ConnectionFailed."""
    if subject.pid is None:
        time.sleep(PAUSE_SECONDS)
    else:
        wait_idle(subject.pid)  # what was left undone before is not charged to these
    speakers = crowd(session, max(sessions, ALONE))
    with contextlib.ExitStack() as stack:
        watch = None if subject.pid is None else stack.enter_context(Watch(subject.pid))
        traces = generate(
            subject,
            speakers,
            sessions,
            console,
            seed=seed,
            packet_seconds=packet_seconds,
            tell_language=True,
        )
    used = watch.totals() if watch else {}
    return live_numbers(speakers, traces) | used | {"lags": lags_of(speakers, traces)}


class Prober:
    """Judges a server by what `measure` says of so many sessions; each number is measured once.

    `search(prober.by(bounds), most)` for any bounds: what was measured for others is used again.
    """

    def __init__(self, measure: Callable[[int], Json], console: Console) -> None:
        self._measure = measure
        self._console = console
        self._measured: dict[int, Json | ConnectionFailed] = {}

    def numbers(self, sessions: int) -> Json:
        """ConnectionFailed if no session got an answer."""
        if sessions not in self._measured:
            try:
                self._measured[sessions] = self._measure(sessions)
            except ConnectionFailed as error:
                self._measured[sessions] = error
        found = self._measured[sessions]
        if isinstance(found, ConnectionFailed):
            raise found
        return found

    def by(self, bounds: Bounds) -> Callable[[int], Probe]:
        """The probe function of a search. It raises ConnectionFailed if not even one session gets
        an answer."""
        return lambda sessions: self._probe(sessions, bounds)

    def _probe(self, sessions: int, bounds: Bounds) -> Probe:
        single = self._measured.get(1)
        alone = single["wer_all"] if sessions > 1 and isinstance(single, dict) else None
        try:
            probe = verdict(sessions, self.numbers(sessions), alone, bounds)
        except ConnectionFailed as error:
            if sessions == 1:
                raise
            probe = Probe(sessions, False, (str(error),))
        if probe.holds is None:
            del self._measured[sessions]  # to be measured anew
        words = {True: "holds", False: "does not hold", None: "says nothing"}[probe.holds]
        why = "".join(f"; {reason}" for reason in probe.reasons)
        self._console.print(f"{sessions} sessions: {words}{why}", style="dim")
        return probe


def as_json(capacity: Capacity, bounds: Bounds) -> Json:
    """The answer with its bounds and probes, without the lags of single words."""
    return {
        "bounds": asdict(bounds),
        "sessions": capacity.sessions,
        "limited_by": capacity.limited_by,
        "probes": [_without_lags(asdict(probe)) for probe in capacity.probes],
    }


def _without_lags(probe: Json) -> Json:
    """Thousands of numbers that only the plots of a few measurements need."""
    kept = {key: value for key, value in probe["numbers"].items() if key != "lags"}
    return probe | {"numbers": kept}


def table(capacity: Json) -> Table:
    """Every probe, and the answer in the title."""
    bounds = capacity["bounds"]
    kind = "settled" if bounds["settled"] else "commit"
    title = (
        f"\n{capacity['sessions']} sessions hold (p95 {kind} lag <= {bounds['lag']:g} s, "
        f"p95 final text <= {bounds['final']:g} s); limited by: {capacity['limited_by']}"
    )
    shown = Table(title=title, title_justify="left", title_style="bold", box=None)
    for name in ("sessions", "lag p50", "p95 s", "final p95 s", "WER", "CPU", "MiB", ""):
        shown.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    for probe in sorted(capacity["probes"], key=lambda probe: int(probe["sessions"])):
        shown.add_row(str(probe["sessions"]), *_cells(probe, kind))
    return shown


def _cells(probe: Json, kind: str) -> list[str]:
    numbers: Json = probe["numbers"]
    said = {True: "holds", False: "", None: "says nothing: "}[probe["holds"]]
    why = said + "; ".join(probe["reasons"])
    if not numbers:
        return ["-"] * 6 + [why]
    lag = numbers[f"{kind}_lag_s"]
    final = numbers["utterance"]["final_shown_s" if kind == "settled" else "final_s"]
    cells = [f"{found[key]:.2f}" if found["n"] else "-" for found, key in _wanted(lag, final)]
    cpu = numbers.get("cpu_seconds")
    memory = numbers.get("peak_rss_mib")
    return [
        *cells,
        f"{numbers['wer_all']:.1%}",
        "-" if cpu is None else f"{cpu / max(0.1, numbers['audio_seconds']):.3f}",
        "-" if memory is None else f"{memory:.0f}",
        why,
    ]


def _wanted(lag: Json, final: Json) -> list[tuple[Json, str]]:
    return [(lag, "p50"), (lag, "p95"), (final, "p95")]


# --- command -------------------------------------------------------------------------------------


def add_bound_arguments(parser: argparse.ArgumentParser) -> None:
    """What `bounds_of` and a search read."""
    default = Bounds()
    add: Any = parser.add_argument
    add("--bound", type=above_zero, default=default.lag, metavar="S", help="of p95 lag; default 2")
    add(
        "--final-bound", type=above_zero, metavar="S", help="of p95 final text; default: as --bound"
    )
    add("--wer-slack", type=from_zero, default=default.wer_slack, metavar="X", help="default 0.01")
    add("--growth", type=from_zero, default=default.growth, metavar="S", help="of lag, per minute")
    add("--late", type=from_zero, default=default.late, metavar="S", help="of the generator")
    add("--settled", action="store_true", help="count text from when it did not change any more")
    add("--most", type=int, default=64, metavar="N", help="sessions to try at most; default 64")
    add("--tolerance", type=from_zero, default=0.0, metavar="X", help="share of N to leave open")


def bounds_of(options: argparse.Namespace) -> Bounds:
    """UsageError."""
    if options.most < 1:
        raise UsageError(f"--most: expected at least 1, got {options.most}")
    final = options.bound if options.final_bound is None else options.final_bound
    return Bounds(
        options.bound,
        final,
        options.wer_slack,
        options.growth,
        options.late,
        options.settled,
    )


def main(argv: list[str]) -> int:
    """1 if not even one session holds. LookhearError."""
    parser = argparse.ArgumentParser(
        prog="lookhear bench capacity",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser)
    parser.add_argument(
        "--seconds", type=above_zero, default=60.0, metavar="S", help="of each probe"
    )
    parser.add_argument("--language", default="en", metavar="CODE", help="default: en")
    add_bound_arguments(parser)
    add_result_arguments(parser)
    options = parser.parse_args(argv)
    require_one_server(options)
    bounds = bounds_of(options)
    console, aside = consoles(options)
    with target(options, aside) as subject:
        about = begin(["capacity", *argv])
        warm_up(subject, options, aside)
        session = long_session("speaker", 0, options.seconds, options.data, options.language)
        prober = Prober(lambda n: measure(subject, session, n, aside, seed=options.seed), aside)
        found = as_json(search(prober.by(bounds), options.most, options.tolerance), bounds)
    path = finish("capacity", {"scenario": "capacity", **about, **found}, options)
    if not options.json:
        console.print(table(found))
    aside.print(f"written to {path}", style="dim")
    return 0 if found["sessions"] else 1
