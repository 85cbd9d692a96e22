"""`lookhear bench live`: live transcription measured as users meet it.

Streams held-out speech at the speed of speech from a load generator in a process of its own, and
computes everything from what that saw. Scenarios:

held-out  every held-out utterance, a session each: WER by language and voices, the gap to offline
single    long recordings, one session at a time: latency of an unloaded server
eight     eight sessions at once for five minutes: lag, its growth, drops
soak      one ten-minute session: memory and CPU time by the minute
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from lookhear.bench import report
from lookhear.bench.generator import Target, generate
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import Trace
from lookhear.bench.numbers import Json, live_numbers, wer_by_group
from lookhear.bench.processes import Watch
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import held_out_sessions, long_session
from lookhear.bench.result_file import earlier_result
from lookhear.bench.subject import (
    above_zero,
    add_result_arguments,
    add_server_arguments,
    at_least_one,
    begin,
    consoles,
    finish,
    require_one_server,
    target,
    warm_up,
)

LANGUAGES = 3  # of the long recordings


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of `bench live` against one server."""

    target: Target
    console: Console
    options: argparse.Namespace

    def run(self, sessions: Sequence[Session], concurrency: int) -> list[Trace]:
        """Stream all sessions; traces in the order of `sessions`."""
        return generate(self.target, sessions, concurrency, self.console, seed=self.options.seed)

    def long(self, name: str, start: int, default_seconds: float) -> Session:
        """The long recordings from number `start` on, for --seconds or else the default."""
        seconds = self.options.seconds or default_seconds
        return long_session(name, start, seconds, self.options.data, self.options.language)


# --- scenarios -----------------------------------------------------------------------------------


def held_out_scenario(bench: Bench) -> Json:
    """Every held-out utterance in a session of its own, and its gap to offline."""
    sessions = [
        session
        for session in held_out_sessions(bench.options.data, bench.options.limit)
        if bench.options.language in (None, session.language)
    ]
    traces = bench.run(sessions, bench.options.sessions or 4)
    result = live_numbers(sessions, traces)
    heard = {s.name: metrics.hypothesis(t) for s, t in zip(sessions, traces, strict=True)}
    errors = [session.errors(heard[session.name]) for session in sessions]
    said = [[turn for turn in metrics.turns(trace) if turn.text.strip()] for trace in traces]
    found = [[turn.language for turn in turns] for turns in said]
    result["wer"] = wer_by_group(sessions, errors, found)
    offline = earlier_result(bench.options, "offline")
    result["gap_to_offline"] = gap_to_offline(sessions, heard, offline)
    result["heard"] = heard
    return result


def gap_to_offline(
    sessions: Sequence[Session], heard: Mapping[str, str], offline: Path | None
) -> Json:
    """Live minus offline WER on the same utterances, if `bench offline` was run before."""
    if offline is None:
        return {"utterances": 0}
    whole: dict[str, str] = json.loads(offline.read_text("utf-8"))["heard"]
    return metrics.paired_gap(
        {s.name: s.errors(heard[s.name]) for s in sessions if s.name in heard},
        {s.name: s.errors(whole[s.name]) for s in sessions if s.name in whole},
    )


def single_scenario(bench: Bench) -> Json:
    """Long recordings, one session at a time."""
    count = bench.options.sessions or (1 if bench.options.language else LANGUAGES)
    sessions = [bench.long(f"single_{n}", n, 120.0) for n in range(count)]
    return live_numbers(sessions, bench.run(sessions, 1))


def eight_scenario(bench: Bench) -> Json:
    """Eight sessions at once, and what the server's processes use."""
    count = bench.options.sessions or 8
    sessions = [bench.long(f"session_{n}", n, 300.0) for n in range(count)]
    return _watched(bench, sessions, count)


def soak_scenario(bench: Bench) -> Json:
    """One session of ten minutes, and what the server's processes use."""
    return _watched(bench, [bench.long("soak", 0, 600.0)], 1)


SCENARIOS: dict[str, Callable[[Bench], Json]] = {
    "held-out": held_out_scenario,
    "single": single_scenario,
    "eight": eight_scenario,
    "soak": soak_scenario,
}


def _watched(bench: Bench, sessions: Sequence[Session], concurrency: int) -> Json:
    with _watch(bench.target) as watch:
        traces = bench.run(sessions, concurrency)
    result = live_numbers(sessions, traces)
    if watch:
        result |= {"processes": watch.by_minute(), "engine": watch.work_by_minute()}
    return result


@contextlib.contextmanager
def _watch(subject: Target) -> Iterator[Watch | None]:
    if subject.pid is None:
        yield None
    else:
        with Watch(subject.pid, metrics_url=subject.metrics_url) as watch:
            yield watch


# --- command -------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Of `lookhear bench live`."""
    found = argparse.ArgumentParser(
        prog="lookhear bench live",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(SCENARIOS)
    found.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"{names}; default: all")
    add_server_arguments(found)
    found.add_argument(
        "--limit", type=at_least_one, metavar="N", help="utterances per language and split"
    )
    found.add_argument("--sessions", type=at_least_one, metavar="N", help="sessions at once")
    found.add_argument("--seconds", type=above_zero, metavar="S", help="of audio per long session")
    found.add_argument("--language", metavar="CODE", help="only recordings in this one")
    add_result_arguments(found)
    return found


def main(argv: list[str]) -> int:
    """1 if a session was dropped, else 0. LookhearError."""
    arguments = parser()
    options = arguments.parse_args(argv)
    require_one_server(options)
    names = options.scenarios or list(SCENARIOS)
    for name in names:
        if name not in SCENARIOS:
            arguments.error(f"scenario: expected one of {', '.join(SCENARIOS)}, got {name!r}")
    console, aside = consoles(options)
    drops = 0
    with target(options, aside) as subject:
        warm_up(subject, options, aside)
        bench = Bench(subject, aside, options)
        for name in names:
            about = begin(["live", *argv])
            result = {"scenario": name, **about, **SCENARIOS[name](bench)}
            path = finish(f"live-{name}", result, options)
            if not options.json:
                console.print(report.tables(result))
            aside.print(f"written to {path}\n", style="dim")
            drops += result["drops"]
    return 1 if drops else 0
