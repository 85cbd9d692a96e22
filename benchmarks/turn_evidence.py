"""What Smart Turn says inside pauses and at true ends: `python -m benchmarks.turn_evidence`.

The recordings of `benchmarks.turn_ends`. The classifier is asked in every silence as it grows; its
answers are written to the result file, so that rules about them can be compared in seconds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.turn_ends import Prompt, prompts
from lookhear.bench import machine
from lookhear.bench.measures.trace import RATE
from lookhear.bench.numbers import Json
from lookhear.bench.recordings.human import HUMAN
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.gateway.services.turn_model import AUTO, downloaded
from lookhear.media.audio.resample import resample
from lookhear.media.voice import smart_turn
from lookhear.media.voice.smart_turn import SmartTurn
from lookhear.media.voice.vad import (
    SileroModel,
    SpeechPaused,
    SpeechStarted,
    VadConfig,
    VoiceDetector,
)

SILENCES_MS = (200, 400, 600, 800, 1000, 1200)
EARLY = 0.35  # seconds that silence may begin before the estimate of the last word's end
TOLERANCE = 0.25  # the same, before the place of a pause


def evidence(said: Prompt, voice: SileroModel, model: SmartTurn) -> list[Json]:
    """Of each silence: what it is (`pause`, `end` or the speaker's `own`) and the answers in it."""
    wave = resample(said.pcm.astype(np.float32) / 32768.0, RATE, smart_turn.RATE)
    detector = VoiceDetector(voice, VadConfig(silence_duration_ms=4400, pauses_ms=SILENCES_MS))
    begun = 0
    found: list[Json] = []
    for event in detector.feed(wave):
        if isinstance(event, SpeechStarted):
            begun = event.sample
        if not isinstance(event, SpeechPaused):
            continue
        if event.milliseconds == SILENCES_MS[0]:
            seconds = event.sample / smart_turn.RATE - event.milliseconds / 1000
            found.append({"kind": _kind(said, seconds), "from": round(seconds, 3), "over": {}})
        [over] = model.judge([wave[begun : event.sample]])
        found[-1]["over"][str(event.milliseconds)] = round(over, 4)
    about = {"name": said.name, "language": said.language, "held_out": said.held_out}
    return [{**about, **silence} for silence in found]


def _kind(said: Prompt, seconds: float) -> str:
    if any(begin - TOLERANCE <= seconds < end for begin, end in said.pauses):
        return "pause"
    return "end" if seconds > said.end - EARLY else "own"


def ranked(pauses: list[float], ends: list[float]) -> float:
    """How often a true end has more than a pause has; 0.5: it tells nothing."""
    above = np.subtract.outer(np.array(ends), np.array(pauses))
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def main(argv: list[str]) -> int:
    """Asks, prints and writes; exit status 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.turn_evidence", description=__doc__)
    parser.add_argument("--turn-model", default=AUTO, metavar="auto|FILE")
    parser.add_argument("--data", type=Path, default=HUMAN, help="recordings (default: people's)")
    parser.add_argument("--limit", type=int, default=None, help="recordings per language")
    parser.add_argument("--seed", type=int, default=0)
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.turn_evidence", *argv])
    path = downloaded() if options.turn_model == AUTO else Path(options.turn_model)
    voice, model = SileroModel(), SmartTurn(path)
    said = prompts(options.data, options.limit, options.seed)
    silences = [silence for one in said for silence in evidence(one, voice, model)]
    table = Table("silence", "pauses", "median", "ends", "median", "told apart")
    for silence in map(str, SILENCES_MS):
        pauses, ends = (
            [
                one["over"][silence]
                for one in silences
                if one["kind"] == kind and silence in one["over"]
            ]
            for kind in ("pause", "end")
        )
        if pauses and ends:
            medians = [f"{np.median(values):.2f}" for values in (pauses, ends)]
            apart = f"{ranked(pauses, ends):.2f}"
            table.add_row(
                f"{silence} ms", str(len(pauses)), medians[0], str(len(ends)), medians[1], apart
            )
    console = Console(highlight=False)
    console.print(table)
    written = write_result(options, "turn_evidence", {**about, "silences": silences})
    console.print(f"written to {written}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
