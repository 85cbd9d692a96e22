"""Runs of text between special tokens, and their tokens. Pure.

Tokens are made on the thread that owns the device, of whatever clients send: of a text that is far
too long for the context only as many are made as it takes to know that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from lookhear.engine.chat.template import (
    GivenTokens,
    Piece,
    TemplateText,
    UserEmbeddings,
    UserText,
)

LONG = 8  # characters of a token: more than a text has on an average
# Tokens that the beginning of a text may have and the whole one not, as its last words are cut.
SLACK = 64


def runs_of(pieces: Sequence[Piece], specials: re.Pattern[str]) -> list[Piece]:
    """Special tokens as frames of one each, and between them texts as long as they can be.
    specials: the spellings, as the one group."""
    runs: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, UserEmbeddings | GivenTokens):
            runs.append(piece)
            continue
        cut = specials.split(piece.text) if isinstance(piece, TemplateText) else [piece.text]
        for i, text in enumerate(cut):
            if i % 2 == 1:
                runs.append(TemplateText(text))
            elif text and runs and isinstance(runs[-1], UserText):
                runs[-1] = UserText(runs[-1].text + text)
            elif text:
                runs.append(UserText(text))
    return runs


def is_long(pieces: Sequence[Piece], most: int) -> bool:
    """Whether the text of a prompt is hardly one of so many tokens."""
    texts = (piece.text for piece in pieces if isinstance(piece, TemplateText | UserText))
    return sum(map(len, texts)) > LONG * most


def encoded(encode: Callable[[str], list[int]], text: str, most: int) -> list[int]:
    """The tokens of a text. most: if there are more, and SLACK, those of a beginning are enough."""
    size = LONG * most
    while len(text) > size:
        tokens = encode(text[:size])
        if len(tokens) > most + SLACK:
            return tokens
        size *= 4
    return encode(text)
