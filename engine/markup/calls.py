"""What of a streamed text is a call of a tool, and what is said. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from lookhear.engine.markup.call_family import CallFamily
from lookhear.engine.markup.thinking import longest_overlap


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The model calls the tool of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments of the newest call, as JSON text."""

    text: str


Piece = str | CallBegun | CallArguments


class Stage(Enum):
    """Where a text is."""

    TEXT = "text"
    HEAD = "head"  # behind the beginning of a call
    ARGUMENTS = "arguments"
    TAIL = "tail"  # behind the arguments


class CallReader:
    """Cuts a growing text into what is said and calls. No tag of the family's is in either.

    tools: names of those that there are. is_sure: a grammar keeps the text to the family's form, so
    arguments are told as they come. Else a call is told once it is whole, and what is none (broken
    JSON, a tool that is not there) is text like any other. is_forced: and nothing but calls may
    come.
    """

    def __init__(
        self,
        family: CallFamily,
        tools: Collection[str],
        *,
        is_sure: bool,
        is_forced: bool = False,
    ) -> None:
        assert is_sure or not is_forced
        self._family = family
        self.is_forced = is_forced
        self._tools = frozenset(tools)
        self._is_sure = is_sure
        self._stage = Stage.TEXT
        self._held = ""
        self._gap = ""  # blank space in front of the call that is being read
        self._depth = 0  # of braces and brackets that are open in the arguments
        self._in_text = False  # within a string of them
        self._is_escaped = False
        self.calls = 0

    @property
    def is_calling(self) -> bool:
        """Whether the next text is of a call, as far as is known."""
        return self._stage is not Stage.TEXT

    def push(self, text: str) -> list[Piece]:
        """More text: what is certain now, in order."""
        self._held += text
        pieces: list[Piece] = []
        while self._step(pieces):
            pass
        return pieces

    def flush(self) -> list[Piece]:
        """No more text. What a call lacks is not made up; one whose name is not known is none."""
        held, self._held = self._held, ""
        match self._stage:
            case Stage.TEXT if self.is_forced:
                return []  # a tag that was cut off
            case Stage.TEXT:
                is_gap = self.calls and not held.strip()
                return [held] if held and not is_gap else []
            case Stage.HEAD if not self._is_sure:
                whole = self._whole(held) if not self._family.end else None
                return whole or [self._gap + self._family.begin + held]
            case _:
                return []

    def _step(self, pieces: list[Piece]) -> bool:
        """Whether something was found, so that there may be more."""
        match self._stage:
            case Stage.TEXT:
                return self._text(pieces)
            case Stage.HEAD:
                return self._head(pieces) if self._is_sure else self._unsure(pieces)
            case Stage.ARGUMENTS:
                return self._arguments(pieces)
            case Stage.TAIL:
                return self._tail()

    def _text(self, pieces: list[Piece]) -> bool:
        """Blank space in front of a call goes with it."""
        begin = self._family.begin
        before, tag, after = self._held.partition(begin)
        kept = before if tag else before[: len(before) - longest_overlap(before, [begin])]
        if said := kept.rstrip():
            pieces.append(said)
        if not tag:
            self._held = before[len(said) :]
            return False
        self._gap = before[len(said) :]
        self._stage, self._held = Stage.HEAD, after
        return True

    def _head(self, pieces: list[Piece]) -> bool:
        for name in self._tools:
            before = self._family.before(name)
            if self._held.startswith(before):
                self.calls += 1
                pieces.append(CallBegun(name))
                self._stage, self._held = Stage.ARGUMENTS, self._held[len(before) :]
                return True
        return False

    def _arguments(self, pieces: list[Piece]) -> bool:
        end = self._end_of_object()
        if end is None:
            if self._held:
                pieces.append(CallArguments(self._held))
            self._held = ""
            return False
        pieces.append(CallArguments(self._held[:end]))
        self._stage, self._held = Stage.TAIL, self._held[end:]
        return True

    def _end_of_object(self) -> int | None:
        """Where in what is held the arguments end."""
        for place, character in enumerate(self._held):
            if self._is_escaped:
                self._is_escaped = False
            elif self._in_text:
                self._is_escaped = character == "\\"
                self._in_text = character != '"'
            elif character == '"':
                self._in_text = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if not self._depth:
                    return place + 1
        return None

    def _tail(self) -> bool:
        tail = self._family.tail
        if not self._held.startswith(tail):
            return False
        self._stage, self._held = Stage.TEXT, self._held[len(tail) :]
        return bool(self._held)

    def _unsure(self, pieces: list[Piece]) -> bool:
        """A call is whole at its end tag; without one, at the next call or the end of all."""
        family = self._family
        before, tag, after = self._held.partition(family.end or family.begin)
        if not tag:
            return False
        held = before + family.end
        pieces += self._whole(held) or [self._gap + family.begin + held]
        self._stage, self._held = Stage.TEXT, after if family.end else family.begin + after
        return True

    def _whole(self, text: str) -> list[Piece] | None:
        """The call that the text behind its beginning is, None if it is none."""
        found = self._family.found.fullmatch(text)
        if found is None or found["name"] not in self._tools:
            return None
        arguments = _object(found["arguments"])
        if arguments is None:
            return None
        self.calls += 1
        return [CallBegun(found["name"]), CallArguments(arguments)]


def _object(written: str | None) -> str | None:
    """Arguments as JSON text, None if they are none. Who needs none writes null, or nothing; some
    write JSON within a string."""
    written = (written or "").strip()
    try:
        value = json.loads(written or "null", parse_constant=_no_number)
        if isinstance(value, str):
            written, value = value, json.loads(value or "null", parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    if value is None:
        return "{}"
    return written if isinstance(value, dict) else None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
