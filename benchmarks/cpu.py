"""One thread of a CPU, 30 s of audio, 100 tokens: `python -m benchmarks.cpu`.

Ours, faster-whisper and transformers on identical checkpoints of Whisper's tiny and base geometry,
end to end (samples in, token ids out). The peers come with
`pip install faster-whisper transformers`; the run takes about four minutes.

The weights are random, with a text planted in them: the row of each decoder position points at the
token that has to come next, so that every engine writes the same 100 tokens and ends, without
being forced by options that differ from peer to peer. Each engine is a process with one thread;
they run one after another, in rounds, and ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file, save_file

from benchmarks.peers.checkpoints import ctranslate2_folder
from benchmarks.peers.worker import Worker
from lookhear.bench import machine
from lookhear.bench.result_file import add_file_arguments, write_result
from tools.random_checkpoints.whisper import EOT, build_random_whisper

GEOMETRY: dict[str, dict[str, Any]] = {
    "tiny": {"layers": 4, "width": 384, "heads": 6},
    "base": {"layers": 6, "width": 512, "heads": 8},
}
PROMPT_TOKENS = 4  # start of transcript, language, task, no timestamps
OURS = "lookhear"
# module, modes, whether it reads the converted folder
PEERS: dict[str, tuple[str, tuple[str, ...]]] = {
    OURS: ("lookhear_engine", ("auto", "float32")),
    "faster-whisper": ("faster_whisper_engine", ("float32", "int8")),
    "transformers": ("transformers_engine", ("float32", "bfloat16", "bfloat16-eager")),
}
CONVERTED = "faster-whisper"


def plant_text(folder: Path, num_tokens: int) -> list[int]:
    """Makes greedy decoding say num_tokens ordinary tokens and then the end; returns them."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    generator = torch.Generator().manual_seed(1)
    text = (torch.randperm(40_000, generator=generator)[:num_tokens] + 1000).tolist()
    table = tensors["model.decoder.embed_tokens.weight"]
    places = tensors["model.decoder.embed_positions.weight"]
    for i, token in enumerate([*text, *[EOT] * (len(places) - num_tokens)]):
        position = PROMPT_TOKENS - 1 + i
        if position < len(places):
            places[position] = 500 * table[token] / table[token].norm()
    save_file(tensors, path, metadata={"format": "pt"})
    return text


def measure(
    geometry: str, rounds: int, num_tokens: int, peers: list[str], console: Console
) -> dict[str, Any]:
    """Seconds of every engine and mode, round by round."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        work = Path(name)
        folder = build_random_whisper(work / geometry, **GEOMETRY[geometry])
        text = plant_text(folder, num_tokens)
        converted = ctranslate2_folder(folder, work) if CONVERTED in peers else folder
        audio = work / "audio.npy"
        noise = np.random.default_rng(0).normal(size=30 * 16_000)
        np.save(audio, (0.1 * noise).astype(np.float32))
        workers: list[tuple[str, Worker, tuple[str, ...]]] = []
        for peer in peers:
            module, modes = PEERS[peer]
            source = converted if peer == CONVERTED else folder
            pairs = [f"{mode}={source}" for mode in modes]
            worker = Worker(peer, module, [str(audio), *pairs])
            workers.append((peer, stack.enter_context(worker), modes))
        runs: dict[str, list[dict[str, float]]] = {}
        for number in range(rounds + 1):
            for peer, worker, modes in workers:
                for mode in modes:
                    answer = worker.ask(mode)
                    if answer["tokens"] != text:
                        raise RuntimeError(
                            f"{peer} {mode}: expected the planted {len(text)} tokens, got "
                            f"{len(answer['tokens'])}: {answer['tokens'][:5]} ..."
                        )
                    if number:  # the first one warms up
                        seconds = {key: answer[key] for key in ("seconds", "cpu_seconds")}
                        runs.setdefault(f"{peer} {mode}", []).append(seconds)
                    console.print(
                        f"{geometry} round {number} {peer} {mode}: {answer['seconds']:.3f} s",
                        style="dim",
                    )
    return summary(runs)


def summary(runs: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Per engine: median, least and most seconds, and how much longer than ours it took: the median
    of the ratios within rounds, and their spread."""
    ours = [run["seconds"] for run in runs[f"{OURS} auto"]]
    result: dict[str, Any] = {}
    for name, found in runs.items():
        seconds = [run["seconds"] for run in found]
        ratios = [theirs / mine for theirs, mine in zip(seconds, ours, strict=True)]
        result[name] = {
            "seconds": _spread(seconds),
            "cpu_seconds": _spread([run["cpu_seconds"] for run in found]),
            "times_ours": _spread(ratios),
            "runs": [round(value, 4) for value in seconds],
        }
    return result


def _spread(values: list[float]) -> dict[str, float]:
    numbers = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {key: round(value, 4) for key, value in numbers.items()}


def table(geometry: str, result: dict[str, Any]) -> Table:
    """A line for each engine of one geometry."""
    title = f"\n{geometry}, one thread; ratio: to ours, within a round"
    shown = Table(title=title, title_justify="left", title_style="bold", box=None)
    for column in ("engine", "seconds", "min", "max", "CPU", "ratio", "min", "max"):
        justify: Any = "left" if column == "engine" else "right"
        shown.add_column(column, justify=justify, no_wrap=True)
    for name, row in result.items():
        cells = [f"{row['seconds'][key]:.3f}" for key in ("median", "min", "max")]
        cells.append(f"{row['cpu_seconds']['median']:.3f}")
        cells += [f"{row['times_ours'][key]:.2f}" for key in ("median", "min", "max")]
        shown.add_row(name, *cells)
    return shown


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.cpu", description=__doc__)
    parser.add_argument("--geometry", nargs="+", choices=GEOMETRY, default=list(GEOMETRY))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=5, help="that count")
    parser.add_argument("--tokens", type=int, default=100)
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    console = Console(highlight=False)
    about = machine.describe(["benchmarks.cpu", *argv])
    result: dict[str, Any] = {"scenario": "cpu", **about, "rounds": options.rounds}
    peers = [OURS, *(peer for peer in options.peers if peer != OURS)]
    for geometry in options.geometry:
        result[geometry] = measure(geometry, options.rounds, options.tokens, peers, console)
    path = write_result(options, "cpu", result)
    for geometry in options.geometry:
        console.print(table(geometry, result[geometry]))
    console.print(f"written to {path}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
