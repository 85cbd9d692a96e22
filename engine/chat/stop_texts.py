"""Ends an answer at texts that its client named. Pure."""

from __future__ import annotations

from lookhear.engine.markup.thinking import longest_overlap


class StopTexts:
    """Lets a growing text through up to the first of the texts that end it, which is left out.

    What may be the beginning of one is held back until it is known. stopped_by: the text that
    came, None until then.
    """

    def __init__(self, stops: list[str]) -> None:
        assert all(stops), stops
        self._stops = stops
        self._held = ""
        self.stopped_by: str | None = None

    @property
    def has_stopped(self) -> bool:
        """Whether one of them came."""
        return self.stopped_by is not None

    def push(self, text: str, *, may_stop: bool = True) -> str:
        """More text; returns what is certain now. may_stop: whether one that becomes whole with it
        ends the answer; else it is text like any other."""
        if self.has_stopped:
            return ""
        old = len(self._held)
        self._held += text
        found = []
        for stop in self._stops if may_stop else ():
            # One that was whole before did not count then, and does not count now.
            if (at := self._held.find(stop, max(0, old + 1 - len(stop)))) >= 0:
                found.append((at, stop))
        if found:
            first, self.stopped_by = min(found)
            passed, self._held = self._held[:first], ""
            return passed
        kept = len(self._held) - longest_overlap(self._held, self._stops)
        passed, self._held = self._held[:kept], self._held[kept:]
        return passed

    def flush(self) -> str:
        """No more text: what was held back."""
        held, self._held = self._held, ""
        return held
