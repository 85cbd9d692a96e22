"""Train demo-qwen3-aligner on CPU: `python -m tools.recipes.qwen3_aligner.train --minutes 45`.

It begins with the weights of demo-qwen3-asr, whose encoder stays as it is at first. Two heads of a
layer are told where the word is whose token or marker they read, two of the next layer where it
begins and ends. Before all that the places of the audio learn to say when they are, in long windows
alone: the encoder does not know, and learned beside the rest it takes the longest.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tools.recipes.checkpoints.qwen_vocabulary import END_OF_TEXT
from tools.recipes.qwen3_aligner.examples import (
    AlignerExampleMaker,
    Timed,
    TimedBatch,
    collate_timed,
)
from tools.recipes.qwen3_aligner.export import write_folder
from tools.recipes.qwen3_aligner.network import STEP_SECONDS, AlignerNetwork
from tools.recipes.qwen3_aligner.start import started
from tools.recipes.qwen3_aligner.timing import clip_errors
from tools.recipes.qwen3_aligner.tokenizer import write_tokenizer
from tools.recipes.qwen3_asr.network import CHUNK_TOKENS
from tools.recipes.qwen3_asr.train import Plan, Run, worker
from tools.recipes.speech import corpus as spoken
from tools.recipes.speech import spoken_questions
from tools.recipes.whisper.examples import Mix
from tools.recipes.whisper.ranks import launch
from tools.recipes.whisper.train import alignment_loss

RECALL_LAYER, EDGE_LAYER = 1, 2
SPREAD = 0.6
"""Steps: standard deviation of what a marker is to say around its time."""
THAW = 0.4
"""Part of the time during which the encoder stays as it is."""
PLACES_FIRST = 0.05
"""Part of the time during which nothing but that is learned."""
WINDOWS = {1: 0.02, 2: 0.11, 3: 0.18, 4: 0.15, 5: 0.06, 6: 0.06, 8: 0.1, 12: 0.09, 16: 0.09}
WINDOWS |= {20: 0.07, 24: 0.07}
LATE_WINDOWS = {2: 0.06, 3: 0.1, 4: 0.12, 5: 0.05, 6: 0.06, 8: 0.13, 12: 0.14, 16: 0.14, 20: 0.1}
LATE_WINDOWS |= {24: 0.1}
"""Steps by window length (seconds); the later ones in the second half, for a word that is said
several times is found only by its order, and long windows have many of them."""
QUESTIONS = 0.12
"""Share of the examples."""
SEED_OF_QUESTIONS = 1000


def targets(seconds: Tensor, labels: int) -> Tensor:
    """`[n]` times to `[n, labels]` probabilities of the steps around them."""
    steps = torch.arange(labels)[None] - seconds[:, None] / STEP_SECONDS
    return (-0.5 * (steps / SPREAD) ** 2).softmax(-1)


def cross_entropy(logits: Tensor, seconds: Tensor) -> Tensor:
    """Mean over `[n, labels]` logits of these times."""
    wanted = targets(seconds, logits.shape[-1])
    return -(wanted * logits.float().log_softmax(-1)).sum(-1).mean()


def place_times(count: int) -> Tensor:
    """`[count]` seconds: the middle of each encoder token."""
    place = torch.arange(count)
    return place // CHUNK_TOKENS + (place % CHUNK_TOKENS + 0.5) * STEP_SECONDS


def losses(net: AlignerNetwork, batch: TimedBatch) -> Tensor:
    """`[4]`: cross-entropy of markers and of places, alignment losses of words and of edges."""
    heard = batch.heard
    with torch.autocast("cpu", torch.bfloat16):
        hidden, middle, attended = net.read(heard.mel, heard.counts, heard.tokens, heard.starts)
        said = net.score(hidden[batch.rows[:, 0], batch.rows[:, 1]])
        row, place = torch.nonzero(
            torch.arange(int(heard.counts.max()))[None] < heard.counts[:, None], as_tuple=True
        )
        known = net.score(middle[row, heard.starts[row] + place])
    times = place_times(int(heard.counts.max()))[place]
    recall = alignment_loss(attended[RECALL_LAYER], heard.recalled)
    edge = alignment_loss(attended[EDGE_LAYER], heard.guided)
    return torch.stack(
        [cross_entropy(said, batch.seconds), cross_entropy(known, times), recall, edge]
    )


class AlignerRun(Run):
    """One rank; draws from the corpus and from the questions about pictures."""

    parts = ("marker", "place", "recall", "edge")
    net: AlignerNetwork
    maker: AlignerExampleMaker

    def __init__(self, rank: int, plan: Plan) -> None:
        super().__init__(rank, plan)
        asked = spoken.load(self.out / "questions", "questions")
        self.asker = AlignerExampleMaker(
            asked, self.tokenizer, self.maker.phoneme_ids, self.rng, Mix(silence=0.0)
        )

    def network(self, vocabulary: int, phonemes: int) -> AlignerNetwork:
        """As it is at step 0."""
        return started(self.tokenizer, vocabulary)

    def examples(self, corpus: spoken.Corpus, classes: dict[str, int]) -> AlignerExampleMaker:
        """Who draws them from the corpus."""
        return AlignerExampleMaker(corpus, self.tokenizer, classes, self.rng, Mix(silence=0.0))

    def losses(self, progress: float) -> Tensor:
        """`[parts]`, of the next batch."""
        self.net.model.audio_tower.requires_grad_(progress >= THAW)
        seconds = self.window(progress)
        examples: list[Timed] = []
        for _ in range(max(1, self.plan.seconds_per_rank // seconds)):
            asks = self.rng.random() < QUESTIONS
            examples.append((self.asker if asks else self.maker).draw(seconds))
        padding = self.tokenizer.token(END_OF_TEXT)
        parts = losses(self.net, collate_timed(examples, padding, self.logmel, self.rng))
        return parts * torch.tensor([0.0, 1.0, 0.0, 0.0]) if progress < PLACES_FIRST else parts

    def window(self, progress: float) -> int:
        """Seconds of the next examples: the longest at first, then by lot."""
        if progress < PLACES_FIRST:
            return max(WINDOWS)
        windows = WINDOWS if progress < 0.45 else LATE_WINDOWS
        share = np.array(list(windows.values()))
        return int(self.shared.choice(list(windows), p=share / share.sum()))

    def weights(self) -> Tensor:
        """`[parts]`, what each of them counts."""
        return torch.tensor([1.0, 0.3, self.plan.recall_weight, self.plan.alignment_weight])

    def report(self, loss: float, each: int = 40) -> None:
        """Writes a loadable folder `current`, and a line of STATUS.txt about it."""
        write_folder(self.net, self.out / "tokenizer", self.out / "current")
        found = {}
        for split in ("seen", "unseen"):
            corpus = spoken.load(self.out / "data", split)
            errors = clip_errors(self.net, self.tokenizer, corpus, corpus.clips[:each], self.logmel)
            parts = [np.abs(errors[:, side]) for side in (0, 1)]
            found[split] = [
                [round(float(np.quantile(e, q)), 3) for q in (0.5, 0.95)] for e in parts
            ]
        line = f"{time.strftime('%H:%M:%S')} step {self.step} loss {loss:.3f} starts, ends {found}"
        print(line, flush=True)
        with (self.out / "STATUS.txt").open("a") as file:
            file.write(line + "\n")


def prepare(plan: Plan) -> None:
    """Render the corpora and learn the tokenizer, once for a folder."""
    out = Path(plan.out)
    out.mkdir(parents=True, exist_ok=True)
    spoken.build(out / "data", plan.seed, plan.sentences, plan.ranks)
    spoken_questions.build(out / "questions", SEED_OF_QUESTIONS, plan.ranks)
    if not (out / "tokenizer").exists():
        write_tokenizer(out / "tokenizer", plan.seed)


def main() -> None:
    """Trains, or goes on with what is in the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder for data, state and log")
    parser.add_argument("--minutes", type=float, default=45.0)
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--sentences", type=int, default=Plan.sentences, help="per language")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--max-steps", type=int, default=0, help="0: until the time is over")
    options: dict[str, Any] = vars(parser.parse_args())
    plan = Plan(**options, warmup=100)
    prepare(plan)
    launch(worker, plan, AlignerRun)


if __name__ == "__main__":
    main()
