"""`python -m benchmarks.live`: live transcription measured as users meet it.

Starts its own server (or takes --server), streams held-out speech at the speed of speech from a
load generator in a process of its own, and computes everything from what that saw. Scenarios:

held-out  every held-out utterance, a session each: WER by language and voices, the gap to offline
single    long recordings, one session at a time: latency of an unloaded server
eight     eight sessions at once for five minutes: lag, its growth, drops
soak      one ten-minute session: memory and CPU time by the minute
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import machine, metrics, report
from benchmarks.dataset import DATA, Audio, held_out, long_recordings, looped
from benchmarks.job import Job, SessionPlan
from benchmarks.processes import Watch
from benchmarks.trace import RATE, SpokenWord, Trace
from lookhear.address import Server
from lookhear.display import progress
from lookhear.server import ServerProcess
from lookhear.wer import total, word_errors

RESULTS = Path(__file__).parent / "results"
Json = dict[str, Any]
GROWTH_SECONDS = 60.0  # a session must last this long before a growth of its lag means anything


@dataclass(frozen=True, slots=True)
class Session:
    """What one session says: samples, and the truth about them."""

    name: str
    pcm: NDArray[np.int16]
    text: str
    words: tuple[SpokenWord, ...]
    language: str
    split: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where to measure. pid: of the server's first process, None if it is not ours."""

    server: Server
    pid: int | None
    console: Console
    options: argparse.Namespace

    @property
    def offline_result(self) -> Path:
        """What `benchmarks.offline` wrote under the same label."""
        return result_file(self.options, "offline")

    def run(self, sessions: Sequence[Session], concurrency: int) -> list[Trace]:
        """Stream all sessions; traces in the order of `sessions`."""
        with tempfile.TemporaryDirectory() as folder:
            plans, at = [], 0
            with (Path(folder) / "pcm").open("wb") as file:
                for session in sessions:
                    file.write(session.pcm.tobytes())
                    plans.append(SessionPlan(session.name, at, at + len(session.pcm)))
                    at += len(session.pcm)
            job = Job(
                self.server.websocket_url("/realtime", {"intent": "transcription"}),
                str(Path(folder) / "pcm"),
                plans,
                concurrency=concurrency,
                seed=self.options.seed,
                provisional=not self.options.no_provisional,
            )
            traces = self._generate(job, Path(folder))
        by_name = {trace.name: trace for trace in traces}
        return [by_name[session.name] for session in sessions]

    def _generate(self, job: Job, folder: Path) -> list[Trace]:
        (folder / "job").write_text(job.to_json(), "utf-8")
        command = [sys.executable, "-m", "benchmarks.load", str(folder / "job")]
        seconds = sum(plan.end - plan.start for plan in job.sessions) / RATE / job.concurrency
        columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        with Progress(*columns, console=self.console, transient=True) as bars:
            about = f"{len(job.sessions)} sessions, {job.concurrency} at once, {seconds:.0f} s"
            task = bars.add_task(about, total=len(job.sessions))
            with subprocess.Popen(
                [*command, str(folder / "traces")], stdout=subprocess.PIPE, text=True
            ) as generator:
                assert generator.stdout is not None
                for _ in generator.stdout:
                    bars.advance(task)
        if generator.returncode:
            raise SystemExit(f"the load generator failed with status {generator.returncode}")
        lines = (folder / "traces").read_text("utf-8").splitlines()
        return [Trace.from_json(json.loads(line)) for line in lines]


def result_file(options: argparse.Namespace, name: str) -> Path:
    label = f"-{options.label}" if options.label else ""
    out: Path = options.out
    return out / f"{name}{label}.json"


# --- scenarios -----------------------------------------------------------------------------------


def held_out_scenario(bench: Bench) -> Json:
    audio = Audio(bench.options.data)
    sessions = [
        Session(u.name, audio.of(u), u.text, u.words, u.language, u.split)
        for u in held_out(bench.options.data, bench.options.limit)
    ]
    traces = bench.run(sessions, bench.options.sessions or 4)
    result = common(sessions, traces)
    groups = sorted({(session.language, session.split) for session in sessions})
    result["wer"] = [accuracy(language, split, sessions, traces) for language, split in groups]
    heard = {s.name: metrics.hypothesis(t) for s, t in zip(sessions, traces, strict=True)}
    result["gap_to_offline"] = gap_to_offline(sessions, heard, bench.offline_result)
    result["heard"] = heard
    return result


def gap_to_offline(sessions: Sequence[Session], heard: Mapping[str, str], offline: Path) -> Json:
    """Live minus offline WER on the same utterances, if `benchmarks.offline` was run before."""
    if not offline.is_file():
        return {"utterances": 0}
    whole: dict[str, str] = json.loads(offline.read_text("utf-8"))["heard"]
    said = {session.name: session.text for session in sessions}
    return metrics.paired_gap(
        {name: word_errors(said[name], text) for name, text in heard.items()},
        {name: word_errors(said[name], text) for name, text in whole.items() if name in said},
    )


def accuracy(
    language: str, split: str, sessions: Sequence[Session], traces: Sequence[Trace]
) -> Json:
    """WER and language detection of one language and split."""
    errors, right, turns = [], 0, 0
    for session, trace in zip(sessions, traces, strict=True):
        if (session.language, session.split) == (language, split):
            errors.append(word_errors(session.text, metrics.hypothesis(trace)))
            said = [turn for turn in metrics.turns(trace) if turn.text.strip()]
            turns += len(said)
            right += sum(turn.language == language for turn in said)
    corpus = total(errors)
    return {
        "language": language,
        "voices": split,
        "utterances": len(errors),
        "words": corpus.words,
        "wer": round(corpus.rate, 4),
        "interval": [round(bound, 4) for bound in metrics.bootstrap_interval(errors)],
        "language_right": round(right / turns, 4) if turns else None,
    }


def single_scenario(bench: Bench) -> Json:
    seconds = bench.options.seconds or 120.0
    sessions = [_looped(f"single_{r}", r, seconds) for r in range(len(long_recordings()))]
    return common(sessions, bench.run(sessions, 1))


def eight_scenario(bench: Bench) -> Json:
    count, seconds = bench.options.sessions or 8, bench.options.seconds or 300.0
    sessions = [_looped(f"session_{n}", n, seconds) for n in range(count)]
    with _watch(bench) as watch:
        traces = bench.run(sessions, count)
    result = common(sessions, traces)
    if watch:
        result |= {"processes": watch.by_minute(), "engine": watch.work_by_minute()}
    return result


def soak_scenario(bench: Bench) -> Json:
    sessions = [_looped("soak", 0, bench.options.seconds or 600.0)]
    with _watch(bench) as watch:
        traces = bench.run(sessions, 1)
    result = common(sessions, traces)
    if watch:
        result |= {"processes": watch.by_minute(), "engine": watch.work_by_minute()}
    return result


SCENARIOS = {
    "held-out": held_out_scenario,
    "single": single_scenario,
    "eight": eight_scenario,
    "soak": soak_scenario,
}


def _warm_up(bench: Bench) -> None:
    """A few sessions that do not count: caches, threads and allocators settle."""
    bench.run([_looped(f"warm-up {n}", n, 6.0) for n in range(3)], 3)


def _looped(name: str, start: int, seconds: float) -> Session:
    """The long recordings in turn, beginning with number `start`."""
    recordings = long_recordings()
    order = [recordings[(start + n) % len(recordings)] for n in range(len(recordings))]
    pcm, text, words = looped(order, Audio(), seconds)
    return Session(name, pcm, text, words, order[0].language)


@contextlib.contextmanager
def _watch(bench: Bench) -> Iterator[Watch | None]:
    if bench.pid is None:
        yield None
    else:
        with Watch(bench.pid, metrics_url=bench.server.http_url("/metrics")) as watch:
            yield watch


def common(sessions: Sequence[Session], traces: Sequence[Trace]) -> Json:
    """Everything that is measured the same way in every scenario."""
    pairs = list(zip(sessions, traces, strict=True))
    errors = [word_errors(s.text, metrics.hypothesis(t)) for s, t in pairs]
    finals = [latency for s, t in pairs for latency in metrics.final_latencies(t, s.words)]
    lags = [point for s, t in pairs for point in metrics.commit_lags(t, s.words)]
    erased = [metrics.erasure(trace) for trace in traces]
    violations = [text for trace in traces for text in metrics.invariant_violations(trace)]
    first = [metrics.first_text_latencies(t, s.words) for s, t in pairs]
    shown = [metrics.first_text_latencies(t, s.words, provisional=True) for s, t in pairs]
    return {
        "sessions": len(sessions),
        "audio_seconds": round(sum(trace.seconds for trace in traces), 1),
        "turns": sum(len(metrics.turns(trace)) for trace in traces),
        "wer_all": round(total(errors).rate, 4),
        "wer_interval": [round(bound, 4) for bound in metrics.bootstrap_interval(errors)],
        "first_text_s": metrics.summary([x for values in first for x in values]),
        "first_shown_s": metrics.summary([x for values in shown for x in values]),
        "final_s": metrics.summary(finals),
        "commit_lag_s": metrics.summary([lag for _, lag in lags]),
        "commit_lag_growth_s_per_minute": _growth(lags),
        "commit_lag_by_minute": metrics.by_minute(lags),
        "cadence_s": metrics.summary([gap for trace in traces for gap in metrics.cadence(trace)]),
        "erasure": round(sum(e for e, _ in erased) / max(1, sum(f for _, f in erased)), 3),
        "drops": sum(metrics.dropped(trace) for trace in traces),
        "violations": violations[:20],
        "violation_count": len(violations),
        "generator_late_s": round(max((trace.lateness for trace in traces), default=0.0), 3),
    }


def _growth(lags: Sequence[tuple[float, float]]) -> float | None:
    """None for sessions that are too short to tell."""
    if max((at for at, _ in lags), default=0.0) < GROWTH_SECONDS:
        return None
    return round(metrics.slope_per_minute(lags), 4)


# --- command -------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.live", description=__doc__.split("\n\n")[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--server", metavar="URL", help="measure this one, do not start any")
    parser.add_argument("--serve", default="", metavar="ARGS", help="for our own `lookhear serve`")
    parser.add_argument("--limit", type=int, metavar="N", help="utterances per language and split")
    parser.add_argument("--sessions", type=int, metavar="N", help="sessions at once")
    parser.add_argument("--data", type=Path, default=DATA, help="made by engine.demo.fixtures")
    parser.add_argument("--seconds", type=float, metavar="S", help="of audio per long session")
    parser.add_argument("--no-provisional", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--label", default="", help="added to the names of the result files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    names = options.scenarios or list(SCENARIOS)
    for name in names:
        if name not in SCENARIOS:
            parser.error(f"scenario: expected one of {', '.join(SCENARIOS)}, got {name!r}")
    console = Console(highlight=False)
    options.out.mkdir(parents=True, exist_ok=True)
    with _server(console, options) as (server, pid):
        bench = Bench(server, pid, console, options)
        _warm_up(bench)
        for name in names:
            about = machine.describe(["benchmarks.live", *argv])
            result = {"scenario": name, **about, **SCENARIOS[name](bench)}
            result["load_average_after"] = machine.load_average()
            path = result_file(options, f"live-{name}")
            path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
            console.print(report.tables(result))
            console.print(f"written to {path}\n", style="dim")
    return 0


@contextlib.contextmanager
def _server(console: Console, options: argparse.Namespace) -> Iterator[tuple[Server, int | None]]:
    if options.server is not None:
        yield Server(options.server), None
        return
    with contextlib.ExitStack() as stack:
        with progress(console, "starting the server") as show:
            process = ServerProcess(0, options.serve.split(), show)
            stack.enter_context(process)
        yield process.address, process.pid


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
