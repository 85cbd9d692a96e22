"""Vectors and scores beside transformers: `python -m benchmarks.in_process.vectors`.

A Qwen3-Embedding and a Qwen3-Reranker of random weights, as wide as the 0.6B and a seventh as deep,
one thread, no gateway. Ours and transformers' take turns, in changing order, in one process:

- vectors: texts of 8 to 80 words, all in one request; theirs in batches of 16, sorted by length
  and padded, as sentence-transformers does it;
- again: the same texts once more, which ours finds in its cache up to their last block;
- ranking: one query and documents of 30 words; theirs in batches of 16 pairs.

Vectors and scores are compared; ratios are of processor time.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer

from benchmarks.in_process.drafts import WORDS
from lookhear.bench import machine
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    ChatMessage,
    CloseSession,
    Pooled,
    PoolingFailed,
    PoolingInput,
    PoolingSettings,
    StartPooling,
    TextPart,
)
from tools.random_checkpoints.pooling import build_embedder, build_reranker

Json = dict[str, Any]
Numbers = NDArray[np.float32]
WIDE: Json = {
    "vocab_size": 32_768,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 4096,
}
BATCH = 16
FRAME = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that answer"
    " the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>"
    "\n\n</think>\n\n"
)


def ours(folder: Path, dtype: str) -> EngineCore:
    """An engine of its own."""
    config = EngineConfig(model=str(folder), served_name="m", dtype=dtype, threads=1)
    return build_core(config, lambda stage, share: None).core


def read(core: EngineCore, kind: str, documents: list[str], queries: list[str]) -> Numbers:
    """[documents, width or 1]"""

    def given(texts: list[str]) -> list[PoolingInput]:
        return [PoolingInput([ChatMessage("user", [TextPart(text)])]) for text in texts]

    settings = PoolingSettings("m", kind=kind)
    core.submit(StartPooling("s", settings, given(documents), given(queries)))
    found: dict[int, Numbers] = {}
    while core.has_work:
        for event in core.step():
            if isinstance(event, PoolingFailed):
                raise RuntimeError(event.message)
            if isinstance(event, Pooled):
                found[event.index] = event.vectors[0]
    core.submit(CloseSession("s"))
    return np.stack([found[index] for index in range(len(documents))])


class Theirs:
    """transformers in batches, padded on the left."""

    def __init__(self, model: Any, folder: Path, dtype: torch.dtype) -> None:
        self._model = model.to(dtype)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self._tokenizer.pad_token = "<|endoftext|>"
        vocabulary = self._tokenizer.get_vocab()
        self._pair = [vocabulary.get(word, 0) for word in ("no", "yes")]

    @torch.inference_mode()
    def vectors(self, texts: list[str]) -> Numbers:
        """[texts, width], of length 1."""

        def made(batch: Any) -> torch.Tensor:
            hidden = self._model(**batch, use_cache=False).last_hidden_state[:, -1]
            return torch.nn.functional.normalize(hidden.float(), dim=-1)

        return self._batched(texts, made)

    @torch.inference_mode()
    def scores(self, query: str, documents: list[str]) -> Numbers:
        """[documents, 1]"""

        def made(batch: Any) -> torch.Tensor:
            logits = self._model(**batch, use_cache=False, logits_to_keep=1).logits[:, -1]
            return torch.softmax(logits[:, self._pair].float(), dim=-1)[:, 1:]

        texts = [FRAME.format(query=query, document=text) for text in documents]
        return self._batched(texts, made)

    def _batched(self, texts: list[str], made: Callable[[Any], torch.Tensor]) -> Numbers:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        rows: dict[int, Numbers] = {}
        for first in range(0, len(order), BATCH):
            some = order[first : first + BATCH]
            batch = self._tokenizer([texts[i] for i in some], padding=True, return_tensors="pt")
            for i, row in zip(some, made(batch), strict=True):
                rows[i] = row.numpy()
        return np.stack([rows[i] for i in range(len(texts))])


def timed(work: Callable[[], Numbers]) -> tuple[Numbers, float]:
    """What it gives, and the processor's seconds that it took."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def words(count: int, seed: str) -> str:
    """Others for each seed."""
    return " ".join(random.Random(seed).choices(WORDS, k=count))


def measure(options: argparse.Namespace) -> Json:
    """Ratios of all rounds: theirs by ours."""
    kinds: dict[str, list[float]] = {"vectors": [], "again": [], "ranking": []}
    gaps: dict[str, float] = dict.fromkeys(kinds, 0.0)
    dtype: torch.dtype = getattr(torch, options.theirs)
    with tempfile.TemporaryDirectory() as scratch:
        embedder, reranker = Path(scratch) / "embedder", Path(scratch) / "reranker"
        model = build_embedder(embedder, ending=False, **WIDE)
        judge = build_reranker(reranker, **WIDE)
        sides = ours(embedder, options.dtype), Theirs(model, embedder, dtype)
        judges = ours(reranker, options.dtype), Theirs(judge, reranker, dtype)
        for number in range(options.rounds + 1):
            lengths = random.Random(number).choices(range(8, 81), k=options.texts)
            texts = [words(n, f"{number} {i}") for i, n in enumerate(lengths)]
            documents = [words(30, f"{number} document {i}") for i in range(options.texts)]
            query = words(8, f"{number} query")
            mine: dict[str, Callable[[], Numbers]] = {
                "vectors": lambda t=texts: read(sides[0], "vector", t, []),  # type: ignore[misc]
                "again": lambda t=texts: read(sides[0], "vector", t, []),  # type: ignore[misc]
                "ranking": lambda d=documents, q=query: read(judges[0], "score", d, [q]),  # type: ignore[misc]
            }
            other: dict[str, Callable[[], Numbers]] = {
                "vectors": lambda t=texts: sides[1].vectors(t),  # type: ignore[misc]
                "again": lambda t=texts: sides[1].vectors(t),  # type: ignore[misc]
                "ranking": lambda d=documents, q=query: judges[1].scores(q, d),  # type: ignore[misc]
            }
            for kind in kinds:
                if number % 2:
                    (a, own), (b, their) = timed(mine[kind]), timed(other[kind])
                else:
                    (b, their), (a, own) = timed(other[kind]), timed(mine[kind])
                gaps[kind] = max(gaps[kind], float(np.abs(a - b).max()))
                if number:  # the first round is nobody's
                    kinds[kind].append(their / own)
                print(f"{number} {kind}: {their:.2f} s, ours {own:.2f} s", file=sys.stderr)
    return {
        kind: {
            "times_faster_cpu": {
                "median": round(statistics.median(ratios), 3),
                "least": round(min(ratios), 3),
                "most": round(max(ratios), 3),
            },
            "most_apart": gaps[kind],
        }
        for kind, ratios in kinds.items()
    }


def main(argv: list[str]) -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(prog="benchmarks.in_process.vectors", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="auto", help="ours (default: %(default)s)")
    parser.add_argument("--theirs", default="float32", help="float32 or bfloat16")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.in_process.vectors", *argv])
    torch.set_num_threads(1)
    found = measure(options)
    print(json.dumps(found, indent=2))
    named = {name: getattr(options, name) for name in ("dtype", "theirs", "texts", "rounds")}
    result = {"scenario": "vectors", **about, **named, "kinds": found}
    path = write_result(options, "vectors", result)
    print(f"written to {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
