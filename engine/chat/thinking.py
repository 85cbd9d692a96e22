"""What of a streamed text is the model's thinking, and what is its answer. Pure."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


class ThinkingSplitter:
    """Cuts a growing text at the tags that Qwen3 puts around its thinking.

    Thinking can only come first: tags further on belong to the answer. is_open: the template has
    written the opening tag already. Tags, and the line breaks around them, are in neither part.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        self._state = "thinking" if is_open else "start"
        self._has_begun = False  # to think, line breaks apart
        self._held = ""  # may be the beginning of a tag, or blank space that goes with one

    @property
    def is_thinking(self) -> bool:
        """Whether the next text is thinking, as far as is known."""
        return self._state == "thinking"

    def push(self, text: str) -> tuple[str, str]:
        """More text: (thinking, answer) that is certain now."""
        self._held += text
        thinking = answer = ""
        if self._state == "start":
            self._begin()
        if self._state == "thinking":
            thinking = self._think()
        if self._state == "gap":
            self._held = self._held.lstrip("\n")
            if self._held:
                self._state = "answer"
        if self._state == "answer":
            answer, self._held = self._held, ""
        return thinking, answer

    def flush(self) -> tuple[str, str]:
        """No more text: what was held back."""
        held, self._held = self._held, ""
        if self._state == "thinking":
            return held.rstrip("\n"), ""
        return "", "" if self._state == "gap" else held

    def _begin(self) -> None:
        seen = self._held.lstrip()
        if seen.startswith(OPEN):
            self._state, self._held = "thinking", seen.removeprefix(OPEN)
        elif not OPEN.startswith(seen):
            self._state = "answer"

    def _think(self) -> str:
        if not self._has_begun:
            self._held = self._held.lstrip("\n")
            self._has_begun = bool(self._held)
        before, tag, after = self._held.partition(CLOSE)
        if tag:
            self._state, self._held = "gap", after
            return before.rstrip("\n")
        # Line breaks in front of the tag are no thinking either.
        kept = before[: len(before) - longest_overlap(before, [CLOSE])].rstrip("\n")
        self._held = before[len(kept) :]
        return kept


def longest_overlap(text: str, words: list[str]) -> int:
    """Length of the longest end of text with which one of the words begins, but is not over."""
    longest = min(len(text), max(map(len, words), default=1) - 1)
    for length in range(longest, 0, -1):
        end = text[-length:]
        if any(len(word) > length and word.startswith(end) for word in words):
            return length
    return 0
