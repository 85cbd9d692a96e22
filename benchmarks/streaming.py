"""Long audio as one live turn, ours against the published recipe: `python -m benchmarks.streaming`.

Variants on one checkpoint, in one process, one thread; they take turns every few seconds of audio,
so whatever else the machine does meets all of them alike. Ratios are of processor time.

ours        the engine as it is served
ours-2s     the same with a tick every two seconds, as often as the recipe's
no-draft    without verification of the last hypothesis: must write the same
scratch     nor is committed text forced: every tick decodes the open segment's text anew
refeed      full windows are not closed: the whole open segment is read anew in every tick
official    Qwen3-ASR's own streaming recipe, see `in_process/official.py`
restarted   the same, begun anew at pauses and after 24 s at the latest
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.in_process.direct import Direct
from benchmarks.in_process.from_scratch import from_scratch
from benchmarks.in_process.official import OfficialListener, Restart
from benchmarks.in_process.sessions import PIECE, Listener, Speech, block_errors
from lookhear.bench import machine
from lookhear.bench.measures import metrics
from lookhear.bench.recordings.dataset import Audio, long_recordings
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import SAMPLE_RATE, TranscriptionSettings
from lookhear.media.voice.vad import SileroModel
from lookhear.wer import WordErrors, total

Json = dict[str, Any]
TURN_PIECES = 5 * SAMPLE_RATE // PIECE  # audio that a variant hears before the next one's turn
CONTEXT_PER_SECOND = 24  # tokens of the longest official request: 13 of audio, the rest text
STATES = ("live_turns", "waiting", "free_blocks", "cached_blocks", "encoder_cache_bytes")
OURS: dict[str, Json] = {
    "ours": {},
    "ours-2s": {"tick_seconds": 2.0},
    "no-draft": {"draft_verification": False},
    "scratch": {"draft_verification": False},
    "refeed": {"freeze_windows": False},
}
OFFICIAL: dict[str, Restart | None] = {"official": None, "restarted": Restart()}
AnyListener = Listener | OfficialListener


def makers(options: argparse.Namespace) -> dict[str, Callable[[Speech], AnyListener]]:
    """Per variant: what listens to a speech. Models are loaded here."""
    found: dict[str, Callable[[Speech], AnyListener]] = {}
    for name in options.variants:
        if name in OURS:
            fields = {"dtype": options.dtype, "held_words": options.held, **OURS[name]}
            config = EngineConfig(model=options.model, threads=1, **fields)
            core = build_core(config, lambda stage, share: None).core
            settings = TranscriptionSettings(model=options.model)
            found[name] = partial(from_scratch if name == "scratch" else Listener, core, settings)
        else:
            direct = Direct(
                options.model,
                dtype=options.dtype,
                max_context=1024 + round(CONTEXT_PER_SECOND * options.seconds),
                token_budget=options.official_budget,
            )
            found[name] = partial(_official, direct, OFFICIAL[name])
    return found


def _official(direct: Direct, restart: Restart | None, speech: Speech) -> OfficialListener:
    return OfficialListener(direct, speech, restart)


def listen(
    speech: Speech, variants: dict[str, Callable[[Speech], AnyListener]], console: Console
) -> dict[str, AnyListener]:
    """Every variant hears all of the speech, a few seconds at a time, in a changing order."""
    listeners = {name: make(speech) for name, make in variants.items()}
    order = list(listeners)
    for end in range(TURN_PIECES, speech.num_pieces + TURN_PIECES, TURN_PIECES):
        for name in order:
            listeners[name].hear(end)
        order = [*order[1:], order[0]]
    for name in order:
        listeners[name].finish()
    for name, listener in listeners.items():
        seconds = listener.minutes.total.cpu
        console.print(f"{speech.name} {name}: {seconds:.1f} s of computing", style="dim")
    return listeners


def summary(speeches: Sequence[Speech], listeners: Sequence[AnyListener]) -> Json:
    """One variant over all speeches."""
    minutes: list[list[tuple[float, float]]] = []  # per minute of audio: computing, audio
    for speech, listener in zip(speeches, listeners, strict=True):
        for number, meter in enumerate(listener.minutes.meters):
            while len(minutes) <= number:
                minutes.append([])
            minutes[number].append((meter.cpu, min(60.0, speech.seconds - 60 * number)))
    blocks = list(_by_block(speeches, listeners).values())
    audio = sum(speech.seconds for speech in speeches)
    ticks = sum(len(listener.ticks) for listener in listeners)
    gaps = [b - a for x in listeners for a, b in zip(x.ticks, x.ticks[1:], strict=False)]
    result: Json = {
        "cpu_seconds": round(sum(x.minutes.total.cpu for x in listeners), 3),
        "wall_seconds": round(sum(x.minutes.total.wall for x in listeners), 3),
        "cpu_per_audio_second_by_minute": [
            round(sum(c for c, _ in found) / sum(a for _, a in found), 5) for found in minutes
        ],
        "ticks": ticks,
        "update_interval_s": metrics.summary(gaps),
        "audio_seconds_per_tick": round(audio / max(1, ticks), 3),
        "passes_per_tick": round(sum(_passes(x) for x in listeners) / max(1, ticks), 3),
        "wer": round(total(blocks).rate, 4),
        "wer_interval": [round(bound, 4) for bound in metrics.bootstrap_interval(blocks)],
        "wer_by_recording": {
            s.name: round(total(block_errors(s.text, x.text)).rate, 4)
            for s, x in zip(speeches, listeners, strict=True)
        },
        "heard": {s.name: x.text for s, x in zip(speeches, listeners, strict=True)},
    }
    counted = [listener.counted() for listener in listeners if isinstance(listener, Listener)]
    if counted:
        result["counters"] = {
            name: sum(each[name] for each in counted) for name in counted[0] if name not in STATES
        }
        drafted = result["counters"]["drafted_tokens"]
        share = result["counters"]["accepted_tokens"] / drafted if drafted else None
        result["draft_accepted"] = share if share is None else round(share, 4)
    return result


def _passes(listener: AnyListener) -> int:
    if isinstance(listener, Listener):
        return listener.counted()["decoder_passes"]
    return listener.num_passes


def comparisons(
    speeches: Sequence[Speech], heard: dict[str, list[AnyListener]], results: dict[str, Json]
) -> Json:
    """Of ours with every other variant: their computing by ours, our WER minus theirs."""
    ours, errors = results["ours"], _by_block(speeches, heard["ours"])
    found: Json = {}
    for name, theirs in results.items():
        if name == "ours":
            continue
        found[name] = {
            "times_our_cpu": round(theirs["cpu_seconds"] / ours["cpu_seconds"], 2),
            "times_our_cpu_by_minute": [
                round(theirs_minute / our_minute, 2)
                for theirs_minute, our_minute in zip(
                    theirs["cpu_per_audio_second_by_minute"],
                    ours["cpu_per_audio_second_by_minute"],
                    strict=True,
                )
            ],
            "times_our_passes_per_tick": round(
                theirs["passes_per_tick"] / max(1e-9, ours["passes_per_tick"]), 2
            ),
            "our_wer_minus_theirs": metrics.paired_gap(errors, _by_block(speeches, heard[name])),
            "same_text": all(
                a.text == b.text for a, b in zip(heard["ours"], heard[name], strict=True)
            ),
        }
        pairs = list(zip(heard["ours"], heard[name], strict=True))
        if name in OURS:
            found[name]["same_commits"] = all(
                isinstance(a, Listener) and isinstance(b, Listener) and a.committed == b.committed
                for a, b in pairs
            )
    return found


def _by_block(
    speeches: Sequence[Speech], listeners: Sequence[AnyListener]
) -> dict[str, WordErrors]:
    return {
        f"{speech.name}/{number:04}": errors
        for speech, listener in zip(speeches, listeners, strict=True)
        for number, errors in enumerate(block_errors(speech.text, listener.text))
    }


def tables(result: Json) -> list[Table]:
    """Costs and errors by variant, then the differences."""
    shown = Table(title=f"{result['audio_seconds']} s of speech", title_justify="left", box=None)
    columns = "CPU s", "min 1", "last", "ticks", "s/tick", "passes", "WER", "95 %"
    shown.add_column("", min_width=9)
    for column in columns:
        shown.add_column(column, justify="right", no_wrap=True)
    for name, row in result["variants"].items():
        minutes = row["cpu_per_audio_second_by_minute"]
        low, high = row["wer_interval"]
        shown.add_row(
            name,
            f"{row['cpu_seconds']:.1f}",
            f"{minutes[0]:.4f}",
            f"{minutes[-1]:.4f}",
            str(row["ticks"]),
            f"{row['audio_seconds_per_tick']:.2f}",
            f"{row['passes_per_tick']:.2f}",
            f"{row['wer']:.2%}",
            f"{low:.2%} - {high:.2%}",
        )
    against = Table(title="against ours", title_justify="left", box=None)
    against.add_column("", min_width=9)
    for column in ("times our CPU", "last min", "times our passes", "our WER minus", "same text"):
        against.add_column(column, justify="right", no_wrap=True)
    for name, row in result["against_ours"].items():
        against.add_row(
            name,
            f"{row['times_our_cpu']:.2f}",
            f"{row['times_our_cpu_by_minute'][-1]:.2f}",
            f"{row['times_our_passes_per_tick']:.2f}",
            f"{row['our_wer_minus_theirs'].get('gap', 0.0):+.2%}",
            "yes" if row["same_text"] else "no",
        )
    return [shown, against]


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0."""
    names = [*OURS, *OFFICIAL]
    parser = argparse.ArgumentParser(prog="benchmarks.streaming", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="demo-qwen3-asr")
    parser.add_argument("--seconds", type=float, default=300.0, help="of audio per recording")
    parser.add_argument("--languages", nargs="+", default=["en", "de", "es"])
    parser.add_argument("--variants", nargs="+", choices=names, default=names)
    usual = EngineConfig().held_words
    parser.add_argument("--held", type=int, default=usual, help="last words that are not committed")
    parser.add_argument("--official-budget", type=int, default=512, help="tokens in one pass")
    parser.add_argument("--dtype", default=EngineConfig().dtype, help="of the weights")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    options.variants = list(dict.fromkeys(["ours", *options.variants]))
    console = Console(highlight=False)
    about = machine.describe(["benchmarks.streaming", *argv])
    torch.set_num_threads(1)
    audio, silero = Audio(), SileroModel()
    speeches = [
        Speech.of(recording, audio, silero, seconds=options.seconds)
        for recording in long_recordings()
        if recording.language in options.languages
    ]
    variants = makers(options)
    heard: dict[str, list[AnyListener]] = {name: [] for name in variants}
    for speech in speeches:
        for name, listener in listen(speech, variants, console).items():
            heard[name].append(listener)
    results = {name: summary(speeches, listeners) for name, listeners in heard.items()}
    result: Json = {
        "scenario": "streaming",
        **about,
        "model": options.model,
        "dtype": options.dtype,
        "held_words": options.held,
        "audio_seconds": round(sum(speech.seconds for speech in speeches), 1),
        "variants": results,
        "against_ours": comparisons(speeches, heard, results),
    }
    path = write_result(options, "streaming", result)
    for table in tables(result):
        console.print(table)
    console.print(f"written to {path}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
