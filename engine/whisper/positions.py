"""Positions of a decoder pass whose logits are wanted, and what for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Purpose(Enum):
    """What the logits of a position are wanted for."""

    START = "start"  # how probable it is that nobody speaks, and each language
    TOKEN = "token"  # what follows


@dataclass(frozen=True, slots=True)
class LogitsRow:
    """One position whose logits are wanted. index: offset in the fed queries. num_said: text tokens
    before it, unread ones included (0: the first one after the forced prefix); history: these
    tokens and the prefix, if timestamps are wanted, for nothing else depends on them. forced: the
    token there, whatever the model would say. firsts: tokens with which expected words may begin
    there. ends: whether the text may be over there. barred: a token that is not taken."""

    index: int
    purpose: Purpose
    history: tuple[int, ...] = ()
    num_said: int = 0
    forced: int | None = None
    firsts: tuple[int, ...] = ()
    ends: bool = True
    barred: int | None = None


class AlignedText(NamedTuple):
    """tokens: num_start from the start token on, num_text of the text, and the end token."""

    tokens: list[int]
    num_start: int
    num_text: int
