"""What a worker knows of the whole gateway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lookhear.gateway.credentials import Credentials


@dataclass(slots=True)
class Siblings:
    """number: of this worker, from 1; 0: there are no others. folder: where all of them keep their
    numbers and listen for each other. signer: what client secrets are signed with where there are
    no API keys, alike in all of them. credentials: that it begins with; None: those that the files
    have. states: what each says under `/ready`, `down` if it is not
    there."""

    number: int = 0
    folder: Path | None = None
    signer: bytes | None = None
    credentials: Credentials | None = None
    states: Mapping[int, str] = field(default_factory=dict)

    @property
    def metrics(self) -> Path | None:
        """The folder with the numbers of all."""
        return None if self.folder is None else self.folder / "metrics"

    def status(self, own: str) -> str:
        """Of all of them: one that is not ready makes the whole not ready."""
        states = (own, *(s for number, s in self.states.items() if number != self.number))
        found = next((state for state in states if state != "ready"), "ready")
        return "worker_down" if found == "down" else found
