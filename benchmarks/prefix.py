"""Fifty requests with a prefix in common: `python -m benchmarks.prefix`.

Each asks about a clip of its own, behind the same 1,000 tokens of context (names and words to
expect). Once the prefix cache may share, once every request has a salt of its own, in alternating
rounds. Counters tell what was read. Then two clips of the same length behind the same tokens: what
the second finds must end before the audio begins, and its text must be the one it has alone.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.in_process.direct import Direct
from benchmarks.in_process.sessions import Meter, Samples
from lookhear.bench import machine
from lookhear.bench.measures.trace import RATE
from lookhear.bench.recordings.dataset import Audio, Utterance, held_out, long_recordings
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.request import Result
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.qwen3_asr.prompt import MAX_CONTEXT_TOKENS, build_prompt
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.media.audio.resample import resample

Json = dict[str, Any]


def long_context(tokenizer: QwenTokenizer, num_tokens: int) -> str:
    """Words of the held-out texts, again and again, for at least so many tokens."""
    assert num_tokens <= MAX_CONTEXT_TOKENS
    words = [word for recording in long_recordings() for word in recording.text.split()]
    context: list[str] = []
    while len(tokenizer.encode(" ".join(context))) < num_tokens:
        context += words[len(context) % len(words) :][:10]
    return " ".join(context)


def clip(audio: Audio, utterance: Utterance, seconds: float) -> Samples:
    """Its first seconds, filled up with silence."""
    samples = audio.of(utterance).astype(np.float32) / 32768.0
    samples = resample(samples, RATE, SAMPLE_RATE)[: int(seconds * SAMPLE_RATE)]
    return np.pad(samples, (0, int(seconds * SAMPLE_RATE) - len(samples)))


@dataclass(frozen=True, slots=True)
class Round:
    """Fifty requests together. read, found: prompt tokens computed, or found in the cache."""

    meter: Meter
    results: list[Result]
    read: int
    found: int


class Bench:
    """The requests, run together and apart."""

    def __init__(self, direct: Direct, context: str, clips: list[Samples]) -> None:
        self._direct = direct
        self._context = context
        self._clips = clips

    @property
    def prefix_tokens(self) -> int:
        """Tokens of a prompt before its audio."""
        return build_prompt(self._direct.tokenizer, 1, context=self._context).audio_start

    def ask(self, salts: list[bytes], clips: list[Samples] | None = None) -> Round:
        """All clips at once, one request each, with a salt each."""
        requests = [
            self._direct.request(f"clip {n}", samples, context=self._context, salt=salt)
            for n, (samples, salt) in enumerate(zip(clips or self._clips, salts, strict=True))
        ]
        before = self._direct.runner.stats()
        meter = Meter()
        with meter.running():
            results = self._direct.run(requests)
        after = self._direct.runner.stats()
        read, found = (
            after[name] - before[name] for name in ("prompt_tokens_read", "prompt_tokens_found")
        )
        return Round(meter, results, read, found)


def sharing(bench: Bench, num_requests: int, rounds: int) -> Json:
    """Alternating rounds; salts are fresh in each, so that no round finds an earlier one's."""
    shared, apart = [], []
    for n in range(rounds):
        shared.append(bench.ask([f"shared {n}".encode()] * num_requests))
        apart.append(bench.ask([f"apart {n} {i}".encode() for i in range(num_requests)]))
    full = bench.prefix_tokens // BLOCK_TOKENS * BLOCK_TOKENS
    ratios = [a.meter.cpu / s.meter.cpu for s, a in zip(shared, apart, strict=True)]
    tokens = [[r.tokens for r in one.results] for one in (*shared, *apart)]
    return {
        "requests": num_requests,
        "prefix_tokens": bench.prefix_tokens,
        "prefix_tokens_in_full_blocks": full,
        "prompt_tokens": apart[0].read,
        "shared": _counts(shared),
        "apart": _counts(apart),
        # All but one request found all of it, so it was read by one.
        "prefix_read_times": [num_requests - one.found / full if full else None for one in shared],
        "times_shared_cpu": round(statistics.median(ratios), 3),
        "times_shared_cpu_by_round": [round(ratio, 3) for ratio in ratios],
        "same_answers": all(answers == tokens[0] for answers in tokens),
    }


def _counts(rounds: list[Round]) -> Json:
    return {
        "prompt_tokens_read": [one.read for one in rounds],
        "prompt_tokens_found": [one.found for one in rounds],
        "cpu_seconds": [round(one.meter.cpu, 4) for one in rounds],
        "wall_seconds": [round(one.meter.wall, 4) for one in rounds],
    }


def other_audio(bench: Bench, one: Samples, two: Samples) -> Json:
    """Equal tokens, different audio, one after the other, in one tenant's cache."""
    before_audio = bench.prefix_tokens // BLOCK_TOKENS * BLOCK_TOKENS
    first = bench.ask([b"pair"], [one])
    second = bench.ask([b"pair"], [two])
    again = bench.ask([b"pair"], [two])
    alone = bench.ask([b"alone"], [two])
    return {
        "prompt_tokens": first.read,
        "tokens_before_the_audio_in_full_blocks": before_audio,
        "found_by_the_first": first.found,
        "found_by_the_other": second.found,
        "found_by_the_same_again": again.found,
        "other_never_shares_audio": second.found <= before_audio < again.found,
        "same_answer_as_alone": second.results[0].tokens
        == again.results[0].tokens
        == alone.results[0].tokens,
    }


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.prefix", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="demo-qwen3-asr")
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=1000, help="of context, at least")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each clip")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", default=EngineConfig().dtype, help="of the weights")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    console = Console(highlight=False)
    about = machine.describe(["benchmarks.prefix", *argv])
    torch.set_num_threads(1)
    direct = Direct(options.model, dtype=options.dtype, max_context=2048, rows=16)
    audio, utterances = Audio(), held_out()
    if not 2 <= options.requests <= len(utterances):
        parser.error(f"--requests: expected 2 to {len(utterances)}, got {options.requests}")
    clips = [clip(audio, u, options.seconds) for u in utterances[: options.requests]]
    bench = Bench(direct, long_context(direct.tokenizer, options.tokens), clips)
    bench.ask([b"warm-up"] * 2, clips[:2])
    result: Json = {
        "scenario": "prefix",
        **about,
        "model": options.model,
        "dtype": options.dtype,
        "sharing": sharing(bench, options.requests, options.rounds),
        "other_audio": other_audio(bench, clips[0], clips[1]),
    }
    direct.runner.check(0)
    path = write_result(options, "prefix", result)
    found, pair = result["sharing"], result["other_audio"]
    console.print(
        f"{found['requests']} requests, {found['prefix_tokens']} tokens in common: read "
        f"{found['prefix_read_times']} times; tokens read {found['shared']['prompt_tokens_read']} "
        f"shared, {found['apart']['prompt_tokens_read']} apart; apart takes "
        f"{found['times_shared_cpu']} times as long; same answers: {found['same_answers']}"
    )
    console.print(
        f"another clip behind the same tokens found {pair['found_by_the_other']} of "
        f"{pair['tokens_before_the_audio_in_full_blocks']} tokens before the audio, the same clip "
        f"{pair['found_by_the_same_again']}; same answer as alone: {pair['same_answer_as_alone']}"
    )
    console.print(f"written to {path}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
