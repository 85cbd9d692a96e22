"""How much one session may hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DialogueLimits:
    """Of everything in its conversation."""

    max_pictures: int = 256  # different ones
    max_pixels: int = 80_000_000  # of all of them together
    max_characters: int = 4_000_000  # of all items
    max_spoken_seconds: float = 600.0  # of what was said, as it sounds
