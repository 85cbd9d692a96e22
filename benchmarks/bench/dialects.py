"""`lookhear bench dialects`: whether each hears as well and as soon as OpenAI's wire.

The same recordings of people through each wire of one server, at the same time, with the turns
ended in the same way: by 500 ms of silence (OpenAI, Deepgram), by their sound (OpenAI, Flux), each
beside OpenAI's twice, which tells how much is chance, or by
the client (OpenAI, vLLM, Wyoming through its bridge; the whole recording is one turn then). Text is
compared with what was said and with OpenAI's; lags are of committed words.

Beside Deepgram's wires, which tell when each word was said, OpenAI's is asked for that, too:
finding it out takes the engine time in every tick, whoever asks. A word counts from its last letter
on: of the sign behind the last sure word Flux does not say whether it is sure.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from lookhear.bench.bridge import live_address
from lookhear.bench.generator import Target, generate
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import Trace
from lookhear.bench.numbers import Json, live_numbers
from lookhear.bench.recordings.conditions import CONDITIONS
from lookhear.bench.recordings.human import HUMAN
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import crowd, held_out_sessions
from lookhear.bench.result_file import add_file_arguments
from lookhear.bench.subject import above_zero, begin, consoles, finish, models, target
from lookhear.bench.wires.job import Turns

GROUPS: dict[Turns, tuple[str, ...]] = {
    "silence": ("openai", "openai again", "deepgram"),
    "sound": ("openai", "openai again", "flux"),
    "hand": ("openai", "vllm", "wyoming"),
}
AGAIN = " again"  # by how much two sessions of one wire differ
TIMED = ("deepgram", "flux")  # wires that always tell when words were said
WARM_UP_SECONDS = 6
SIGNS = str.maketrans("", "", ".,;:!?…¡¿")  # that follow a word, or stand in front


def measured(
    subject: Target, turns: Turns, sessions: Sequence[Session], rounds: int, console: Console
) -> list[Json]:
    """Numbers of each wire of a group, pooled over the rounds; OpenAI's are the first."""
    addresses: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for wire in GROUPS[turns]:
            spoken = wire.removesuffix(AGAIN)
            addresses[wire] = stack.enter_context(live_address(subject.address, spoken))
        words = any(wire in TIMED for wire in addresses)
        targets = {
            wire: replace(subject, url=url, wire=wire.removesuffix(AGAIN), turns=turns, words=words)
            for wire, url in addresses.items()
        }
        traces: dict[str, list[Trace]] = {wire: [] for wire in targets}
        start = replace(sessions[0], pcm=sessions[0].pcm[: WARM_UP_SECONDS * 24_000])
        for one in targets.values():
            generate(one, crowd(start, 1), 1, console, tell_language=True)
        for number in range(rounds):
            console.print(f"turns end by {turns}, round {number + 1}", style="dim")

            def stream(wire: str, seed: int = number) -> list[Trace]:
                aside = Console(quiet=True)
                one = targets[wire]
                return generate(one, sessions, 1, aside, tell_language=True, seed=seed)

            # At the same time: whatever else the machine does is the same for all.
            with ThreadPoolExecutor(len(targets)) as pool:
                for wire, found in zip(targets, pool.map(stream, targets), strict=True):
                    traces[wire] += found
    heard = {wire: [metrics.hypothesis(trace) for trace in traces[wire]] for wire in targets}
    return [
        {
            "turns_end_by": turns,
            "wire": wire,
            **live_numbers(list(sessions) * rounds, [*map(unsigned, traces[wire])]),
            "texts_like_openai": sum(
                a == b for a, b in zip(heard[wire], heard["openai"], strict=True)
            ),
            "heard": heard[wire],
        }
        for wire in targets
    ]


def unsigned(trace: Trace) -> Trace:
    """The same without the signs of its texts."""
    texts = ("delta", "text", "transcript")
    events = [
        (when, {k: v.translate(SIGNS) if k in texts else v for k, v in event.items()})
        for when, event in trace.events
    ]
    return replace(trace, events=events)


def tables(entries: Sequence[Json]) -> Table:
    """Lags are seconds, p50 and p95; the difference from OpenAI's behind them."""
    columns = "turns end by", "wire", "WER", "-", "commit lag", "-", "finish", "same text", "broken"
    table = Table(*columns, box=None)
    for entry in entries:
        base = next(e for e in entries if e["turns_end_by"] == entry["turns_end_by"])
        lag, usual = entry["commit_lag_s"], base["commit_lag_s"]
        table.add_row(
            entry["turns_end_by"],
            entry["wire"],
            f"{100 * entry['wer_all']:.2f}",
            f"{100 * (entry['wer_all'] - base['wer_all']):+.2f}",
            f"{lag['p50']:.3f}, {lag['p95']:.3f}",
            f"{lag['p50'] - usual['p50']:+.3f}, {lag['p95'] - usual['p95']:+.3f}",
            f"{entry['finish_s']['p50']:.2f}",
            f"{entry['texts_like_openai']} of {entry['sessions']}",
            str(entry["violation_count"] + entry["drops"]),
        )
    return table


def main(argv: list[str]) -> int:
    """Exit status. LookhearError."""
    parser = argparse.ArgumentParser(
        prog="lookhear bench dialects",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--turns", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--model", default="openai/whisper-tiny.en", metavar="ID")
    parser.add_argument("--serve", default="", metavar="ARGS", help="for `lookhear serve`")
    parser.add_argument("--language", default="en", metavar="CODE")
    parser.add_argument("--condition", choices=CONDITIONS, default="pauses")
    parser.add_argument("--minutes", type=above_zero, default=1.0, help="of each recording")
    parser.add_argument("--limit", type=int, default=1, help="recordings")
    parser.add_argument("--skip", type=int, default=0, help="recordings before the first")
    parser.add_argument("--rounds", type=int, default=1)
    add_file_arguments(parser)
    parser.set_defaults(server=None, api_key=None, wire="openai", no_provisional=False)
    parser.set_defaults(data=HUMAN, seed=0, json=False)
    options = parser.parse_args(argv)
    console, aside = consoles(options)
    said = [u for u in held_out_sessions(HUMAN) if u.language == options.language]
    made = CONDITIONS[options.condition](said, 60 * options.minutes, 0)
    sessions = made[options.skip : options.skip + options.limit]
    about = begin(["dialects", *argv])
    entries: list[Json] = []
    with target(options, aside) as subject:
        subject = replace(subject, model=models(subject)[0])
        for turns in options.turns:
            entries += measured(subject, turns, sessions, options.rounds, aside)
    path = finish("dialects", {"scenario": "dialects", **about, "dialects": entries}, options)
    console.print(tables(entries))
    aside.print(f"written to {path}", style="dim")
    return 0
