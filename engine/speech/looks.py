"""What the ticks of an open segment heard, as far back as it matters. Pure."""

from __future__ import annotations

from lookhear.engine.speech.hypothesis import Hypothesis


class Looks:
    """Hypotheses about what follows the committed text, each with the end of the audio that it was
    heard in, in samples."""

    def __init__(self) -> None:
        self._looks: list[tuple[int, Hypothesis]] = []

    def add(self, end: int, hypothesis: Hypothesis, keep: int) -> None:
        """The newest. Older ones are kept as far as `since(keep)` wants them."""
        self._looks = [*self._from(keep), (end, hypothesis)]

    def commit(self, count: int) -> None:
        """The first count tokens are committed text now."""
        self._looks = [(end, hypothesis.split(count)[1]) for end, hypothesis in self._looks]

    def clear(self) -> None:
        """A new segment begins."""
        self._looks = []

    def last(self) -> list[Hypothesis]:
        """The newest, if there is one."""
        return [hypothesis for _, hypothesis in self._looks[-1:]]

    def since(self, position: int) -> list[Hypothesis]:
        """All whose audio ended later than a position, and the last one before them; nothing, if no
        look is that old."""
        looks = self._from(position)
        is_old = bool(looks) and looks[0][0] <= position
        return [hypothesis for _, hypothesis in looks] if is_old else []

    def _from(self, position: int) -> list[tuple[int, Hypothesis]]:
        old = [i for i, (end, _) in enumerate(self._looks) if end <= position]
        return self._looks[old[-1] :] if old else self._looks
