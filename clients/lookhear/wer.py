"""Word error rate: one named text normalisation, one alignment, corpus-weighted counts."""

from __future__ import annotations

import operator
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass


def normalise(text: str) -> list[str]:
    """Words of a text: NFKC, lower case, everything but letters, marks, digits and apostrophes
    inside a word read as a space."""
    text = unicodedata.normalize("NFKC", text).lower().replace("\u2019", "'")
    kept = "".join(c if unicodedata.category(c)[0] in "LMN" or c == "'" else " " for c in text)
    return [word for word in (token.strip("'") for token in kept.split()) if word]


def align(reference: list[str], hypothesis: list[str]) -> list[tuple[int | None, int | None]]:
    """A cheapest alignment (Levenshtein, all edits cost 1) as pairs of word indices, in order.

    (i, j): reference word i stands against hypothesis word j, equal or substituted;
    (i, None): deleted; (None, j): inserted.
    """
    rows, columns = len(reference) + 1, len(hypothesis) + 1
    cost = [list(range(columns))] + [[i] + [0] * (columns - 1) for i in range(1, rows)]
    for i in range(1, rows):
        above, row, word = cost[i - 1], cost[i], reference[i - 1]
        for j in range(1, columns):
            best = above[j - 1] + (word != hypothesis[j - 1])
            if above[j] < best:
                best = above[j] + 1
            if row[j - 1] < best:
                best = row[j - 1] + 1
            row[j] = best
    pairs: list[tuple[int | None, int | None]] = []
    i, j = rows - 1, columns - 1
    while i or j:
        same = (
            i and j and cost[i][j] == cost[i - 1][j - 1] + (reference[i - 1] != hypothesis[j - 1])
        )
        if same:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and cost[i][j] == cost[i - 1][j] + 1:
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    return pairs[::-1]


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Counts over any number of utterances; add them up, then read the rate."""

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    words: int = 0

    @property
    def wrong(self) -> int:
        """All of them together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """(S + D + I) / reference words; with no reference words, 0.0 or 1.0 if any was heard."""
        return self.wrong / self.words if self.words else float(self.wrong > 0)

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(*map(operator.add, astuple(self), astuple(other)))


def word_errors(reference: str, hypothesis: str) -> WordErrors:
    """Errors of one hypothesis against its reference, both normalised."""
    [errors] = errors_by_part([normalise(reference)], normalise(hypothesis))
    return errors


def errors_by_part(parts: Sequence[Sequence[str]], heard: list[str]) -> list[WordErrors]:
    """Errors of each of the parts, lists of words, that make the reference; aligned as a whole.

    An inserted word counts in the part of the word before it, in the first if there is none.
    """
    said = [word for part in parts for word in part]
    owner = [number for number, part in enumerate(parts) for _ in part]
    found = [WordErrors(words=len(part)) for part in parts]
    at = 0
    for i, j in align(said, heard):
        at = at if i is None else owner[i]
        if i is None:
            found[at] += WordErrors(insertions=1)
        elif j is None:
            found[at] += WordErrors(deletions=1)
        elif said[i] != heard[j]:
            found[at] += WordErrors(substitutions=1)
    return found


def total(errors: Iterable[WordErrors]) -> WordErrors:
    """The corpus count: long utterances weigh more, as the corpus WER wants it."""
    return sum(errors, WordErrors())
