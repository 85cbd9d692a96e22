"""What a head for demo-qwen3-vl is worth: `python -m tools.recipes.eagle3.evaluate --head FOLDER`.

Questions that it was not trained on, each answered with drafts as long as can be and without.
Printed by kind: whether tokens are the same, tokens for each pass, the share of first guesses that
were right.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from rich.table import Table

from lookhear.engine.eagle3.config import LargeModel
from lookhear.engine.eagle3.head import Eagle3Head
from lookhear.engine.eagle3.passes import HeadPasses
from lookhear.engine.paged.draft_model import ModelDrafter
from lookhear.engine.paged.request import PagedSequence
from tools.recipes.eagle3.corpus import Speaker, run
from tools.recipes.eagle3.train import FOLDER
from tools.recipes.qwen3_vl.evaluate import KINDS

SEED = 1_000_000


class Watched(ModelDrafter):
    """guesses: how many there were; right: those whose first token was."""

    def __init__(self, network: HeadPasses, num_blocks: int) -> None:
        super().__init__(network, num_blocks)
        self.guesses = self.right = 0

    def draft(self, sequences: Sequence[PagedSequence]) -> None:
        """See `Drafter`."""
        for sequence in sequences:
            self._count(sequence)
        ModelDrafter.draft(self, sequences)

    def end(self, sequence: PagedSequence) -> None:
        """See `Drafter`."""
        self._count(sequence)
        ModelDrafter.end(self, sequence)

    def _count(self, sequence: PagedSequence) -> None:
        reader = self._readers.get(sequence.key)
        if reader is None or not reader.draft:
            return
        said = sequence.context[reader.length :]
        is_end = reader.draft[0] in sequence.generated.end_tokens
        self.guesses += 1
        self.right += reader.draft[0] == said[0] if said else is_end


class Worth(NamedTuple):
    """Of some answers. same: whether they are what they are without a head."""

    same: bool
    tokens: int
    passes: int
    guesses: int
    right: int


def measure(speaker: Speaker, folder: Path, kind: str, count: int) -> Worth:
    """One question after another."""
    decoder, model = speaker.model.decoder, ("Qwen3VLForConditionalGeneration",)
    head = Eagle3Head.from_folder(
        folder, LargeModel(folder, model, decoder.dims, decoder.vocab), decoder
    )
    answers: list[list[list[int]]] = []
    passes = guesses = right = 0
    for is_drafted in (False, True):
        runner = speaker.runner(head.tap)
        network = HeadPasses(head, runner.cache, runner.rows)
        drafter = Watched(network, runner.cache.num_blocks) if is_drafted else None
        found = []
        for request in speaker.requests(kind, range(SEED, SEED + count)):
            (sequence,) = run(runner, [request], drafter)
            found.append(list(sequence.generated.tokens))
            passes += sequence.generated.num_passes * is_drafted
        answers.append(found)
        if drafter is not None:
            guesses, right = drafter.guesses, drafter.right
    plain, drafted = answers
    tokens = sum(len(answer) + 1 for answer in drafted)  # and the end
    return Worth(plain == drafted, tokens, passes, guesses, right)


def main() -> int:
    """Prints it; exit status 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=FOLDER)
    parser.add_argument("--head", type=Path, required=True)
    parser.add_argument("--count", type=int, default=20, help="questions of each kind")
    options = parser.parse_args()
    torch.set_num_threads(1)
    speaker = Speaker(options.model)
    table = Table("kind", "same", "tokens a pass", "first guess right")
    total: Counter[str] = Counter()
    is_same = True
    for kind in KINDS:
        worth = measure(speaker, options.head, kind, options.count)
        is_same &= worth.same
        total.update({name: getattr(worth, name) for name in Worth._fields[1:]})
        table.add_row(kind, *_row(worth))
    table.add_row("all", *_row(Worth(is_same, **total)))
    Console(highlight=False).print(table)
    return int(not is_same)


def _row(worth: Worth) -> tuple[str, str, str]:
    share = worth.right / max(1, worth.guesses)
    return str(worth.same), f"{worth.tokens / worth.passes:.2f}", f"{100 * share:.0f} %"


if __name__ == "__main__":
    raise SystemExit(main())
