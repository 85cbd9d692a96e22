"""Word error rate: how transcripts are normalised and compared."""

from __future__ import annotations

import re
import unicodedata


def words_of(text: str) -> list[str]:
    """Words as the error rate counts them: lower case, no punctuation."""
    text = unicodedata.normalize("NFC", text).lower()
    return re.sub(r"[^\w' ]+", " ", text.replace("-", " ")).split()


def edit_distance(a: list[str], b: list[str]) -> int:
    """Levenshtein distance between two word lists."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = (
                row[j],
                min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y)),
            )
    return row[-1]
