"""What of a streamed text is the model's thinking, and what is its answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class ThinkingTags:
    """What a family of models puts around its thinking."""

    open: str
    close: str


# Of Qwen, DeepSeek and most others; Mistral; Seed. A new family is a line.
COMMON = ThinkingTags("<think>", "</think>")
FAMILIES = (
    COMMON,
    ThinkingTags("[THINK]", "[/THINK]"),
    ThinkingTags("<seed:think>", "</seed:think>"),
)


def tags_of(template: str) -> ThinkingTags:
    """template: the source of a checkpoint's chat template. The first whose tags are in it; the
    common ones where none are."""
    return next((tags for tags in FAMILIES if tags.open in template), COMMON)


class Stage(Enum):
    """Where a text is."""

    START = "start"  # nothing but blank space, or the beginning of a tag
    THINKING = "thinking"
    GAP = "gap"  # line breaks behind the thinking
    ANSWER = "answer"


class ThinkingSplitter:
    """Cuts a growing text at the tags around its thinking.

    Thinking can only come first: tags further on belong to the answer. is_open: the template has
    written the opening tag already. Tags, and the line breaks around them, are in neither part.
    tags: None: all is answer.
    """

    def __init__(self, tags: ThinkingTags | None = COMMON, *, is_open: bool = False) -> None:
        self._tags = tags or COMMON
        self._stage = Stage.THINKING if is_open else Stage.START
        if tags is None:
            self._stage = Stage.ANSWER
        self._has_begun = False  # to think, line breaks apart
        self._held = ""  # may be the beginning of a tag, or blank space that goes with one

    @property
    def is_thinking(self) -> bool:
        """Whether the next text is thinking, as far as is known."""
        return self._stage is Stage.THINKING

    @property
    def is_between(self) -> bool:
        """Whether the thinking is over and nothing but line breaks has come behind it."""
        return self._stage is Stage.GAP

    def push(self, text: str) -> tuple[str, str]:
        """More text: (thinking, answer) that is certain now."""
        self._held += text
        thinking = answer = ""
        if self._stage is Stage.START:
            self._begin()
        if self._stage is Stage.THINKING:
            thinking = self._think()
        if self._stage is Stage.GAP:
            self._held = self._held.lstrip("\n")
            if self._held:
                self._stage = Stage.ANSWER
        if self._stage is Stage.ANSWER:
            answer, self._held = self._held, ""
        return thinking, answer

    def flush(self) -> tuple[str, str]:
        """No more text: what was held back."""
        held, self._held = self._held, ""
        if self._stage is Stage.THINKING:
            return held.rstrip("\n"), ""
        return "", "" if self._stage is Stage.GAP else held

    def _begin(self) -> None:
        seen = self._held.lstrip()
        opening = self._tags.open
        if seen.startswith(opening):
            self._stage, self._held = Stage.THINKING, seen.removeprefix(opening)
        elif not opening.startswith(seen):
            self._stage = Stage.ANSWER

    def _think(self) -> str:
        if not self._has_begun:
            self._held = self._held.lstrip("\n")
            self._has_begun = bool(self._held)
        before, tag, after = self._held.partition(self._tags.close)
        if tag:
            self._stage, self._held = Stage.GAP, after
            return before.rstrip("\n")
        # Line breaks in front of the tag are no thinking either.
        kept = before[: len(before) - longest_overlap(before, [self._tags.close])].rstrip("\n")
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
