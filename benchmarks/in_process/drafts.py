"""Answers with drafts and without, of one model: `python -m benchmarks.in_process.drafts`.

Every prompt is asked twice, one after the other and in changing order: of an engine that guesses
how answers go on, and of one that does not. Texts must be the same. Passes are counted, and ratios
taken of what each prompt took. Four kinds of prompts, in equal shares:

- quoting: the model likes what it has said (a negative frequency penalty), so a draft is right;
- schema: a form whose names the grammar forces;
- free: greedy, as long as it goes on;
- drawn: at a temperature of 2, where hardly anything repeats itself and drafts are wrong.

`--model random` is a Qwen3 of random weights, as wide as the 0.6B and a quarter as deep: large
enough that a step waits for memory. `--draft right` then is its first layer as a draft model, and
the others add nothing, so that it is always right; `--draft wrong` one of other weights. `--draft
head` is an EAGLE3 head that is always right, on layers none of which adds anything; `--draft
wrong-head` one of random weights.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from safetensors.torch import load_file, save_file

from lookhear.bench import machine
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerFailed,
    AnswerSettings,
    AnswerText,
    ChatMessage,
    CloseSession,
    StartAnswer,
    TextPart,
)
from tools.random_checkpoints.eagle3 import build_random_eagle3, build_right_eagle3, silence
from tools.random_checkpoints.qwen3 import build_random_qwen3, write_qwen_tokenizer

Json = dict[str, Any]
WORDS = "what is the colour of a red circle left blue square how many big green there and".split()
FORM = {
    "type": "object",
    "properties": {
        "name_of_the_customer": {"type": "string", "maxLength": 8},
        "kind_of_request": {"enum": ["a question about a picture", "a question about a text"]},
        "number_of_objects": {"type": "integer", "minimum": 0, "maximum": 50},
    },
    "required": ["name_of_the_customer", "kind_of_request", "number_of_objects"],
    "additionalProperties": False,
}
KINDS: dict[str, Json] = {
    "quoting": {"frequency_penalty": -1.0, "ignore_end": True},
    "schema": {"schema": json.dumps(FORM), "temperature": 1.0},
    "free": {"ignore_end": True},
    "drawn": {"temperature": 2.0, "ignore_end": True},
}
COUNTERS = ("decoder_passes", "drafted_tokens", "accepted_tokens", "draft_passes")


def build_random(folder: Path, *, layers: int = 7, silent: int | None = None, seed: int = 0) -> Any:
    """A Qwen3 with a tokenizer that its ids fit, and no template: the usual one is taken. silent:
    layers from that one on add nothing, at the usual cost. Returns transformers' model."""
    ids = write_qwen_tokenizer(folder)
    model = build_random_qwen3(
        folder,
        seed=seed,
        vocab_size=max(32_768, *ids.values()),
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=4096,
        eos_token_id=[ids["<|im_end|>"]],
    )
    if silent is not None:
        silence(model.model, silent)
        model.save_pretrained(folder)
    return model


def build_draft(folder: Path, large: Path, *, is_right: bool) -> str:
    """Of one layer: the first one of the large model, or another."""
    build_random(folder, layers=1, seed=1)
    if is_right:
        weights = load_file(large / "model.safetensors")
        kept = load_file(folder / "model.safetensors").keys()
        save_file({name: weights[name] for name in kept}, folder / "model.safetensors")
    return str(folder)


def build_head(folder: Path, large: Path, model: Any, *, is_right: bool) -> str:
    """Of one layer of the model's size."""
    sizes: Json = {"intermediate_size": 3072, "head_dim": 128}
    if is_right:
        build_right_eagle3(folder, large, model.model, **sizes)
    else:
        heads: Json = {"num_attention_heads": 16, "num_key_value_heads": 8}
        build_random_eagle3(folder, large, **sizes, **heads, seed=1)
    return str(folder)


@dataclass(frozen=True, slots=True)
class Run:
    """What some prompts took together. cpu: seconds of the processor."""

    texts: list[str]
    cpu: float
    wall: float
    counts: Counter[str]


class Side:
    """One engine, asked without a gateway."""

    def __init__(self, model: str, draft: str, dtype: str, rows: int) -> None:
        config = EngineConfig(
            model=model, served_name="m", draft=draft, dtype=dtype, threads=1, max_rows=rows
        )
        self._core: EngineCore = build_core(config, lambda stage, share: None).core
        self._number = 0

    def ask(self, prompts: list[StartAnswer]) -> Run:
        """All at once."""
        before = Counter(self._core.stats())
        texts = dict.fromkeys((prompt.answer for prompt in prompts), "")
        began, began_cpu = time.perf_counter(), time.process_time()
        for prompt in prompts:
            self._core.submit(prompt)
        while self._core.has_work:
            for event in self._core.step():
                if isinstance(event, AnswerText):
                    texts[event.answer] += event.text
                elif isinstance(event, AnswerFailed):
                    raise RuntimeError(event.message)
                elif isinstance(event, AnswerCompleted):
                    texts[event.answer] += f" ({event.reason}, {event.usage.output})"
        cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
        after = self._core.stats()
        counts = Counter({name: after.get(name, 0) - before[name] for name in COUNTERS})
        self._core.submit(CloseSession("s"))
        self._core.step()
        return Run(list(texts.values()), cpu, wall, counts)


def prompts(kind: str, count: int, tokens: int, seed: int) -> list[StartAnswer]:
    """Each of other words."""
    chosen = random.Random(f"{kind} {seed}")
    return [
        StartAnswer(
            "s",
            f"{kind} {number}",
            AnswerSettings(model="m", max_tokens=tokens, **{"seed": number, **KINDS[kind]}),
            [ChatMessage("user", [TextPart(" ".join(chosen.choices(WORDS, k=12)))])],
        )
        for number in range(count)
    ]


def measure(drafted: Side, plain: Side, asked: list[StartAnswer], together: int) -> Json:
    """Both by turns, so many prompts at once."""
    pairs: list[tuple[Run, Run]] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        groups = [asked[i : i + together] for i in range(0, len(asked), together)]
        for number, group in enumerate(progress.track(groups)):
            if number % 2:
                one = drafted.ask(group)
                pairs.append((one, plain.ask(group)))
            else:
                two = plain.ask(group)
                pairs.append((drafted.ask(group), two))
    counts = sum((one.counts for one, _ in pairs), Counter[str]())
    plain_passes = sum(two.counts["decoder_passes"] for _, two in pairs)
    same = [a == b for one, two in pairs for a, b in zip(one.texts, two.texts, strict=True)]
    cpu = [two.cpu / one.cpu for one, two in pairs]
    wall = [two.wall / one.wall for one, two in pairs]
    return {
        "prompts": len(asked),
        "same_texts": sum(same),
        "passes": counts["decoder_passes"],
        "passes_without": plain_passes,
        "times_fewer_passes": round(plain_passes / counts["decoder_passes"], 3),
        "drafted_tokens": counts["drafted_tokens"],
        "accepted_tokens": counts["accepted_tokens"],
        "draft_passes": counts["draft_passes"],
        "times_faster_cpu": _spread(cpu),
        "times_faster": _spread(wall),
        "times_faster_cpu_in_all": round(
            sum(two.cpu for _, two in pairs) / sum(one.cpu for one, _ in pairs), 3
        ),
    }


def _spread(values: list[float]) -> Json:
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, 3) for name, value in found.items()}


def table(found: dict[str, Json]) -> Table:
    """A line for each kind."""
    shown = Table("kind", "same texts", "passes fewer", "accepted", "as fast (CPU)", "by prompts")
    for kind, result in found.items():
        spread = result["times_faster_cpu"]
        shown.add_row(
            kind,
            f"{result['same_texts']} of {result['prompts']}",
            f"{result['times_fewer_passes']} x",
            f"{result['accepted_tokens']} of {result['drafted_tokens']}",
            f"{result['times_faster_cpu_in_all']} x",
            f"{spread['median']} ({spread['min']} to {spread['max']})",
        )
    return shown


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 1 if a text differs."""
    parser = argparse.ArgumentParser(prog="benchmarks.in_process.drafts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="demo-qwen3-vl", help="one that chats, or random")
    parser.add_argument(
        "--draft",
        default="auto",
        help="as lookhear serve takes it, or right, wrong, head or wrong-head",
    )
    parser.add_argument("--dtype", default=EngineConfig().dtype)
    parser.add_argument("--prompts", type=int, default=500, help="of all kinds together")
    parser.add_argument("--tokens", type=int, default=96, help="of an answer, at most")
    parser.add_argument("--together", type=int, default=1, help="prompts asked at once")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0, help="of the words in the prompts")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.in_process.drafts", *argv])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = options.model
        draft = options.draft
        if model == "random":
            large = Path(folder, "large")
            theirs = build_random(large, silent={"right": 1, "head": 0}.get(draft))
            model, small = str(large), Path(folder, "small")
            if draft in ("right", "wrong"):
                draft = build_draft(small, large, is_right=draft == "right")
            elif draft in ("head", "wrong-head"):
                draft = build_head(small, large, theirs, is_right=draft == "head")
            del theirs
        rows = max(8, options.together)
        drafted = Side(model, draft, options.dtype, rows)
        plain = Side(model, "off", options.dtype, rows)
        found: dict[str, Json] = {}
        for kind in options.kinds:
            warm = prompts(kind, options.together, 16, -1)
            drafted.ask(warm), plain.ask(warm)
            count = options.prompts // len(options.kinds)
            asked = prompts(kind, count, options.tokens, options.seed)
            found[kind] = measure(drafted, plain, asked, options.together)
    result = {
        "scenario": "drafts",
        **about,
        **{name: getattr(options, name) for name in ("model", "draft", "dtype", "together")},
        "kinds": found,
    }
    path = write_result(options, "drafts", result)
    console = Console(highlight=False)
    console.print(table(found))
    console.print(f"written to {path}", style="dim")
    return int(any(one["same_texts"] < one["prompts"] for one in found.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
