"""Train demo-whisper from scratch on CPU: `python -m tools.recipes.whisper.train --minutes 80`.

Two processes of one thread each share the batch and average gradients (gloo): small matrices
scale better so than with two threads an operation. The schedule runs on the clock: the learning
rate reaches its end at the planned minute, however busy the machine is.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tools.recipes.speech import augment
from tools.recipes.speech import corpus as spoken
from tools.recipes.whisper import tokenizer as tk
from tools.recipes.whisper.examples import FRAME_RATE, IGNORE, Example, ExampleMaker, Mix
from tools.recipes.whisper.greedy import word_errors
from tools.recipes.whisper.log_mel import LogMel
from tools.recipes.whisper.network import CompactIds, Network, Size
from tools.recipes.whisper.ranks import (
    average_gradients,
    launch,
    learning_rate,
    load_state,
    save_state,
)

GUIDED_HEADS = 2
SHORT = {1: 0.02, 2: 0.11, 3: 0.24, 4: 0.29, 5: 0.12, 6: 0.09, 8: 0.06, 10: 0.04, 12: 0.03}
LONG = {2: 0.08, 3: 0.1, 4: 0.16, 6: 0.14, 8: 0.12, 12: 0.1, 20: 0.1, 30: 0.2}
SECOND = {2: 0.04, 3: 0.06, 4: 0.14, 6: 0.1, 8: 0.1, 12: 0.16, 20: 0.2, 30: 0.2}
"""Steps by window length (seconds): most of the first stage, its end, and the second stage."""


@dataclass(frozen=True)
class Plan:
    """What a run needs to be repeated."""

    out: str
    minutes: float = 80.0
    seed: int = 0
    sentences: int = 11_000
    ranks: int = 2
    seconds_per_rank: int = 64
    rate: float = 1.5e-3
    warmup: int = 200
    layers: int = 4
    smoothing: float = 0.05
    phoneme_weight: float = 0.3
    alignment_weight: float = 0.15
    max_steps: int = 0
    compiled: bool = False
    second_stage: bool = False
    """Go on from a finished run with mostly long windows, on a new clock."""


@dataclass
class Batch:
    """Examples of one step, padded to the longest."""

    mel: Tensor
    tokens: Tensor
    targets: Tensor
    phonemes: Tensor
    guided: Tensor
    """`[n, 4]`: example, row, first frame, one past the last frame."""


def collate(
    examples: list[Example], ids: CompactIds, logmel: LogMel, rng: np.random.Generator
) -> Batch:
    """Pad tokens, compute features with random filters and light SpecAugment."""
    wave = torch.from_numpy(np.stack([e.wave for e in examples]))
    mel = logmel(wave, augment.random_filters(rng, len(examples)))
    width = max(len(e.tokens) for e in examples)
    tokens = torch.full((len(examples), width), ids.compact[tk.EOT])
    targets = torch.full((len(examples), width), IGNORE)
    for i, e in enumerate(examples):
        tokens[i, : len(e.tokens)] = torch.tensor(ids.to_compact(e.tokens))
        targets[i, : len(e.targets)] = torch.tensor(ids.to_compact(e.targets))
    frames = torch.from_numpy(np.stack([e.phonemes for e in examples]))
    guided = torch.tensor(
        [
            (i, row, max(0, int(b * FRAME_RATE - 1.5)), math.ceil(e * FRAME_RATE + 1.5))
            for i, example in enumerate(examples)
            for row, b, e in example.guides
        ]
    ).reshape(-1, 4)
    return Batch(augment.mask_bands(rng, mel), tokens, targets, frames, guided)


def alignment_loss(weights: Tensor, guided: Tensor) -> Tensor:
    """Negative log of the cross-attention of the guided heads that falls on the spoken word.

    The synthesiser knows when each word is spoken. Telling two heads so makes attention align
    within minutes instead of half an hour, and gives word times from those heads afterwards.
    """
    if len(guided) == 0:
        return weights.sum() * 0
    rows = weights[guided[:, 0], :GUIDED_HEADS, guided[:, 1]].float()
    frame = torch.arange(rows.shape[-1])[None]
    inside = (frame >= guided[:, 2:3]) & (frame < guided[:, 3:4])
    mass = (rows * inside[:, None]).sum(-1)
    return -(mass + 1e-3).log().mean()


def losses(
    net: Network, ids: CompactIds, batch: Batch, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Token cross-entropy, auxiliary phoneme cross-entropy, and the alignment loss."""
    table = net.embeddings()
    with torch.autocast("cpu", torch.bfloat16):
        source = net.encoder(batch.mel)
        hidden, weights = net.decode(batch.tokens, source, table)
        keep = batch.targets != IGNORE
        logits = net.logits(hidden[keep], table, ids.unused)
        guess = net.phonemes(source)
    token = F.cross_entropy(logits.float(), batch.targets[keep], label_smoothing=smoothing)
    frame = F.cross_entropy(guess.float().flatten(0, 1), batch.phonemes.flatten())
    return token, frame, alignment_loss(weights, batch.guided)


def phoneme_classes(corpus: spoken.Corpus) -> dict[str, int]:
    """Class of every phoneme label in the corpus; 0 is silence."""
    from tools.recipes.speech.synthesis import PAUSES

    labels = {label for clip in corpus.clips for label, _ in clip.phonemes} - set(PAUSES)
    classes = {label: i + 1 for i, label in enumerate(sorted(labels))}
    return {**dict.fromkeys(PAUSES, 0), **classes}


def _window(rng: np.random.Generator, progress: float, second_stage: bool) -> int:
    chance = 0.03 if progress < 0.5 else 0.10 if progress < 0.85 else 0.75
    table = SECOND if second_stage else LONG if rng.random() < chance else SHORT
    weights = np.array(list(table.values()))
    return int(rng.choice(list(table), p=weights / weights.sum()))


def worker(rank: int, plan: Plan) -> None:
    """One rank of the training run; rank 0 logs, evaluates and saves."""
    out = Path(plan.out)
    corpus = spoken.load(out / "data", "train")
    merges = json.loads((out / "merges.json").read_text())
    coder = tk.TextCoder(merges["vocab"], [(a, b) for a, b in merges["merges"]])
    ids = CompactIds(len(coder.vocabulary))
    classes = phoneme_classes(corpus)
    net = Network(Size(encoder_layers=plan.layers), ids.rows, max(classes.values()) + 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=plan.rate, betas=(0.9, 0.98), fused=True)
    state = load_state(out, net, optimizer)
    step, spent = state["step"], state["spent"]
    if state.get("second_stage", False) != plan.second_stage:
        step, spent = 0, 0.0
    logmel = LogMel()
    rng = np.random.default_rng([plan.seed, rank, step, plan.second_stage])
    shared = np.random.default_rng([plan.seed, 777, step, plan.second_stage])
    maker = ExampleMaker(corpus, coder, classes, rng, Mix())
    run = torch.compile(losses) if plan.compiled else losses
    started = time.monotonic() - spent
    saved = logged = evaluated = time.monotonic()
    progress = spent / (plan.minutes * 60)
    sums = torch.zeros(3)
    count = 0
    while progress < 1 and (not plan.max_steps or step < plan.max_steps):
        maker.mix.cut = 0.2 if progress < 0.04 and not plan.second_stage else 0.4
        # One long prompt pads the whole batch: leave them to the last phase.
        maker.mix.long_prompt = 0.0 if progress < 0.85 else 0.02
        seconds = _window(shared, progress, plan.second_stage)
        size = max(1, plan.seconds_per_rank // seconds)
        batch = collate([maker.draw(seconds) for _ in range(size)], ids, logmel, rng)
        token, frame, aligned = run(net, ids, batch, plan.smoothing)
        loss = token + plan.phoneme_weight * frame + plan.alignment_weight * aligned
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        elapsed = (time.monotonic() - started) / (plan.minutes * 60)
        progress = average_gradients(net, plan.ranks, elapsed)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(plan, step, progress)
        optimizer.step()
        step += 1
        count += 1
        sums += torch.stack([token.detach(), frame.detach(), aligned.detach()])
        if rank != 0:
            continue
        now = time.monotonic()
        if step % 100 == 0:
            pace = (now - logged) / count
            print(
                f"{time.strftime('%H:%M:%S')} step {step} {100 * progress:.1f}% "
                f"token, phoneme, alignment {[round(x, 3) for x in (sums / count).tolist()]} "
                f"{pace:.3f} s/step",
                flush=True,
            )
            sums = torch.zeros(3)
            count, logged = 0, now
        if now - saved > 240:
            save_state(out, net, optimizer, step, now - started, second_stage=plan.second_stage)
            saved = time.monotonic()
        if now - evaluated > 600:
            print(json.dumps(_evaluate(net, ids, coder, out, logmel)), flush=True)
            evaluated = time.monotonic()
    if rank == 0:
        spent = time.monotonic() - started
        save_state(out, net, optimizer, step, spent, second_stage=plan.second_stage)
        print("final", json.dumps(_evaluate(net, ids, coder, out, logmel, 120)), flush=True)


def _evaluate(
    net: Network, ids: CompactIds, coder: tk.TextCoder, out: Path, logmel: LogMel, each: int = 24
) -> dict[str, float]:
    """Word error rate by language and split on clean held-out clips in 6 s windows."""
    report: dict[str, float] = {}
    for split in ("seen", "unseen"):
        corpus = spoken.load(out / "data", split)
        for language in tk.LANGUAGE_IDS:
            clips = [c for c in corpus.clips if c.language == language and c.seconds < 6][:each]
            report[f"{split}_{language}"] = word_errors(net, ids, coder, corpus, clips, logmel)
    return report


def prepare(plan: Plan) -> None:
    """Render the corpus and learn the tokenizer, once for a folder."""
    out = Path(plan.out)
    out.mkdir(parents=True, exist_ok=True)
    spoken.build(out / "data", plan.seed, plan.sentences, plan.ranks)
    if not (out / "merges.json").exists():
        vocab, merges = tk.train_merges(plan.seed)
        (out / "merges.json").write_text(json.dumps({"vocab": vocab, "merges": merges}))


def main() -> None:
    """Trains, or goes on with what is in the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder for data, state and log")
    parser.add_argument("--minutes", type=float, default=Plan.minutes)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--sentences", type=int, default=Plan.sentences, help="per language")
    parser.add_argument("--layers", type=int, default=Plan.layers, help="encoder layers")
    parser.add_argument("--rate", type=float, default=Plan.rate)
    parser.add_argument("--ranks", type=int, default=Plan.ranks)
    parser.add_argument("--max-steps", type=int, default=0, help="0: until the time is over")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--second-stage", action="store_true", help="go on with long windows")
    plan = Plan(**vars(parser.parse_args()))
    prepare(plan)
    launch(worker, plan)


if __name__ == "__main__":
    main()
