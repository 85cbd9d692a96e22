"""Which live policy is best: `python -m benchmarks.frontier --model M POLICY POLICY ...`.

A policy is a few settings of the engine, as `tick_seconds=0.5,evidence_seconds=0.75`; "" is the
usual one. Each hears the same recordings of people, composed as by `lookhear bench human`, in
sessions beside each other on the audio's own clock (`in_process/simulation.py`): what is shown is
text errors against the lag of committed words. With --sessions the engine's work takes the time
that its thread took; without, none.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.in_process.simulation import Simulation
from lookhear.bench import machine
from lookhear.bench.measures import metrics
from lookhear.bench.measures.utterances import latencies
from lookhear.bench.numbers import Json, wer_numbers
from lookhear.bench.recordings.conditions import CONDITIONS
from lookhear.bench.recordings.human import HUMAN
from lookhear.bench.recordings.session import Session, audio_seconds
from lookhear.bench.recordings.speech import held_out_sessions
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.admission.rehearsal import rehearse
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import Built, build_core


def main(argv: Sequence[str]) -> int:
    """Measures, prints a line for each policy, writes a result and a plot beside it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policies", nargs="*", default=[""], metavar="POLICY")
    parser.add_argument("--model", default="openai/whisper-tiny.en")
    parser.add_argument("--lang", default="en")
    parser.add_argument("--condition", default="pauses", choices=sorted(CONDITIONS))
    parser.add_argument("--minutes", type=float, default=1.0, help="of a recording")
    parser.add_argument("--limit", type=int, default=3, help="recordings")
    parser.add_argument(
        "--sessions", type=int, default=0, help="at once, whose computing takes time"
    )
    parser.add_argument("--tell-language", action="store_true")
    parser.add_argument("--texts", action="store_true", help="print what was misheard")
    parser.add_argument("--seed", type=int, default=0)
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.frontier", *argv])
    said = [s for s in held_out_sessions(HUMAN) if s.language == options.lang]
    compose = CONDITIONS[options.condition]
    sessions = compose(said, 60 * options.minutes, options.seed)[: options.limit]
    console = Console(highlight=False)
    rows: list[Json] = []
    file: Json = {}
    for policy in options.policies:
        built = build_core(_config(options.model, policy), lambda stage, share: None)
        told = options.lang if options.tell_language and built.card.languages else None
        rehearsal = rehearse(built.core, built.card.id, time.thread_time)
        if built.admission is not None and rehearsal is not None:
            built.admission.rehearsed(rehearsal)
        simulation = Simulation(built.core, built.card, language=told, admission=built.admission)
        if not file:
            file = _of_files(simulation, sessions)
            console.print(f"file  WER {100 * file['wer_all']:.2f} %  {file['words']} words")
        rows.append({"policy": policy, **measured(simulation, built, sessions, options)})
        console.print(_line(rows[-1]), soft_wrap=True)
    result = {
        "scenario": "frontier",
        **about,
        "recordings": len(sessions),
        "audio_seconds": round(audio_seconds(sessions), 1),
        "file": file,
        "policies": rows,
    }
    path = write_result(options, "frontier", result)
    plot = path.with_suffix(".svg")
    draw(result, plot)
    console.print(f"written to {path} and {plot}", style="dim")
    return 0


def _config(model: str, policy: str) -> EngineConfig:
    config = EngineConfig(model=model, threads=1)
    for pair in filter(None, policy.split(",")):
        name, _, value = pair.partition("=")
        config = dataclasses.replace(config, **{name: json.loads(value)})
    return config


def _of_files(simulation: Simulation, sessions: Sequence[Session]) -> Json:
    texts = [simulation.offline(session.pcm) for session in sessions]
    parts = [e for s, t in zip(sessions, texts, strict=True) for e in s.part_errors(t)]
    return {**wer_numbers(parts), "heard": texts}


def measured(
    simulation: Simulation, built: Built, sessions: Sequence[Session], options: argparse.Namespace
) -> Json:
    """One policy: errors, latencies, what it cost."""
    before, steps = time.thread_time(), built.core.stats()
    count = max(1, options.sessions)
    traces = []
    for first in range(0, len(sessions), count):
        group = [(s.name, s.pcm) for s in sessions[first : first + count]]
        traces += simulation.crowd(group, computing=options.sessions > 0)
    seconds = time.thread_time() - before
    heard = [metrics.hypothesis(trace) for trace in traces]
    wrong = [text for trace in traces for text in metrics.invariant_violations(trace)]
    assert not wrong, wrong
    if options.texts:
        for session, text in zip(sessions, heard, strict=True):
            for part, errors in zip(session.parts, session.part_errors(text), strict=True):
                if errors.rate > 0:
                    print(f"  - {part}\n    {errors}")
            print(f"  + {text}")
    parts = [e for s, t in zip(sessions, heard, strict=True) for e in s.part_errors(t)]
    found = [latencies(t, s.words) for s, t in zip(sessions, traces, strict=True)]
    after = built.core.stats()
    requests = after["requests"] - steps["requests"]
    return {
        **wer_numbers(parts),
        "first_text_s": metrics.summary([x for f in found for x in f.first_text]),
        "commit_lag_s": metrics.summary([lag for f in found for _, lag in f.commit_lag]),
        "final_s": metrics.summary([x for f in found for x in f.final]),
        "thread_seconds": round(seconds, 1),
        "ticks": requests,
        "passes_per_tick": round(
            (after["decoder_passes"] - steps["decoder_passes"]) / max(1, requests), 2
        ),
        "heard": heard,
    }


def _line(row: Json) -> str:
    def quantiles(name: str) -> str:
        return f"{row[name].get('p50'):.2f} {row[name].get('p95'):.2f}"

    return (
        f"{row['policy'] or 'usual':45} WER {100 * row['wer_all']:.2f}"
        f"  first {quantiles('first_text_s')}  lag {quantiles('commit_lag_s')}"
        f"  final {quantiles('final_s')}  {row['ticks']} ticks of"
        f" {1000 * row['thread_seconds'] / max(1, row['ticks']):.0f} ms,"
        f" {row['passes_per_tick']} passes"
    )


def draw(result: Json, path: Path) -> None:
    """Errors over lag, a mark for each policy: to the left and below is better. SVG."""
    figure = Figure(figsize=(7.0, 4.8), layout="constrained")
    axes: Axes = figure.subplots()
    for row in result["policies"]:
        lag: dict[str, Any] = row["commit_lag_s"]
        axes.plot([lag["p50"], lag["p95"]], [100 * row["wer_all"]] * 2, "o-", label=row["policy"])
    axes.axhline(100 * result["file"]["wer_all"], color="black", linestyle=":", label="file")
    axes.set_xlabel("commit lag, p50 and p95 (s)")
    axes.set_ylabel("WER (%)")
    axes.grid(True, alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
