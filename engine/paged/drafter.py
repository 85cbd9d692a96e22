"""Who guesses what running answers go on with; the runner verifies it in their next step.

A guess never changes an answer: what is chosen behind each of its tokens is what would have been
chosen without it, for the noise of a draw depends on seed and place alone (`kernels.sampling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lookhear.engine.drafts.lookup import Lookup
from lookhear.engine.drafts.pace import Pace, PassCosts
from lookhear.engine.paged.request import PagedSequence

LEAST_ANSWER = 4  # tokens; shorter ones are over before a guess has paid


class Drafter(Protocol):
    """Of one runner. Told of every request; what it does not guess for is decoded as ever."""

    costs: PassCosts | None  # None: guesses are as long as can be

    def begin(self, sequence: PagedSequence) -> None:
        """It was placed."""

    def draft(self, sequences: Sequence[PagedSequence]) -> None:
        """Those that go on behind a step that was read: `guess` for those that may."""

    def end(self, sequence: PagedSequence) -> None:
        """It is over. Idempotent."""

    def stats(self) -> dict[str, int]:
        """Counters, for the metrics."""


@dataclass(slots=True)
class Progress:
    """Of one request. guessed, accepted: tokens, when it was last looked at."""

    pace: Pace
    guessed: int = 0
    accepted: int = 0

    def length(self, sequence: PagedSequence, rows: int) -> int:
        """Of its next guess, after a step. rows: requests that go on."""
        self.look(sequence)
        return self.best(sequence, rows)[0]

    def look(self, sequence: PagedSequence, *, is_mine: bool = True) -> None:
        """After a step. is_mine: whether what was guessed then is what this is about."""
        guessed, accepted = sequence.num_guessed, sequence.generated.num_accepted
        if is_mine:
            self.pace.learn(guessed - self.guessed, accepted - self.accepted)
        self.guessed, self.accepted = guessed, accepted

    def best(self, sequence: PagedSequence, rows: int) -> tuple[int, float]:
        """See `Pace.best`; no longer than there is room for."""
        length, rate = self.pace.best(rows)
        return max(0, min(length, sequence.generated.room)), rate


@dataclass(frozen=True, slots=True)
class _Drafting:
    """Of one request."""

    progress: Progress
    lookup: Lookup = field(default_factory=Lookup)


class LookupDrafter:
    """What its grammar forces, then what came last behind the same tokens."""

    def __init__(self) -> None:
        self.costs: PassCosts | None = None
        self._held: dict[str, _Drafting] = {}

    def begin(self, sequence: PagedSequence) -> None:
        """See `Drafter`."""
        if sequence.request.max_new_tokens >= LEAST_ANSWER:
            self._held[sequence.key] = _Drafting(Progress(Pace(self.costs)))

    def draft(self, sequences: Sequence[PagedSequence]) -> None:
        """See `Drafter`."""
        for sequence in sequences:
            if (held := self._held.get(sequence.key)) is None:
                continue
            most = held.progress.length(sequence, len(sequences))
            if most == 0:
                sequence.is_drafted = False
                continue
            held.lookup.extend(sequence.context)
            forced = [] if sequence.matcher is None else sequence.matcher.forced()
            draft = held.lookup.draft(most, forced)
            sequence.is_drafted = bool(draft)
            if sequence.may_guess:
                sequence.guess(draft)

    def end(self, sequence: PagedSequence) -> None:
        """See `Drafter`."""
        self._held.pop(sequence.key, None)

    def stats(self) -> dict[str, int]:
        """It computes nothing."""
        return {}
