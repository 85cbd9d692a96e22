"""Drafts from what was said before: what came last behind the same few tokens. Pure.

Answers quote their prompt: a text that is summarised or mended, names, keys of JSON, code. Nothing
is computed for such a draft, and where it is wrong the pass that verifies it says what is right.
"""

from __future__ import annotations

from collections.abc import Sequence

SIZES = (4, 2)  # tokens that have to be alike, the surest first


class Lookup:
    """Of one context, which grows."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        # Of each size, by its tokens: the place behind where they stood last.
        self._places: dict[tuple[int, ...], int] = {}

    def extend(self, context: Sequence[int]) -> None:
        """context: whole; its beginning is what it was."""
        tokens, known = self._tokens, len(self._tokens)
        tokens += context[known:]
        # What ends with the last token leads nowhere yet.
        for place in range(max(known, 1), len(tokens)):
            for size in SIZES:
                if place >= size:
                    self._places[tuple(tokens[place - size : place])] = place

    def draft(self, most: int, begun: Sequence[int] = ()) -> tuple[int, ...]:
        """So many tokens at most that may come next. begun: tokens that will come first; they are
        part of the draft."""
        tokens, drafted = self._tokens, list(begun[:most])
        for size in SIZES:
            end = (*tokens[-size:], *drafted)[-size:]
            place = self._places.get(end)
            if place is None:
                continue
            while len(drafted) < most:  # what repeats itself goes on doing so
                behind = place - len(tokens)
                drafted.append(tokens[place] if behind < 0 else drafted[behind])
                place += 1
            break
        return tuple(drafted)
