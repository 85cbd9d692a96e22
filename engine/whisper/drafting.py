"""What a Whisper runner asks of whoever guesses how texts go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lookhear.engine.whisper.request import WhisperSequence


class Drafter(Protocol):
    """See `WhisperDrafter`."""

    def draft(self, sequences: Sequence[WhisperSequence]) -> None:
        """Of those that go on behind a step that was read, `guess` for those that may."""

    def end(self, sequence: WhisperSequence) -> None:
        """The request is over."""

    def forget(self, key: str) -> None:
        """The owner is gone."""

    def stats(self) -> dict[str, int]:
        """Counters, for the metrics."""

    def check(self) -> None:
        """Raise AssertionError if anything leaked."""
