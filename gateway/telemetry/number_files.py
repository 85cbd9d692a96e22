"""The files of prometheus_client's multiprocess mode, with room that nobody else can take.

It maps files that have holes, and a process that writes where the disk has no room left for a hole
is killed (SIGBUS). Here all bytes are written before they are mapped; where that cannot be done
numbers are dropped, and the server goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import Any

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

log = logging.getLogger(__name__)

FIRST_BYTES = 1 << 16  # as prometheus_client begins
PAUSE = 1.0  # seconds before a file that had no room is tried again
_BESIDE_KEY = 32  # bytes of an entry, at most: its length, what fills it up, two numbers


class ReservedFile(MmapedDict):
    """One file of one process."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        self._is_told = False
        self._reserved = 0  # bytes that are on the disk
        self._positions: dict[str, int] = {}
        self._f: Any = None  # until there is one
        self._path, self._read_mode = Path(filename), read_mode
        self._open()

    def read_value(self, key: str) -> tuple[float, float]:
        """The number and its time; 0 of one that has no room."""
        if not self._has_room(key):
            return 0.0, 0.0
        base: Any = super()
        number, time = base.read_value(key)
        return number, time

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        """Not if there is no room."""
        if self._has_room(key):
            base: Any = super()
            base.write_value(key, value, timestamp)

    def _open(self) -> bool:
        """Whether there is a file now. As long as there is none that is tried now and then."""
        self._tried = time.monotonic()
        if not self._make(self._path):
            return False
        base: Any = super()
        base.__init__(str(self._path), self._read_mode)
        self._reserved = self._capacity
        return True

    def _make(self, path: Path) -> bool:
        """Whether the file is there. Nobody reads it before it is whole."""
        if path.exists():  # of a process that had the same number
            return True
        made = path.with_suffix(".new")
        try:
            with made.open("wb") as file:
                _fill(file.fileno(), FIRST_BYTES)
            made.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                made.unlink()
            self._tell(error)
            return False
        return True

    def _has_room(self, key: str) -> bool:
        """For one that is there, or that may become so. The file is twice as long then, which is
        what prometheus_client makes of it."""
        if key in self._positions:
            return True
        if self._f is None and (time.monotonic() < self._tried + PAUSE or not self._open()):
            return False
        if key in self._positions:  # of a process that had the same number
            return True
        if self._used + len(key.encode()) + _BESIDE_KEY <= self._reserved:
            return True
        try:
            _fill(self._f.fileno(), self._reserved)
        except OSError as error:
            os.ftruncate(self._f.fileno(), self._reserved)
            self._tell(error)
            return False
        self._reserved *= 2
        return True

    def _tell(self, error: OSError) -> None:
        if not self._is_told:
            self._is_told = True
            log.error("there is no room for numbers, which are dropped: %s", error)


def _fill(descriptor: int, count: int) -> None:
    """That many bytes at the end of the file. Raises OSError."""
    while count:
        count -= os.write(descriptor, bytes(count))


def reserve_files() -> None:
    """From now on, for the files of this process; before its first number."""
    vars(values)["MmapedDict"] = ReservedFile  # where it looks for it
