"""Questions about pictures on one thread of a CPU: `python -m benchmarks.vision`.

Ours and transformers' `generate` on identical Qwen3-VL checkpoints and identical inputs, greedy:

- one request: a picture of 256 tokens, 20 words, an answer of 32 tokens;
- eight at once, of mixed pictures, texts and answers: ours as they come, transformers' as a batch
  padded on the left. Both are credited with the tokens that were asked for, nothing else.
- a second question about a picture of 1,024 tokens, behind the first and its answer.

The checkpoints have random weights: one of the demo's size, one with the proportions of the 2B. All
engines share this process and its one thread, and take turns; of transformers' precisions and kinds
of attention, all are tried, and the two best take part. Ratios are taken within a round, of wall
time and of CPU time: the latter also means something while the machine is busy.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.in_process.vision_engines import MODES, Answers, Ours, Theirs
from benchmarks.in_process.vision_inputs import EIGHT, GEOMETRY, SINGLE, Question, Vocabulary
from lookhear.bench import machine
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.device.allocator import keep_freed_memory
from lookhear.engine.families.family import chosen_dtype, half_decoder

SCENARIOS = {"one": SINGLE, "eight": EIGHT}
PICTURE = (32, 32)  # tokens down and across, of the second question
WORDS = 20  # of a question
Json = dict[str, Any]
Ask = Callable[[int], Answers]  # of a round


@dataclass(frozen=True, slots=True)
class Run:
    """Answers of one engine, with seconds of the clock and of the processor."""

    wall: float
    cpu: float
    answers: Answers


def timed(ask: Ask, number: int) -> Run:
    """One asking, measured."""
    began, began_cpu = time.perf_counter(), time.process_time()
    answers = ask(number)
    return Run(time.perf_counter() - began, time.process_time() - began_cpu, answers)


def load_ours(folder: Path) -> dict[str, Ours]:
    """As the engine loads it by default, and in float32 throughout."""
    dtype, native = chosen_dtype("auto", "cpu", folder), chosen_dtype("auto", "cpu")
    half = half_decoder("auto", "cpu", folder)
    default = Ours(folder, dtype, encoder_dtype=native, half=half)
    return {"ours": default, "ours float32": Ours(folder)}


def _asking(engine: Ours, questions: Sequence[Question]) -> Ask:
    return lambda number: engine.ask(questions, f"round {number}".encode()).answers


def _asking_theirs(engine: Theirs, questions: Sequence[Question]) -> Ask:
    inputs = engine.inputs(questions)
    return lambda _: engine.ask(inputs, questions)


def compare(
    ours: dict[str, Ours], theirs: dict[str, Theirs], questions: Sequence[Question], rounds: int
) -> Json:
    """All engines by turns, round by round: times, ratios, and whose tokens are alike."""
    asks: dict[str, Ask] = {}
    for name, engine in ours.items():
        asks[name] = _asking(engine, questions)
    for name, peer in theirs.items():
        asks[name] = _asking_theirs(peer, questions)
    tried = {name: timed(ask, -1) for name, ask in asks.items()}
    best = sorted(theirs, key=lambda name: tried[name].cpu)[:2]
    runs: dict[str, list[Run]] = {name: [] for name in (*ours, *best)}
    for number in range(rounds):
        for name, found in runs.items():
            found.append(timed(asks[name], number))
    return _summary(tried, runs, best)


def _summary(tried: dict[str, Run], runs: dict[str, list[Run]], best: Sequence[str]) -> Json:
    reference = tried["float32 sdpa"].answers
    result: Json = {"tried_cpu_seconds": {name: round(run.cpu, 3) for name, run in tried.items()}}
    peer = min(best, key=lambda name: statistics.median(run.cpu for run in runs[name]))
    result["best_of_transformers"] = peer
    for name, found in runs.items():
        pairs = list(zip(runs[peer], found, strict=True))
        result[name] = {
            "seconds": _spread([run.wall for run in found]),
            "cpu_seconds": _spread([run.cpu for run in found]),
            "times_faster": _spread([theirs.wall / mine.wall for theirs, mine in pairs]),
            "times_faster_cpu": _spread([theirs.cpu / mine.cpu for theirs, mine in pairs]),
            "tokens_as_float32_sdpa": round(_alike(found[0].answers, reference), 4),
        }
    return result


def _alike(one: Answers, other: Answers) -> float:
    """The share of equal tokens, place by place."""
    equal = [a == b for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)]
    return sum(equal) / len(equal)


def _spread(values: Sequence[float]) -> dict[str, float]:
    numbers = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {key: round(value, 4) for key, value in numbers.items()}


def second_question(ours: Ours, vocabulary: Vocabulary, rounds: int) -> Json:
    """Seconds to the first token of a question, and of the next one about the same picture. Both
    times the picture comes as pixels, whose digest is computed anew."""
    first, second, ratios, counts = [], [], [], []
    for number in range(rounds + 1):
        salt = f"second {number}".encode()
        question = vocabulary.question(PICTURE, WORDS, 8, number)
        one = ours.ask([question], salt)
        more = vocabulary.draw(WORDS, 50 + number)
        two = ours.ask([question.again([*one.answers[0], *more])], salt)
        if number:  # the first one warms up
            first.append(one.first)
            second.append(two.first)
            ratios.append(one.first / two.first)
            counts.append((one.read, one.encoded, two.read, two.encoded))
    read, encoded, read_again, encoded_again = counts[-1]
    return {
        "picture_tokens": PICTURE[0] * PICTURE[1],
        "first_seconds": _spread(first),
        "second_seconds": _spread(second),
        "times_sooner": _spread(ratios),
        "new_words": WORDS,
        "first_read": read,
        "first_encoded": encoded,
        "second_read": read_again,
        "second_encoded": encoded_again,
        "same_counts_in_all_rounds": len(set(counts)) == 1,
    }


def measure(folder: Path, rounds: int, console: Console) -> Json:
    """Everything of one geometry."""
    ours = load_ours(folder)
    vocabulary = Vocabulary.of(folder)
    encoder = ours["ours"].model.encoder
    result: Json = {
        "parameters": ours["ours"].model.num_parameters,
        "ours_dtype": str(ours["ours"].model.decoder.dtype).removeprefix("torch."),
        "ours_encoder_dtype": str(encoder.dtype).removeprefix("torch."),
        "second_question": second_question(ours["ours"], vocabulary, rounds),
    }
    theirs = {mode: Theirs(folder, mode, encoder.dims) for mode in MODES}
    for name, shapes in SCENARIOS.items():
        questions = vocabulary.questions(shapes)
        result[name] = compare(ours, theirs, questions, rounds)
        ratio = result[name]["ours"]["times_faster"]["median"]
        console.print(f"{name}: {ratio:.2f} times", style="dim")
    return result


def table(name: str, result: Json) -> Table:
    """A line for each way of asking."""
    about = f"{GEOMETRY[name].about}; ours: {result['ours_dtype']}"
    title = (
        f"\n{name}: {about}, seeing in {result['ours_encoder_dtype']}"
        "\nratio: how many times faster than transformers, within a round; CPU: the same of CPU"
        "\ntime; alike: tokens as transformers' in float32"
    )
    shown = Table(title=title, title_justify="left", title_style="bold", box=None)
    columns = ("", "seconds", "min", "max", "ratio", "min", "max", "CPU", "alike")
    for column in columns:
        shown.add_column(column, justify="right" if column else "left", no_wrap=True)
    for scenario in SCENARIOS:
        found = result[scenario]
        peer = found["best_of_transformers"]
        for engine in ("ours", "ours float32", peer):
            row = found[engine]
            cells = [f"{row['seconds'][key]:.3f}" for key in ("median", "min", "max")]
            cells += [f"{row['times_faster'][key]:.2f}" for key in ("median", "min", "max")]
            cells.append(f"{row['times_faster_cpu']['median']:.2f}")
            cells.append(f"{row['tokens_as_float32_sdpa']:.1%}")
            shown.add_row(f"{scenario}, {engine}", *cells)
    return shown


def _second(name: str, found: Json) -> str:
    return (
        f"{name}, second question about {found['picture_tokens']} tokens: first token after "
        f"{found['second_seconds']['median']:.3f} s instead of "
        f"{found['first_seconds']['median']:.3f} s, {found['times_sooner']['median']:.1f} times "
        f"sooner ({found['times_sooner']['min']:.1f} to {found['times_sooner']['max']:.1f}); read "
        f"{found['second_read']} tokens for {found['new_words']} new words, encoded "
        f"{found['second_encoded']}"
    )


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.vision", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--geometry", nargs="+", choices=GEOMETRY, default=list(GEOMETRY))
    parser.add_argument("--rounds", type=int, default=5, help="that count")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    console = Console(highlight=False)
    about = machine.describe(["benchmarks.vision", *argv])
    torch.set_num_threads(1)
    keep_freed_memory()  # as the engine's process does; transformers' gain too
    result: Json = {"scenario": "vision", **about, "threads": 1, "rounds": options.rounds}
    result["transformers"] = metadata.version("transformers")
    for name in options.geometry:
        console.print(f"{name} ...", style="dim")
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            GEOMETRY[name].build(folder)
            result[name] = measure(folder, options.rounds, console)
    path = write_result(options, "vision", result)
    for name in options.geometry:
        console.print(table(name, result[name]))
        console.print(_second(name, result[name]["second_question"]))
    console.print(f"written to {path}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
