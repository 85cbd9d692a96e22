"""A smaller Whisper of the same vocabulary writes ahead of a larger one, in files.

It hears the same window with an encoder of its own, goes on a few tokens behind what the large one
has written, and the large one checks them in one pass. What it writes differently is told to the
small one, which goes on from there. Texts are those of the large one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from lookhear.engine.core.request import Phase, Priority
from lookhear.engine.core.runner import check_done
from lookhear.engine.drafts.pace import Experience, Pace, PassCosts
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.request import WhisperRequest, WhisperSequence
from lookhear.engine.whisper.runner import WhisperRunner
from lookhear.kernels.log_mel import HOP

Clock = Callable[[], float]  # in seconds
USUAL = 50  # tokens of a window, by which hearing it once more has to pay
SIZES = (1, 2, 3, 4, 8, 13)
ROUNDS = 3  # the first of which prepares what libraries prepare for a shape


@dataclass(frozen=True, slots=True)
class HearingCosts:
    """passes: of the large model, the small one's among them. encode: seconds in which the small
    one hears a window."""

    passes: PassCosts
    encode: float


@dataclass(slots=True)
class _Owner:
    """A file, over all its windows. guessed, accepted: tokens of the window under way."""

    pace: Pace
    guessed: int = 0
    accepted: int = 0


class WhisperDrafter:
    """small: of the smaller model, with as many rows as the large one's runner."""

    def __init__(self, small: WhisperRunner) -> None:
        self.costs: HearingCosts | None = None
        self._experience = Experience()
        self._runner = small
        self._owners: dict[str, _Owner] = {}
        # Of windows under way, those that the small model has heard.
        self._smalls: dict[str, WhisperSequence] = {}
        self.num_passes = 0

    @torch.inference_mode()
    def draft(self, sequences: Sequence[WhisperSequence]) -> None:
        """Of those that go on behind a step that was read, `guess` for those that may."""
        begun: list[tuple[WhisperSequence, WhisperSequence]] = []
        files = [sequence for sequence in sequences if sequence.may_guess]
        for large in files:
            costs = None if self.costs is None else self.costs.passes
            owner = self._owners.setdefault(large.key, _Owner(Pace(costs, self._experience)))
            guessed, accepted = large.num_guessed, large.generated.num_accepted
            owner.pace.learn(guessed - owner.guessed, accepted - owner.accepted)
            owner.guessed, owner.accepted = guessed, accepted
            most = min(owner.pace.length(len(sequences)), large.generated.room)
            small = self._smalls.get(large.key)
            if most <= 0 or (small is None and not self._pays(owner, len(sequences))):
                continue
            if small is None:
                small = self._smalls[large.key] = self._runner.place(_same_window(large))
            small.follow(large.generated.tokens, most)
            begun.append((large, small))
        going = [small for _, small in begun]
        while going:
            failures = self._runner.launch([(small, small.num_queries) for small in going])()
            lost = {failure.key for failure in failures}
            self.num_passes += 1
            going = [s for s in going if s.phase is not Phase.DONE and s.key not in lost]
        for large, small in begun:
            large.guess(small.generated.tokens[len(large.generated.tokens) :])

    def _pays(self, owner: _Owner, rows: int) -> bool:
        """Whether what is saved in a window is more than it takes to hear it once more."""
        if self.costs is None:
            return True
        return USUAL * owner.pace.saved(rows) > rows * self.costs.encode

    def end(self, sequence: WhisperSequence) -> None:
        """The window is over."""
        if (owner := self._owners.get(sequence.key)) is not None:
            owner.guessed = owner.accepted = 0
        if (small := self._smalls.pop(sequence.key, None)) is not None:
            self._runner.release(small)

    def forget(self, key: str) -> None:
        """The file is over."""
        self._owners.pop(key, None)

    def stats(self) -> dict[str, int]:
        """Counters, for the metrics."""
        return {"draft_passes": self.num_passes}

    def check(self) -> None:
        """Raise AssertionError if rows leaked."""
        self._runner.check(len(self._smalls))


def _same_window(large: WhisperSequence) -> WhisperRequest:
    """What the small model is asked: the same, in the language that the large one has found."""
    return replace(
        large.request,
        language=large.language,
        language_guess=None,
        detects_alone=False,
        draft=(),
        align=False,
        align_if=None,
        segment=None,
        settled=(),
        doubts=None,
    )


@torch.inference_mode()
def measured_costs(
    large: WhisperRunner, small: WhisperRunner, tokenizer: WhisperTokenizer, clock: Clock
) -> HearingCosts:
    """Of runners that are idle. Raises what a pass fails with, see `check_done`."""
    passes, _ = _measured(large, tokenizer, clock)
    drafting, encode = _measured(small, tokenizer, clock)
    return HearingCosts(replace(passes, draft=drafting), encode)


def _measured(
    runner: WhisperRunner, tokenizer: WhisperTokenizer, clock: Clock
) -> tuple[PassCosts, float]:
    """Seconds of passes, and of hearing a window, its prompt included."""
    request = WhisperRequest(
        "",
        Priority.BATCH,
        np.zeros(HOP, np.float32),
        runner.full_window,
        (tokenizer.sot,),
        None,
        False,
        (),
        end_tokens=frozenset(),
    )
    hearing = float("inf")
    best = dict.fromkeys(SIZES, float("inf"))
    for number in range(ROUNDS):
        sequence = runner.place(request)
        began = clock()
        check_done(runner.launch([(sequence, 1)])())
        hearing = min(hearing, clock() - began)
        for size in SIZES:
            sequence.follow([0], SIZES[-1] + 1)
            sequence.guess([0] * (size - 1))
            began = clock()
            check_done(runner.launch([(sequence, size)])())
            if number:
                best[size] = min(best[size], clock() - began)
        runner.release(sequence)
    return PassCosts(SIZES, tuple(best.values())), hearing
