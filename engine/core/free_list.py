"""Places that are lent to one request at a time: rows of a decoder's cache, slots of audio."""

from __future__ import annotations


class FreeList:
    """Places first .. first + count - 1. what: their name, for messages."""

    def __init__(self, count: int, *, first: int, what: str) -> None:
        self._all = range(first, first + count)
        self._what = what
        self._free = list(reversed(self._all))  # used as a stack: the lowest place first
        self._used: set[int] = set()

    @property
    def num_free(self) -> int:
        """Places that nobody holds."""
        return len(self._free)

    def allocate(self) -> int | None:
        """A place that nobody holds, or None if all are taken."""
        if not self._free:
            return None
        place = self._free.pop()
        self._used.add(place)
        return place

    def _lend(self, place: int) -> int:
        self._free.remove(place)
        self._used.add(place)
        return place

    def free(self, place: int) -> None:
        """Gives back a place; freeing one that is not held is our bug."""
        self.assert_held(place)
        self._used.remove(place)
        self._free.append(place)

    def assert_held(self, place: int) -> None:
        """Raise AssertionError if nobody holds the place."""
        assert place in self._used, f"{self._what} {place} is not allocated"

    def check(self) -> None:
        """Raise AssertionError unless every place is either free or used, and none both."""
        free = set(self._free)
        assert len(free) == len(self._free), f"a {self._what} is free twice"
        assert not free & self._used, f"a {self._what} is free and used"
        assert free | self._used == set(self._all), f"a {self._what} is lost"
