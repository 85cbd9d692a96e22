"""Ids that nobody can guess."""

from __future__ import annotations

import os
from collections.abc import Callable

DIGITS = 24  # hexadecimal, of each
DRAWN = 256  # at once: to ask the system for randomness takes as long as all the rest

IdFactory = Callable[[str], str]
"""Makes a fresh id from a prefix: "item" -> "item_4f…"."""


class Ids:
    """ "item" -> "item_" and 24 hex digits, never the same."""

    def __init__(self) -> None:
        self._random = ""

    def __call__(self, prefix: str) -> str:
        """A fresh one."""
        if not self._random:
            self._random = os.urandom(DRAWN * DIGITS // 2).hex()
        drawn, self._random = self._random[:DIGITS], self._random[DIGITS:]
        return f"{prefix}_{drawn}"
