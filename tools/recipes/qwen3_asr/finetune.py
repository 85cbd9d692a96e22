"""Teach a trained demo-qwen3-asr the spoken questions about pictures, and keep what it knows.

`python -m tools.recipes.qwen3_asr.finetune --run RUN --out DIR` goes on from the state of a run of
`qwen3_asr.train`. About half of the examples ask questions, alone, in a row, and among
sentences of the grammar by the same speaker; the others are as in the training before. The encoder
stays as it is: it hears the sounds of English already, and not to learn halves the work.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import numpy as np
import torch

from tools.recipes.qwen3_asr.examples import AsrExampleMaker
from tools.recipes.qwen3_asr.export import write_folder
from tools.recipes.qwen3_asr.train import Plan, Run, worker
from tools.recipes.speech import corpus as spoken
from tools.recipes.speech import spoken_questions
from tools.recipes.whisper.examples import Mix
from tools.recipes.whisper.ranks import launch

QUESTIONS = 0.45
"""Share of the examples."""
WINDOWS = {2: 0.19, 3: 0.2, 4: 0.14, 5: 0.05, 6: 0.08, 8: 0.12, 12: 0.08, 16: 0.06, 20: 0.04}
WINDOWS |= {24: 0.04}
"""Steps by window length (seconds): questions are short, and long windows must not be forgotten."""
HIGH_RATE, LOW_RATE = 8e-4, 3e-5
LEVEL = 0.5
"""Part of the time at the high rate; then it falls exponentially to the low one."""


def learning_rate(progress: float) -> float:
    """Level, then falling."""
    fallen = max(0.0, progress - LEVEL) / (1 - LEVEL)
    return float(HIGH_RATE * (LOW_RATE / HIGH_RATE) ** fallen)


class Finetune(Run):
    """One rank that draws from two corpora; `questions` are beside `data` in its folder."""

    def __init__(self, rank: int, plan: Plan) -> None:
        super().__init__(rank, plan)
        self.net.model.audio_tower.requires_grad_(False)
        asked = spoken.load(self.out / "questions", "questions")
        # Silence is the other maker's: this corpus has no words of other languages to expect.
        mix = Mix(prompt=0.2, silence=0.0)
        classes = self.maker.phoneme_ids
        self.asker = AsrExampleMaker(asked, self.tokenizer, classes, self.rng, mix)

    def window(self, progress: float) -> int:
        """Seconds of the next examples, by lot."""
        share = np.array(list(WINDOWS.values()))
        return int(self.shared.choice(list(WINDOWS), p=share / share.sum()))

    def source(self) -> AsrExampleMaker:
        """Who makes the next example: questions, or the corpus before."""
        return self.asker if self.rng.random() < QUESTIONS else self.maker

    def learning_rate(self, progress: float) -> float:
        """With a warm-up of its own."""
        return min(1.0, (self.step + 1) / self.plan.warmup) * learning_rate(progress)

    def report(self, loss: float, each: int = 10) -> None:
        """Writes the folder `current`; its measurement is `qwen3_asr.evaluate`."""
        write_folder(self.net, self.out / "tokenizer", self.out / "current")
        print(f"{time.strftime('%H:%M:%S')} step {self.step} loss {loss:.3f}", flush=True)


def prepare(run: Path, plan: Plan) -> None:
    """A folder like the run's, at step 0 of its last state, with the questions; once."""
    out = Path(plan.out)
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "data").exists():
        (out / "data").symlink_to((run / "data").resolve())
        shutil.copytree(run / "tokenizer", out / "tokenizer")
    if not (out / "state.pt").exists():
        state = torch.load(run / "state.pt", weights_only=True)
        torch.save({**state, "step": 0, "spent": 0.0}, out / "state.pt")
    spoken_questions.build(out / "questions", plan.seed, plan.ranks)


def main() -> None:
    """Goes on from a run, in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of qwen3_asr.train")
    parser.add_argument("--out", required=True, help="folder for questions, state and log")
    parser.add_argument("--minutes", type=float, default=13.0)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=0, help="0: until the time is over")
    options = vars(parser.parse_args())
    run = options.pop("run")
    plan = Plan(**options, warmup=20, seconds_per_rank=48)
    prepare(run, plan)
    launch(worker, plan, Finetune)


if __name__ == "__main__":
    main()
