"""Train demo-qwen3-asr from scratch on CPU: `python -m tools.recipes.qwen3_asr.train --minutes 85`.

As for demo-whisper: two processes of one thread share the batch and average gradients, and the
schedule runs on the clock. A decoder without cross-attention is slow to find out where in its own
prompt the audio of a word is, so two heads are told where the word is whose token they read (one
layer early), and two where the word is that comes next.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.checkpoints.qwen_vocabulary import END_OF_TEXT
from tools.recipes.qwen3_asr.examples import (
    AsrExampleMaker,
    Batch,
    Listening,
    LogMel,
    collate,
)
from tools.recipes.qwen3_asr.export import write_folder
from tools.recipes.qwen3_asr.greedy import word_errors
from tools.recipes.qwen3_asr.network import Network, Size
from tools.recipes.qwen3_asr.tokenizer import write_tokenizer
from tools.recipes.speech import corpus as spoken
from tools.recipes.speech.grammar import LANGUAGES
from tools.recipes.whisper.examples import IGNORE, Mix
from tools.recipes.whisper.ranks import (
    average_gradients,
    launch,
    learning_rate,
    load_state,
    save_state,
)
from tools.recipes.whisper.train import alignment_loss, phoneme_classes

RECALL_LAYER, GUIDE_LAYER = 1, 2
SHORT = {1: 0.02, 2: 0.14, 3: 0.3, 4: 0.26, 5: 0.1, 6: 0.08, 8: 0.1}
LONG = {8: 0.2, 12: 0.25, 16: 0.25, 20: 0.1, 24: 0.2}
LAST = {8: 0.1, 12: 0.15, 16: 0.2, 20: 0.25, 24: 0.3}
"""Steps by window length (seconds): one sentence, several, and several towards the end."""


@dataclass(frozen=True)
class Plan:
    """What a run needs to be repeated."""

    out: str
    minutes: float = 85.0
    seed: int = 0
    sentences: int = 11_000
    ranks: int = 2
    seconds_per_rank: int = 64
    rate: float = 1.5e-3
    warmup: int = 200
    smoothing: float = 0.05
    phoneme_weight: float = 0.3
    recall_weight: float = 0.1
    alignment_weight: float = 0.15
    max_steps: int = 0


def losses(net: Network, batch: Batch, smoothing: float) -> Tensor:
    """`[4]`: token and phoneme cross-entropy, alignment losses of recalled and of coming words."""
    with torch.autocast("cpu", torch.bfloat16):
        hidden, attended, source = net(batch.mel, batch.counts, batch.tokens, batch.starts)
        keep = batch.targets != IGNORE
        logits = net.logits(hidden[keep])
        guesses = net.phoneme_guesses(source)
    token = F.cross_entropy(logits.float(), batch.targets[keep], label_smoothing=smoothing)
    known = batch.phonemes != IGNORE
    phoneme = F.cross_entropy(guesses[known].float(), batch.phonemes[known])
    recall = alignment_loss(attended[RECALL_LAYER], batch.recalled)
    aligned = alignment_loss(attended[GUIDE_LAYER], batch.guided)
    return torch.stack([token, phoneme, recall, aligned])


def window(rng: np.random.Generator, progress: float) -> int:
    """Seconds of the next batch: one sentence at first, then more and more several of them."""
    chance = 0.04 if progress < 0.25 else min(0.7, 0.04 + 2.2 * (progress - 0.25))
    table = SHORT
    if rng.random() < chance:
        table = LONG if progress < 0.6 else LAST
    return int(rng.choice(list(table), p=np.array(list(table.values())) / sum(table.values())))


class Run:
    """One rank: its part of the data, the network, and what is saved of both."""

    parts = ("token", "phoneme", "recall", "alignment")
    """What its losses are of."""

    def __init__(self, rank: int, plan: Plan) -> None:
        self.rank, self.plan, self.out = rank, plan, Path(plan.out)
        corpus = spoken.load(self.out / "data", "train")
        classes = phoneme_classes(corpus)
        self.tokenizer = QwenTokenizer.from_folder(self.out / "tokenizer")
        vocabulary = max(self.tokenizer.added.values()) + 1
        self.net = self.network(vocabulary, max(classes.values()) + 1)
        self.optimizer = torch.optim.AdamW(
            self.net.parameters(), lr=plan.rate, betas=(0.9, 0.98), fused=True
        )
        state = load_state(self.out, self.net, self.optimizer)
        self.step: int = state["step"]
        self.spent: float = state["spent"]
        self.logmel = LogMel()
        self.rng = np.random.default_rng([plan.seed, rank, self.step])
        self.shared = np.random.default_rng([plan.seed, 777, self.step])
        self.maker = self.examples(corpus, classes)

    def network(self, vocabulary: int, phonemes: int) -> Network:
        """As it is at step 0."""
        return Network(Size(), vocabulary, phonemes)

    def examples(self, corpus: spoken.Corpus, classes: dict[str, int]) -> AsrExampleMaker:
        """Who draws them from a corpus. classes: of its phonemes."""
        return AsrExampleMaker(corpus, self.tokenizer, classes, self.rng, Mix(prompt=0.2))

    def losses(self, progress: float) -> Tensor:
        """`[parts]`, of the next batch."""
        return losses(self.net, self.batch(progress), self.plan.smoothing)

    def weights(self) -> Tensor:
        """`[parts]`, what each of them counts."""
        plan = self.plan
        return torch.tensor([1.0, plan.phoneme_weight, plan.recall_weight, plan.alignment_weight])

    def batch(self, progress: float) -> Batch:
        """The next examples of this rank."""
        self.maker.mix.cut = 0.2 if progress < 0.04 else 0.4
        seconds = self.window(progress)
        examples: list[Listening] = []
        for _ in range(max(1, self.plan.seconds_per_rank // seconds)):
            example = self.source().draw(seconds)
            assert isinstance(example, Listening), example
            examples.append(example)
        return collate(examples, self.tokenizer.token(END_OF_TEXT), self.logmel, self.rng)

    def window(self, progress: float) -> int:
        """Seconds of the next batch, the same on all ranks."""
        return window(self.shared, progress)

    def source(self) -> AsrExampleMaker:
        """Who draws the next example."""
        return self.maker

    def learning_rate(self, progress: float) -> float:
        """Of the next step."""
        return learning_rate(self.plan, self.step, progress)

    def save(self, spent: float) -> None:
        """Writes what a later run goes on from."""
        save_state(self.out, self.net, self.optimizer, self.step, spent)

    def report(self, loss: float, each: int = 10) -> None:
        """Writes a loadable folder `current`, and a line of STATUS.txt about it."""
        write_folder(self.net, self.out / "tokenizer", self.out / "current")
        rates = {}
        for split in ("seen", "unseen"):
            corpus = spoken.load(self.out / "data", split)
            for language in LANGUAGES:
                clips = [c for c in corpus.clips if c.language == language][:each]
                rates[f"{language}_{split}"] = word_errors(
                    self.net, self.tokenizer, corpus, clips, self.logmel
                )
        line = f"{time.strftime('%H:%M:%S')} step {self.step} loss {loss:.3f} WER {rates}"
        print(line, flush=True)
        with (self.out / "STATUS.txt").open("a") as file:
            file.write(line + "\n")


def worker(rank: int, plan: Plan, kind: type[Run] = Run) -> None:
    """One rank of the training run; rank 0 logs, reports and saves."""
    run = kind(rank, plan)
    if rank == 0:
        write_folder(run.net, run.out / "tokenizer", run.out / "current")
    started = time.monotonic() - run.spent
    saved = logged = reported = time.monotonic()
    progress = run.spent / (plan.minutes * 60)
    weights = run.weights()
    sums, count, latest = torch.zeros(len(weights)), 0, 0.0
    while progress < 1 and (not plan.max_steps or run.step < plan.max_steps):
        parts = run.losses(progress)
        run.optimizer.zero_grad()
        (parts @ weights).backward()  # type: ignore[no-untyped-call]
        elapsed = (time.monotonic() - started) / (plan.minutes * 60)
        progress = average_gradients(run.net, plan.ranks, elapsed)
        torch.nn.utils.clip_grad_norm_(run.net.parameters(), 1.0)
        for group in run.optimizer.param_groups:
            group["lr"] = run.learning_rate(progress)
        run.optimizer.step()
        run.step += 1
        sums, count = sums + parts.detach(), count + 1
        if rank != 0:
            continue
        now = time.monotonic()
        if run.step % 100 == 0:
            latest = float(sums[0] / count)
            print(
                f"{time.strftime('%H:%M:%S')} step {run.step} {100 * progress:.1f}% "
                f"{', '.join(run.parts)} {[round(x, 3) for x in (sums / count).tolist()]} "
                f"{(now - logged) / count:.3f} s/step",
                flush=True,
            )
            sums, count, logged = torch.zeros(len(weights)), 0, now
        if now - saved > 240:
            run.save(now - started)
            saved = time.monotonic()
        if now - reported > 600:
            run.report(latest)
            reported = time.monotonic()
    if rank == 0:
        run.save(time.monotonic() - started)
        run.report(latest, 100)


def prepare(plan: Plan) -> None:
    """Render the corpus and learn the tokenizer, once for a folder."""
    out = Path(plan.out)
    out.mkdir(parents=True, exist_ok=True)
    spoken.build(out / "data", plan.seed, plan.sentences, plan.ranks)
    if not (out / "tokenizer").exists():
        write_tokenizer(out / "tokenizer", plan.seed)


def main() -> None:
    """Trains, or goes on with what is in the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder for data, state and log")
    parser.add_argument("--minutes", type=float, default=Plan.minutes)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--sentences", type=int, default=Plan.sentences, help="per language")
    parser.add_argument("--rate", type=float, default=Plan.rate)
    parser.add_argument("--ranks", type=int, default=Plan.ranks)
    parser.add_argument("--max-steps", type=int, default=0, help="0: until the time is over")
    plan = Plan(**vars(parser.parse_args()))
    prepare(plan)
    launch(worker, plan)


if __name__ == "__main__":
    main()
