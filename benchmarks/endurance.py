"""One turn of an hour, and ten minutes of silence: `python -m benchmarks.endurance`.

Long recordings follow each other without an end, each time at another loudness, in one turn that is
never interrupted, on the audio's own clock as fast as it runs. Per minute of audio: computing per
tick, memory of the process, blocks of the paged cache in use, bytes of the encoder cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.in_process.sessions import PIECE, Listener, Meter, Speech
from lookhear.bench import machine
from lookhear.bench.measures import metrics
from lookhear.bench.recordings.dataset import Audio, long_recordings
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelTurn,
    StartTurn,
    TextCommitted,
    TranscriptionSettings,
)
from lookhear.media.voice.vad import SileroModel, VoiceDetector
from lookhear.wer import normalise

Json = dict[str, Any]
MINUTE = 60 * SAMPLE_RATE // PIECE  # pieces
EARLY = slice(1, 6)  # the second minute and the four after it: the first is still warming up
LATE = slice(-5, None)
AFTER_SPEECH = 5  # seconds of silence in which the last words are still worked on


def resident_mib() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def hour(core: EngineCore, settings: TranscriptionSettings, speech: Speech) -> list[Json]:
    """Minute by minute; the turn is as long as the speech."""
    num_blocks = core.stats()["free_blocks"]  # nothing is in use yet
    listener = Listener(core, settings, speech)
    said = [word for word in speech.said() for _ in normalise(word.word)]
    minutes: list[Json] = []
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, transient=True) as bars:
        task = bars.add_task("one turn", total=speech.num_pieces)
        for end in range(MINUTE, speech.num_pieces + 1, MINUTE):
            ticks, texts, before = len(listener.ticks), len(listener.committed), listener.counted()
            listener.hear(end)
            bars.update(task, completed=end)
            number = end // MINUTE - 1
            meter, after = listener.minutes.at(60.0 * number), listener.counted()
            ticks = len(listener.ticks) - ticks
            heard = " ".join(text for _, text in listener.committed[texts:])
            gained = {name: after[name] - before[name] for name in after}
            states = core.stats()
            minutes.append(
                {
                    "minute": number + 1,
                    "ticks": ticks,
                    "cpu_ms_per_tick": round(1000 * meter.cpu / max(1, ticks), 3),
                    "wall_ms_per_tick": round(1000 * meter.wall / max(1, ticks), 3),
                    "passes_per_tick": round(gained["decoder_passes"] / max(1, ticks), 3),
                    "prompt_tokens_read": gained["prompt_tokens_read"],
                    "prompt_tokens_found": gained["prompt_tokens_found"],
                    "media_tokens_encoded": gained["media_tokens_encoded"],
                    "rss_mib": round(resident_mib(), 1),
                    "blocks_held": num_blocks - states["free_blocks"] - states["cached_blocks"],
                    "blocks_cached": states["cached_blocks"],
                    "encoder_cache_bytes": states["encoder_cache_bytes"],
                    "words_said": sum(60 * number < word.end <= 60 * (number + 1) for word in said),
                    "words_heard": len(normalise(heard)),
                }
            )
    listener.finish()
    core.check()
    return minutes


def growth(minutes: list[Json], key: str) -> Json:
    """The last minute by the second; medians of five; the fitted growth over the whole session,
    as a share of its mean."""
    values = [minute[key] for minute in minutes]
    if len(values) < 3:
        return {}
    points = [(60.0 * minute["minute"], minute[key]) for minute in minutes[1:]]
    mean = statistics.fmean(values[1:])
    fitted = metrics.slope_per_minute(points) * (len(points) - 1) / mean if mean else 0.0
    early, late = statistics.median(values[EARLY]), statistics.median(values[LATE])
    return {
        "second_minute": values[1],
        "last_minute": values[-1],
        "last_by_second": round(values[-1] / values[1], 4) if values[1] else None,
        "last_five_by_early_five": round(late / early, 4) if early else None,
        "fitted_growth": round(fitted, 4),
    }


def silence(
    core: EngineCore, settings: TranscriptionSettings, speech: Speech | None, seconds: float
) -> Json:
    """Faint noise, in a turn that begins with the speech, if any: ticks, and what they cost.

    ticks: those after the first seconds of silence, in which the last words are finished.
    """
    detector, rng = VoiceDetector(SileroModel()), np.random.default_rng(0)
    core.submit(StartTurn("silence", "turn", settings))
    spoken = speech.num_pieces if speech else 0
    meter = Meter()
    texts: list[str] = []
    first = 0
    for number in range(spoken + round(seconds * SAMPLE_RATE / PIECE)):
        if speech is not None and number < spoken:
            samples = speech.piece(number)[0]
        else:
            samples = rng.normal(0.0, 1e-4, PIECE).astype(np.float32)
        detector.feed(samples)
        is_settled = number >= spoken + AFTER_SPEECH * SAMPLE_RATE // PIECE
        if not is_settled:
            first = core.stats()["requests"]
        with (meter if is_settled else Meter()).running():
            core.submit(AppendAudio("silence", "turn", samples, detector.voiced_until))
            while core.has_work:
                texts += [
                    e.text for e in core.step() if is_settled and isinstance(e, TextCommitted)
                ]
    ticks = core.stats()["requests"] - first
    core.submit(CancelTurn("silence", "turn"))
    return {
        "seconds": seconds,
        "after_speech": speech is not None,
        "ticks": ticks,
        "cpu_ms_per_audio_second": round(1000 * meter.cpu / max(1.0, seconds - AFTER_SPEECH), 4),
        "text": "".join(texts),
    }


def table(result: Json) -> Table:
    """A line for every few minutes."""
    shown = Table(
        title=f"{len(result['minutes'])} minutes in one turn", title_justify="left", box=None
    )
    columns = (
        "minute", "ticks", "CPU ms/tick", "ms/tick", "passes", "MiB", "held", "cached", "enc KiB",
        "said", "heard",
    )  # fmt: skip
    for column in columns:
        shown.add_column(column, justify="right", no_wrap=True)
    minutes = result["minutes"]
    step = max(1, len(minutes) // 12)
    for minute in [m for i, m in enumerate(minutes) if i in (0, 1) or not (i + 1) % step]:
        shown.add_row(
            str(minute["minute"]),
            str(minute["ticks"]),
            f"{minute['cpu_ms_per_tick']:.2f}",
            f"{minute['wall_ms_per_tick']:.2f}",
            f"{minute['passes_per_tick']:.2f}",
            f"{minute['rss_mib']:.0f}",
            str(minute["blocks_held"]),
            str(minute["blocks_cached"]),
            str(minute["encoder_cache_bytes"] // 1024),
            str(minute["words_said"]),
            str(minute["words_heard"]),
        )
    return shown


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.endurance", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="demo-qwen3-asr")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--language", default="en", help="of the long recording")
    parser.add_argument("--silence", type=float, default=600.0, help="seconds")
    parser.add_argument(
        "--kv-gigabytes",
        type=float,
        default=EngineConfig().kv_cache_gigabytes,
        help="of the paged cache: its pages become resident as they are first written",
    )
    parser.add_argument("--dtype", default=EngineConfig().dtype, help="of the weights")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    console = Console(highlight=False)
    about = machine.describe(["benchmarks.endurance", *argv])
    config = EngineConfig(
        model=options.model,
        dtype=options.dtype,
        threads=1,
        max_audio_seconds=max(3600.0, 60.0 * options.minutes),
        kv_cache_gigabytes=options.kv_gigabytes,
    )
    core = build_core(config, lambda stage, share: None).core
    settings = TranscriptionSettings(model=options.model)
    recording = next(r for r in long_recordings() if r.language == options.language)
    audio, silero = Audio(), SileroModel()
    speech = Speech.of(recording, audio, silero, seconds=60.0 * options.minutes)
    before = time.perf_counter()
    minutes = hour(core, settings, speech)
    seconds = time.perf_counter() - before
    short = Speech.of(recording, audio, silero, seconds=10.0)
    keys = "cpu_ms_per_tick", "wall_ms_per_tick", "rss_mib", "blocks_held", "encoder_cache_bytes"
    result: Json = {
        "scenario": "endurance",
        **about,
        "model": options.model,
        "dtype": options.dtype,
        "wall_seconds": round(seconds, 1),
        "growth": {key: growth(minutes, key) for key in keys},
        "silence": [silence(core, settings, s, options.silence) for s in (None, short)],
        "minutes": minutes,
    }
    path = write_result(options, "endurance", result)
    console.print(table(result))
    for key, numbers in result["growth"].items():
        if numbers:
            console.print(
                f"{key}: second minute {numbers['second_minute']}, last {numbers['last_minute']}, "
                f"ratio {numbers['last_by_second']}, medians of five "
                f"{numbers['last_five_by_early_five']}, fitted {numbers['fitted_growth']:+.2%}"
            )
    for row in result["silence"]:
        console.print(
            f"silence{' after speech' if row['after_speech'] else ''}: {row['ticks']} ticks in "
            f"{row['seconds']:.0f} s, {row['cpu_ms_per_audio_second']:.3f} ms per second"
        )
    console.print(f"written to {path}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
