"""What adapters cost: `python -m benchmarks.in_process.adapters`.

Answers written together by a Qwen3 of random weights, as wide as the 0.6B and a seventh as deep, on
one thread, without a gateway: all with one adapter, each with one of its own, and with none, by
turns in changing order. The adapters change all linears of all layers. Ratios of processor time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.in_process.vectors import WIDE, words
from lookhear.bench import machine
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    AdapterFailed,
    AnswerCompleted,
    AnswerFailed,
    AnswerSettings,
    AnswerText,
    ChatMessage,
    CloseSession,
    LoadAdapter,
    StartAnswer,
    TextPart,
)
from tools.random_checkpoints.adapters import build_random_adapter
from tools.random_checkpoints.pooling import build_reranker

Json = dict[str, Any]


def loaded(folder: Path, options: argparse.Namespace) -> EngineCore:
    """An engine with all of its adapters."""
    model_folder = folder / "model"
    model = build_reranker(model_folder, **WIDE)
    config = EngineConfig(
        model=str(model_folder),
        served_name="m",
        dtype=options.dtype,
        threads=1,
        draft="off",
        max_adapters=options.adapters,
        max_rows=max(8, options.adapters),
    )
    core = build_core(config, lambda stage, share: None).core
    for number in range(options.adapters):
        path = build_random_adapter(
            folder / f"a{number}", model, seed=number, rank=options.rank, size=0.01
        )
        core.submit(LoadAdapter("r", "m", f"a{number}", str(path)))
        for event in core.step():
            if isinstance(event, AdapterFailed):
                raise RuntimeError(event.message)
    return core


def write(core: EngineCore, models: list[str], tokens: int, seed: str) -> tuple[list[str], float]:
    """An answer of each model, all at once: texts, and the processor's seconds."""
    for number, model in enumerate(models):
        said = [ChatMessage("user", [TextPart(words(12, f"{seed} {number}"))])]
        settings = AnswerSettings(model, max_tokens=tokens, ignore_end=True)
        core.submit(StartAnswer("s", str(number), settings, said))
    texts = [""] * len(models)
    began = time.process_time()
    while core.has_work:
        for event in core.step():
            if isinstance(event, AnswerText):
                texts[int(event.answer)] += event.text
            elif isinstance(event, AnswerFailed):
                raise RuntimeError(event.message)
            elif isinstance(event, AnswerCompleted):
                assert event.usage.output == tokens
    took = time.process_time() - began
    core.submit(CloseSession("s"))
    core.step()
    return texts, took


def main(argv: list[str]) -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(prog="benchmarks.in_process.adapters", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--adapters", type=int, default=8)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--dtype", default=EngineConfig().dtype)
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.in_process.adapters", *argv])
    torch.set_num_threads(1)
    count = options.adapters
    kinds = {
        "one": ["m:a0"] * count,
        "each its own": [f"m:a{number}" for number in range(count)],
        "none": ["m"] * count,
    }
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        core = loaded(Path(folder), options)
        for number in range(options.rounds + 1):
            order = list(kinds)[:: 1 if number % 2 else -1]
            for kind in order:
                _, seconds = write(core, kinds[kind], options.tokens, str(number))
                if number:  # the first round is nobody's
                    took[kind].append(seconds)
            print(f"round {number}", file=sys.stderr)

    def ratio(kind: str, by: str) -> Json:
        ratios = [a / b for a, b in zip(took[kind], took[by], strict=True)]
        spread = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
        return {name: round(value, 3) for name, value in spread.items()}

    found = {
        "each_its_own_by_one": ratio("each its own", "one"),
        "one_by_none": ratio("one", "none"),
    }
    print(json.dumps(found, indent=2))
    named = {name: getattr(options, name) for name in ("adapters", "rank", "tokens", "dtype")}
    result = {"scenario": "adapters", **about, **named, "seconds": took, "ratios": found}
    path = write_result(options, "adapters", result)
    print(f"written to {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
