"""The whole path in one process on the audio's own clock: `python -m benchmarks.simulate`.

Gateway protocol, voice detector, policies, scheduler and model are the real ones; sockets and
waiting are left out, and computing takes no time (the "computation-unaware" latencies of the
literature). So it is deterministic, runs much faster than speech, and shows what a policy costs
before the machine is added. For tuning; `lookhear bench live` measures the real thing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.in_process.simulation import Simulation
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import Trace
from lookhear.bench.measures.utterances import latencies
from lookhear.bench.recordings.dataset import DATA, Audio, Utterance, held_out, long_recordings
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import build_core
from lookhear.wer import total, word_errors


def main() -> None:
    """Simulates and prints."""
    usual = EngineConfig()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="demo-whisper")
    parser.add_argument("--dtype", default=usual.dtype)
    parser.add_argument("--window", default="auto")
    parser.add_argument("--min-window", type=float, default=usual.min_window_seconds)
    parser.add_argument("--tick", type=float, default=usual.tick_seconds)
    parser.add_argument("--evidence", type=float, default=usual.evidence_seconds)
    parser.add_argument("--held", type=int, default=usual.held_words)
    parser.add_argument("--segment", type=float, default=0.0, help="longest, seconds")
    parser.add_argument("--silence-ms", type=int, default=None)
    parser.add_argument("--limit", type=int, default=20, help="utterances per language and split")
    parser.add_argument("--data", type=Path, default=DATA, help="recordings; default: tests/data")
    parser.add_argument("--long", action="store_true", help="the long recordings instead")
    parser.add_argument("--errors", action="store_true", help="print what was misheard")
    options = parser.parse_args()
    config = EngineConfig(
        model=options.model,
        dtype=options.dtype,
        window=options.window,
        min_window_seconds=options.min_window,
        tick_seconds=options.tick,
        evidence_seconds=options.evidence,
        held_words=options.held,
        max_segment_seconds=options.segment,
        threads=1,
    )
    built = build_core(config, lambda stage, share: None)
    simulation = Simulation(built.core, built.card, options.silence_ms)
    audio = Audio(options.data)
    groups: dict[str, list[Utterance]] = {}
    for utterance in long_recordings(options.data) if options.long else held_out(options.data):
        key = utterance.name if options.long else f"{utterance.language} {utterance.split}"
        if len(groups.setdefault(key, [])) < options.limit:
            groups[key].append(utterance)
    for key, utterances in groups.items():
        traces = [simulation.run(u.name, audio.of(u)) for u in utterances]
        files = [simulation.offline(audio.of(u)) for u in utterances]
        report(key, utterances, traces, files, show_errors=options.errors)


def report(
    key: str,
    utterances: list[Utterance],
    traces: list[Trace],
    files: list[str],
    *,
    show_errors: bool,
) -> None:
    """Prints errors and latencies of one group of utterances."""
    errors, firsts, lags, finals, right, turns = [], [], [], [], 0, 0
    offline = total(word_errors(u.text, f) for u, f in zip(utterances, files, strict=True))
    for utterance, trace, file in zip(utterances, traces, files, strict=True):
        heard = metrics.hypothesis(trace)
        errors.append(word_errors(utterance.text, heard))
        firsts += metrics.first_text_latencies(trace, utterance.words)
        lags += [lag for _, lag in latencies(trace, utterance.words).commit_lag]
        finals += metrics.final_latencies(trace, utterance.words)
        wrong = metrics.invariant_violations(trace)
        assert not wrong, wrong
        said = [turn for turn in metrics.turns(trace) if turn.text.strip()]
        turns += len(said)
        right += sum(turn.language == utterance.language for turn in said)
        if show_errors and errors[-1].rate > 0:
            print(f"  - {utterance.text}\n  + {heard}\n  = {file}")
    rate = 100 * total(errors).rate
    print(
        f"{key:10} WER {rate:5.2f} % (file {100 * offline.rate:5.2f})  language {right}/{turns}",
        end="",
    )
    for name, values in (("first", firsts), ("lag", lags), ("final", finals)):
        s = metrics.summary(values)
        print(f"  {name} p50 {s.get('p50')} p95 {s.get('p95')}", end="")
    print(flush=True)


if __name__ == "__main__":
    main()
