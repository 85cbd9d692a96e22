"""Whether an old turn costs more than a young one: `python -m benchmarks.ageing`.

`benchmarks.endurance` compares minutes that are minutes apart on a machine whose speed drifts. Here
two cores hear the same recording, one nearly an hour ahead of the other, and take turns every few
seconds of audio: whatever else the machine does meets both alike.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

from rich.console import Console

from benchmarks.in_process.sessions import PIECE, Listener, Speech
from lookhear.bench import machine
from lookhear.bench.recordings.dataset import Audio, long_recordings
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import SAMPLE_RATE, TranscriptionSettings
from lookhear.media.voice.vad import SileroModel

MINUTE = 60 * SAMPLE_RATE // PIECE  # pieces
TURN = MINUTE // 4


def heard(listener: Listener, end: int) -> tuple[float, int]:
    """(CPU seconds, ticks) of hearing on until piece `end`."""
    seconds, ticks = listener.minutes.total.cpu, len(listener.ticks)
    listener.hear(end)
    return listener.minutes.total.cpu - seconds, len(listener.ticks) - ticks


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0. LookhearError for a model that is not there."""
    parser = argparse.ArgumentParser(prog="benchmarks.ageing", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="demo-qwen3-asr")
    parser.add_argument("--minutes", type=int, default=60, help="of the old turn, at its end")
    parser.add_argument("--compared", type=int, default=5, help="last minutes of it")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.ageing", *argv])
    recording = next(r for r in long_recordings() if r.language == "en")
    speech = Speech.of(recording, Audio(), SileroModel(), seconds=60.0 * options.minutes)

    def turn() -> Listener:
        limit = max(3600.0, 60.0 * options.minutes)
        config = EngineConfig(model=options.model, threads=1, max_audio_seconds=limit)
        core = build_core(config, lambda stage, share: None).core
        return Listener(core, TranscriptionSettings(model=options.model), speech)

    old, young = turn(), turn()
    begin = (options.minutes - options.compared) * MINUTE
    old.hear(begin)
    young.hear(MINUTE)  # the first minute warms up
    pairs = []
    for end in range(TURN, options.compared * MINUTE + 1, TURN):
        pairs.append((heard(old, begin + end), heard(young, MINUTE + end)))
    costs = [[cost for cost, _ in column] for column in zip(*pairs, strict=True)]
    ticks = [sum(count for _, count in column) for column in zip(*pairs, strict=True)]
    per_tick = [1000 * sum(cost) / count for cost, count in zip(costs, ticks, strict=True)]
    ratios = [(a / m) / (b / n) for (a, m), (b, n) in pairs]
    result: dict[str, Any] = {
        "scenario": "ageing",
        **about,
        "minutes": options.minutes,
        "compared": options.compared,
        "ms_per_tick_old": round(per_tick[0], 3),
        "ms_per_tick_young": round(per_tick[1], 3),
        "old_to_young": round(per_tick[0] / per_tick[1], 4),
        "ratio_by_turn": {
            "median": round(statistics.median(ratios), 4),
            "min": round(min(ratios), 4),
            "max": round(max(ratios), 4),
        },
    }
    path = write_result(options, "ageing", result)
    console = Console(highlight=False)
    console.print(result)
    console.print(f"written to {path}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
