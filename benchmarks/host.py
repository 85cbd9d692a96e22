"""What a tick costs the thread that drives the device: `python -m benchmarks.host`.

A card carries out a step in some milliseconds, and takes the next one only when this thread has
made it. Here the engine is real (messages, sessions, scheduler, caches, integers of a step,
staging, readback, agreement) and the device is none: graphs replay nothing, encoders and decoders
answer at once, and fetch samples by themselves. Text is made up: three words a second, the last of
them half heard. So what is measured is the host's part, in seconds of this thread's processor time,
without the driver's share of a launch; how many operations are launched outside of graphs is
counted apart.

    ticks   the clients of `gpu/load.py`, a tick every --every seconds, in random phase; each with
            a second of audio more, so that what is less than one a second is dearer than served
    live    turns that are fed in pieces as the gateway does, ticking at --every at the most often
    decode  as many answers side by side, a token of each a step

Live, us_per_tick_acting is what of us_per_tick is no engine's: messages and texts are made up.
Without it: the least of the run's eighths, and their median.

With --sockets, what live sessions say comes through a real socket, and what they are told goes into
it: then the processor time of the threads that read and write is told, too.

The clock is made up: a step takes --step seconds of it, as on a card.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console

from benchmarks.gpu.clock import Load, Sum
from benchmarks.gpu.load import (
    Client,
    asr_sessions,
    text_request,
    whisper_request,
    whisper_sessions,
)
from benchmarks.gpu.models import GEOMETRIES, random_weights, write_folder
from benchmarks.gpu.no_device import Script, no_device
from benchmarks.gpu.stages import timed
from benchmarks.gpu.wire import Wire
from lookhear.bench import machine
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Priority, is_looping
from lookhear.engine.device.allocator import keep_freed_memory
from lookhear.engine.device.garbage import tended
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    StartTurn,
    TranscriptionSettings,
)
from lookhear.engine.paged.request import PagedSequence
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.engine.whisper.request import WhisperSequence

GEOMETRY = {"qwen3-asr": "qwen3-asr-0.6b", "whisper": "whisper-large-v3-turbo"}
PIECE = SAMPLE_RATE // 10  # samples of a message
SPOKEN, SILENT = 90, 10  # pieces
NOISE_SECONDS = 64
NARROW = 16
PARTS = 8  # of a run: what neighbours took is seen
SESSIONS = (100, 400, 800)


def ticking(load: Load, core: EngineCore, clients: Sequence[Client], every: float) -> None:
    """Every client wants something every so many seconds."""
    phases = np.random.default_rng(0).uniform(0.0, every, len(clients)).tolist()

    def tick(number: int, when: float) -> None:
        client = clients[number]
        assert not client.failure, client.failure
        if client.due is None:  # else it has waited since the last one
            client.due = when
            core.changed(client.key)
        load.at(when + every, number, partial(tick, number, when + every))

    for number, client in enumerate(clients):
        client.now = load.now
        core.add(client.key, Priority.LIVE, client)
        load.at(phases[number], number, partial(tick, number, phases[number]))


def speaking(load: Load, core: EngineCore, count: int) -> None:
    """Turns in pieces of a tenth of a second; pauses are not all at the same time."""
    noise = np.random.default_rng(0).normal(size=NOISE_SECONDS * SAMPLE_RATE) * 0.05
    samples = noise.astype(np.float32)
    draw = np.random.default_rng(1)
    voiced = [0] * count
    starts, rhythms = (draw.integers(0, 600, count).tolist() for _ in range(2))

    def speak(number: int, piece: int, when: float) -> None:
        first = (starts[number] + piece) * PIECE % (len(samples) - PIECE)
        if (piece + rhythms[number]) % (SPOKEN + SILENT) < SPOKEN:
            voiced[number] = (piece + 1) * PIECE
        part = samples[first : first + PIECE]
        load.submit(AppendAudio(f"s{number}", "t", part, voiced[number]))
        when += PIECE / SAMPLE_RATE
        load.at(when, number, partial(speak, number, piece + 1, when))

    for number in range(count):
        core.submit(StartTurn(f"s{number}", "t", TranscriptionSettings(model="bench")))
        when = draw.uniform(0.0, 1.0)
        load.at(when, number, partial(speak, number, 0, when))


def decoding(core: EngineCore, family: str, count: int) -> None:
    """Answers that nothing ends while they are measured."""
    runner: Any = core._runner
    silence = np.zeros(SAMPLE_RATE, np.float32)
    for number in range(count):
        key = f"d{number}"
        if family == "whisper":
            request: Any = whisper_request(runner._tokenizer, key, silence, 30 * SAMPLE_RATE, 400)
        else:
            request = text_request(key, number, 400, 600, runner._decoder.vocab)
        tokens = 0 if family == "whisper" else 1024
        client = Client(key, partial(_itself, request), tokens=tokens)
        client.due = 0.0
        core.add(key, Priority.LIVE, client)


def _itself(request: Any) -> Any:
    return request


def build(family: str, folder: Path, options: argparse.Namespace) -> EngineCore:
    """As `benchmarks.gpu_bench` builds it."""
    config = EngineConfig(
        model=str(folder), served_name="bench", dtype="float32", threads=1,
        max_rows=options.rows, max_context_tokens=1024, token_budget=2048, max_live_turns=2048,
        kv_cache_gigabytes=8.0, window_step_seconds=8.0, min_window_seconds=8.0,
        max_segment_seconds=24.0 if family == "qwen3-asr" else 0.0,
        tick_seconds=options.every, overlap=options.overlap,
    )  # fmt: skip
    core = build_core(config, lambda stage, share: None).core
    runner: Any = core._runner
    runner.capture(lambda share: None)
    core._scheduler._encoder_budget = 128 * SAMPLE_RATE
    return core


def narrow(path: Path) -> None:
    """Embeddings of a few numbers: to copy them is the device's work, which is not measured."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config["audio_config"]["output_dim"] = config["text_config"]["hidden_size"] = NARROW
    path.write_text(json.dumps(config), encoding="utf-8")


def measured(
    family: str, load_name: str, count: int, options: argparse.Namespace
) -> dict[str, Any]:
    """One family under one load: the thread's time per step and per tick."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_folder(GEOMETRIES[GEOMETRY[family]], folder, tiny=True)
        if family == "qwen3-asr":
            narrow(folder / "config.json")
        stack.enter_context(no_device())
        stack.enter_context(random_weights())
        core = build(family, folder, options)
        stack.enter_context(tended(0.0))  # as the engine's process is, but for the looks at all
        runner: Any = core._runner
        script: Script | None = None
        wire = Wire() if options.sockets and load_name == "live" else None
        if wire is not None:
            stack.callback(wire.close)
        load = Load(core, options.step, wire)
        warm, seconds = 3.0, options.clock
        clients: list[Client] = []
        if load_name == "decode":
            decoding(core, family, count)
            load.at(1e9, 0, lambda: None)
            warm, seconds = 20 * options.step, 200 * options.step
        elif load_name == "ticks":
            if family == "whisper":
                clients = whisper_sessions(runner._tokenizer, options.window, count)
            else:
                tokenizer = QwenTokenizer.from_folder(folder)
                clients = asr_sessions(core, tokenizer, count)
            ticking(load, core, clients, options.every)
        else:
            warm = 12.0
            script = Script(family, folder)
            kind, ends = (
                (WhisperSequence, lambda s: s.end_token)
                if family == "whisper"
                else (PagedSequence, lambda s: min(s.end_tokens))
            )
            stack.enter_context(script.spoken(kind, ends))
            stack.enter_context(patch("lookhear.engine.core.request.is_looping", is_looping))
            speaking(load, core, count)
        load.run(warm)
        for client in clients:
            client.latencies.clear()
        found, parts = Sum(), list[float]()
        for part in range(1, PARTS + 1):
            made_up = 0.0 if script is None else script.own.seconds
            some = load.run(warm + seconds * part / PARTS)
            if script is not None:
                some.acting += script.own.seconds - made_up
            parts.append(1e6 * (sum(some.seconds.values()) - some.acting) / max(1, some.ticks))
            found.add(some)
        heard = [latency for client in clients for latency in client.latencies]
        latency = float(np.quantile(heard, 0.95)) if heard else 0.0
        counted = load.run(warm + seconds + 20 * options.step, count_launches=True)
        stages: dict[str, float] = {}
        until = warm + seconds + 200 * options.step
        if options.profile:
            with timed() as taken:
                profiled = load.run(until)
            share = 1e6 / max(1, profiled.ticks)
            stages = {name: round(share * spent, 1) for name, spent in taken.items()}
        if options.functions:
            profile = cProfile.Profile()
            profile.runcall(load.run, until + 200 * options.step)
            pstats.Stats(profile).sort_stats("tottime").print_stats(options.functions)
        if load_name != "decode":
            core.check()
    total = sum(found.seconds.values())
    ticks, steps = max(1, found.ticks), max(1, found.steps)
    per_tick: dict[str, Any] = {}
    if load_name != "decode":
        per_tick = {
            "ticks_per_second": round(found.ticks / seconds, 1),
            "us_per_tick": round(1e6 * total / ticks, 1),
            "us_per_tick_without_acting": [round(us, 1) for us in (min(parts), median(parts))],
            "us_per_tick_messages": round(1e6 * found.seconds["submit"] / ticks, 1),
            **({"us_per_tick_acting": round(1e6 * found.acting / ticks, 1)} if script else {}),
            "encoded_tokens_per_tick": round(found.encoded / ticks, 1),
            **({"us_per_tick_threads": round(1e6 * found.threads / ticks, 1)} if wire else {}),
            **({"p95_ms": round(1e3 * latency, 1)} if latency else {}),
            **({"profiled_us_per_tick": stages} if stages else {}),
        }
    return {
        "family": family,
        "load": load_name,
        "sessions": count,
        "us_per_step": round(1e6 * found.seconds["step"] / steps, 1),
        "rows_per_step": round(found.rows / steps, 1),
        "launches_per_step": round(counted.launches / max(1, counted.steps), 1),
        "host_share": round(total / seconds, 3),
        "yardstick_us": round(1e6 * mean(found.yardstick or [0.0]), 1),
        **per_tick,
    }


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.host", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--family", action="append", choices=tuple(GEOMETRY))
    parser.add_argument("--load", action="append", choices=("ticks", "live", "decode"))
    parser.add_argument("--sessions", type=int, action="append")
    parser.add_argument("--step", type=float, default=0.01, help="seconds of the device")
    parser.add_argument("--clock", type=float, default=24.0, help="seconds of the made-up clock")
    parser.add_argument("--every", type=float, default=1.0, help="seconds from tick to tick")
    parser.add_argument("--seconds", type=float, default=540.0, help="in all; no run begins later")
    parser.add_argument("--rows", type=int, default=64, help="requests at once")
    parser.add_argument("--window", type=int, default=30, help="of a Whisper's ticks, seconds")
    parser.add_argument("--overlap", type=int, default=0)
    parser.add_argument("--sockets", action="store_true", help="live: through a real socket")
    parser.add_argument("--profile", action="store_true", help="split by stage")
    parser.add_argument("--functions", type=int, default=0, help="print so many; with Python 3.11")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.host", *argv])
    keep_freed_memory()  # as the engine's process does
    console = Console(highlight=False, width=200)
    if options.out is None and os.environ.get("OUT"):
        options.out = Path(os.environ["OUT"])
    end = time.monotonic() + options.seconds
    runs: list[dict[str, Any]] = []
    result = {"scenario": "host", **about, "runs": runs, "left_out": []}
    for family in options.family or GEOMETRY:
        for load in options.load or ("ticks", "live", "decode"):
            for count in options.sessions or ((8, 16, 64) if load == "decode" else SESSIONS):
                if time.monotonic() > end:
                    result["left_out"].append(f"{family}, {load}, {count}")
                    continue
                runs.append(measured(family, load, count, options))
                console.print(runs[-1])
                written = write_result(options, "host", result)  # as it comes
    if result["left_out"]:
        console.print(f"no time left for: {'; '.join(result['left_out'])}")
    if runs:
        console.print(f"written to {written}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
