"""Train demo-qwen3-vl from scratch on CPU: `python -m tools.recipes.qwen3_vl.train --minutes 87`.

As for the speech models: two processes of one thread share the batch and average gradients, and the
schedule runs on the clock. Pictures are drawn as they are needed. What a small model is slow to
find out is told it: two heads of a decoder layer, where the thing is that a word of the question
names; two of the next, what the answer is about; the encoder, what is under every token and patch.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_vl.batches import Batch, collate
from tools.recipes.qwen3_vl.examples import STILL_TASKS, ConversationMaker, Mix
from tools.recipes.qwen3_vl.export import write_folder
from tools.recipes.qwen3_vl.network import Network, Size
from tools.recipes.qwen3_vl.sizes import clip_grid, image_grid, live_grid
from tools.recipes.qwen3_vl.tokenizer import write_tokenizer
from tools.recipes.scenes import labels as under
from tools.recipes.scenes.scenes import MOST_SHAPES
from tools.recipes.whisper.examples import IGNORE
from tools.recipes.whisper.ranks import (
    average_gradients,
    launch,
    learning_rate,
    load_state,
    save_state,
)

ASKED_LAYER, ANSWERED_LAYER = 1, 2
PATCH_LABEL_LAYER = 3
LOSSES = ("token", "under token", "under patch", "asked", "answered")
EVALUATION_SEED = 990_000
COUNTING_FROM = 0.82  # of the time: counting is learnt last
READING_UNTIL, VIDEO_FROM, PICTURES_UNTIL = 0.3, 0.4, 0.75  # of the time


@dataclass(frozen=True)
class Plan:
    """What a run needs to be repeated. images, videos: about so many per rank and step;
    pictures: while the encoder learns alone, for the part `alone` of the time."""

    out: str
    minutes: float = 87.0
    seed: int = 0
    ranks: int = 2
    images: int = 10
    videos: int = 4
    turns: int = 6
    rate: float = 1.5e-3
    warmup: int = 100
    smoothing: float = 0.02
    under_token: float = 0.06
    under_patch: float = 0.2
    asked: float = 0.15
    answered: float = 0.25
    max_steps: int = 0
    pictures: int = 28
    alone: float = 0.3


def losses(net: Network, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """`[5]`, as LOSSES names them, the targets' cross-entropy first; then which targets the network
    would have said itself `[batch, n]`, and which are targets at all."""
    with torch.autocast("cpu", torch.bfloat16):
        seen = net(batch.patches, batch.grid, batch.tokens, batch.positions, batch.place)
        keep = batch.targets != IGNORE
        logits = net.logits(seen.hidden[keep])
        tokens = net.token_labels(seen.tokens)
        patches = net.patch_labels(seen.patches[PATCH_LABEL_LAYER])
    logits = logits.float()
    token = F.cross_entropy(logits, batch.targets[keep], label_smoothing=smoothing)
    parts = [token, _labelled(tokens, batch.token_labels), _labelled(patches, batch.patch_labels)]
    for layer, (where, mask) in zip((ASKED_LAYER, ANSWERED_LAYER), batch.guided, strict=True):
        weights = seen.attended[layer]
        if len(where) == 0:
            parts.append(weights.sum() * 0)
            continue
        rows = weights[where[:, 0], where[:, 1], where[:, 2]].float()
        together = -((rows * mask).sum(-1) + 1e-3).log()
        targets = mask.sum(-1)
        each = -((rows + 1e-4).log() * mask).sum(-1) / targets - targets.log()
        parts.append(torch.where(where[:, 3] == 1, each, together).mean())
    right = torch.zeros_like(keep)
    right[keep] = logits.argmax(-1) == batch.targets[keep]
    return torch.stack(parts), right, keep


def label_losses(net: Network, batch: Batch) -> Tensor:
    """`[5]` as `losses` has them, of the encoder alone: only what is under tokens and patches."""
    with torch.autocast("cpu", torch.bfloat16):
        seen, inside = net.model.visual(batch.patches, *batch.grid)
        tokens = net.token_labels(seen[0])
        patches = net.patch_labels(inside[PATCH_LABEL_LAYER])
    nothing = torch.zeros(())
    parts = [_labelled(tokens, batch.token_labels), _labelled(patches, batch.patch_labels)]
    return torch.stack([nothing, *parts, nothing, nothing])


def _labelled(guesses: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy, summed over the labels of a place."""
    if len(labels) == 0:
        return guesses.sum() * 0
    loss = F.binary_cross_entropy_with_logits(guesses.float(), labels, reduction="none")
    return loss.sum(-1).mean()


def mix_at(progress: float) -> Mix:
    """Easy first: few shapes; reading, which takes longest; then all as it is asked about."""
    if progress < 0.015:
        return Mix(most_shapes=3, writing=0.3)
    if progress < READING_UNTIL:
        return Mix(most_shapes=3, writing=0.9)
    if progress > COUNTING_FROM:
        tasks = {**STILL_TASKS, "count": 6.0, "number": 2.0, "presence": 0.5, "position": 0.7}
        return Mix(most_shapes=MOST_SHAPES, writing=0.6, tasks=tasks)
    return Mix(most_shapes=MOST_SHAPES, writing=0.65)


class Run:
    """One rank: its part of the data, the network, and what is saved of both."""

    def __init__(self, rank: int, plan: Plan) -> None:
        self.rank, self.plan, self.out = rank, plan, Path(plan.out)
        self.tokenizer = QwenTokenizer.from_folder(self.out / "tokenizer")
        vocabulary = max(self.tokenizer.added.values()) + 1
        self.net = Network(Size(), vocabulary, under.TOKEN_LABELS, under.PATCH_LABELS)
        # Its 1,536 inputs are much alike: their steps add up.
        patches = list(self.net.model.visual.patch_embed.parameters())
        others = [p for p in self.net.parameters() if all(p is not q for q in patches)]
        groups = [{"params": others, "scale": 1.0}, {"params": patches, "scale": 0.3}]
        self.optimizer = torch.optim.AdamW(groups, lr=plan.rate, betas=(0.9, 0.98), fused=True)
        state = load_state(self.out, self.net, self.optimizer)
        self.step: int = state["step"]
        self.spent: float = state["spent"]
        self.rng = random.Random(f"{plan.seed} {rank} {self.step}")
        self.shared = random.Random(f"{plan.seed} shared {self.step}")
        self.maker = ConversationMaker(self.tokenizer, self.rng, mix_at(0))

    def batches(self, progress: float) -> list[tuple[float, Batch]]:
        """Pictures without words at first; then images, and from some time on clips or frames of
        a camera too, of one size each. Each with its weight."""
        self.maker.mix = mix_at(progress)
        if progress < self.plan.alone:
            return [(5.0, self._pictures(self.plan.pictures))]
        made = [(0.65, self._images())]
        if progress > VIDEO_FROM:
            batch = self._clips() if self.shared.random() < 0.55 else self._frames()
            made.append((0.35, batch))
        if progress < PICTURES_UNTIL:
            self.maker.mix = Mix(writing=1.0, clips=0.5)
            made.append((1.0, self._pictures(self.plan.pictures / 2)))
        return made

    def _pictures(self, about: float) -> Batch:
        height, width = image_grid(self.shared)
        count = max(4, round(about * 25 / (height * width)))
        drawn = [self.maker.pictures(height, width) for _ in range(count)]
        return collate(drawn, height, width, self.tokenizer)

    def _images(self) -> Batch:
        height, width = image_grid(self.shared)
        # So many that a large picture costs no more than a small one.
        count = max(2, round(self.plan.images * 32 / (height * width + 4 * self.plan.turns / 2)))
        drawn = [self.maker.images(height, width, self.plan.turns) for _ in range(count)]
        return collate(drawn, height, width, self.tokenizer)

    def _clips(self) -> Batch:
        height, width, frames = clip_grid(self.shared)
        count = round(2.75 * self.plan.videos)
        drawn = [self.maker.clip(height, width, frames, 2) for _ in range(count)]
        return collate(drawn, height, width, self.tokenizer)

    def _frames(self) -> Batch:
        height, width = live_grid(self.shared)
        most = self.shared.randint(2, 8)
        count = max(2, round(self.plan.videos * 5.5 / most))
        drawn = [self.maker.live(height, width, most, 5) for _ in range(count)]
        return collate(drawn, height, width, self.tokenizer)

    def save(self, spent: float) -> None:
        """Writes what a later run goes on from."""
        save_state(self.out, self.net, self.optimizer, self.step, spent)

    def report(self, loss: float, each: int = 30) -> None:
        """Writes a loadable folder `current`, and a line of STATUS.txt about it."""
        write_folder(self.net, self.out / "tokenizer", self.out / "current")
        rates = exact_answers(self.net, self.tokenizer, each)
        line = f"{time.strftime('%H:%M:%S')} step {self.step} loss {loss:.3f} {rates}"
        print(line, flush=True)
        with (self.out / "STATUS.txt").open("a") as file:
            file.write(line + "\n")


@torch.no_grad()
def exact_answers(net: Network, tokenizer: QwenTokenizer, each: int) -> dict[str, float]:
    """Share of answers that greedy decoding gives exactly, by task, on scenes of a seed of their
    own; questions before are answered rightly in the prompt. In the precision of training."""
    right: dict[str, list[bool]] = {}
    shapes = random.Random(EVALUATION_SEED)
    for kind in ("image", "clip", "live"):
        for index in range(each):
            maker = ConversationMaker(tokenizer, random.Random(EVALUATION_SEED + index), Mix())
            if kind == "image":
                height, width = image_grid(shapes)
                example = maker.images(height, width, 6)
            elif kind == "clip":
                height, width, frames = clip_grid(shapes)
                example = maker.clip(height, width, frames, 3)
            else:
                height, width = live_grid(shapes)
                example = maker.live(height, width, 5, 4)
            _, hits, keep = losses(net, collate([example], height, width, tokenizer), 0.0)
            for task, row, _ in example.tasks:
                end = row
                while end < keep.shape[1] and keep[0, end]:
                    end += 1
                name = task if kind == "image" or task in ("direction", "blinks", "jumps") else kind
                name = f"live {task}" if kind == "live" and name != kind else name
                right.setdefault(name, []).append(bool(hits[0, row:end].all()))
    return {name: round(sum(r) / len(r), 3) for name, r in sorted(right.items())}


def worker(rank: int, plan: Plan) -> None:
    """One rank of the training run; rank 0 logs, reports and saves."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    run = Run(rank, plan)
    if rank == 0:
        write_folder(run.net, run.out / "tokenizer", run.out / "current")
    started = time.monotonic() - run.spent
    saved = logged = reported = time.monotonic()
    progress = run.spent / (plan.minutes * 60)
    weights = torch.tensor([1.0, plan.under_token, plan.under_patch, plan.asked, plan.answered])
    sums, count, drawing, latest = torch.zeros(3, len(LOSSES)), 0, 0.0, 0.0
    while progress < 1 and (not plan.max_steps or run.step < plan.max_steps):
        now = time.monotonic()
        batches = run.batches(progress)
        drawing += time.monotonic() - now
        run.optimizer.zero_grad()
        for weight, batch in batches:
            worded = bool(batch.tokens.shape[1])
            parts = (
                losses(run.net, batch, plan.smoothing)[0]
                if worded
                else label_losses(run.net, batch)
            )
            (weight * parts @ weights).backward()  # type: ignore[no-untyped-call]
            sums[2 if not worded else 0 if weight > 0.5 else 1] += parts.detach()
        elapsed = (time.monotonic() - started) / (plan.minutes * 60)
        progress = average_gradients(run.net, plan.ranks, elapsed)
        torch.nn.utils.clip_grad_norm_(run.net.parameters(), 1.0)
        for group in run.optimizer.param_groups:
            group["lr"] = group["scale"] * learning_rate(plan, run.step, progress)
        run.optimizer.step()
        run.step += 1
        count += 1
        if rank != 0:
            continue
        now = time.monotonic()
        if run.step % 100 == 0:
            latest = float(sums[0, 0] / count)
            print(
                f"{time.strftime('%H:%M:%S')} step {run.step} {100 * progress:.1f}% {LOSSES}: "
                f"images {_rounded(sums[0] / count)} videos {_rounded(sums[1] / count)} "
                f"pictures alone {_rounded(sums[2] / count)} "
                f"{(now - logged) / count:.3f} s/step, drawing {drawing / count:.3f}",
                flush=True,
            )
            sums, count, drawing, logged = torch.zeros(3, len(LOSSES)), 0, 0.0, now
        if now - saved > 240:
            run.save(now - started)
            saved = time.monotonic()
        if now - reported > 480:
            run.report(latest)
            reported = time.monotonic()
    if rank == 0:
        run.save(time.monotonic() - started)
        run.report(latest, 100)


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 3) for value in values.tolist()]


def prepare(plan: Plan) -> None:
    """Learn the tokenizer, once for a folder."""
    out = Path(plan.out)
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "tokenizer").exists():
        write_tokenizer(out / "tokenizer", plan.seed)


def main() -> None:
    """Trains, or goes on with what is in the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder for state and log")
    parser.add_argument("--minutes", type=float, default=Plan.minutes)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--rate", type=float, default=Plan.rate)
    parser.add_argument("--images", type=int, default=Plan.images, help="per rank and step")
    parser.add_argument("--videos", type=int, default=Plan.videos, help="per rank and step")
    parser.add_argument("--ranks", type=int, default=Plan.ranks)
    parser.add_argument("--max-steps", type=int, default=0, help="0: until the time is over")
    plan = Plan(**vars(parser.parse_args()))
    prepare(plan)
    launch(worker, plan)


if __name__ == "__main__":
    main()
