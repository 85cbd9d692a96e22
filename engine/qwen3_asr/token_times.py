"""When each token of a text was said, from when its words were. Pure functions.

tokens           | It|'s| well|-|known|.|
words            [Its] [  wellknown  ]          as the aligner reads them
times of those   a---b c-------------d          a token's part of a word: by its characters
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from lookhear.engine.qwen3_asr.alignment import AlignedWord, word_spans
from lookhear.engine.speech.text.words import whole_characters

Span = tuple[float, float]  # seconds


def text_of(tokens: Sequence[int], decode_bytes: Callable[[Sequence[int]], bytes]) -> str:
    """The text that `token_times` speaks of."""
    return "".join(text for text, _, _ in whole_characters(tokens, decode_bytes))


def token_times(
    tokens: Sequence[int],
    decode_bytes: Callable[[Sequence[int]], bytes],
    words: Sequence[AlignedWord],
) -> list[Span]:
    """(start, end) of each token, in seconds. words: `aligned_words` of its text, one at least.

    Times never go back. A sign belongs to the moment at which the word before it ended; behind a
    space, to the moment at which the next begins.
    """
    pieces = whole_characters(tokens, decode_bytes)
    whole = "".join(text for text, _, _ in pieces)
    spans = word_spans(whole)
    assert len(spans) == len(words) >= 1, (len(spans), len(words))
    firsts, ends = [first for first, _ in spans], [end for _, end in spans]

    def at(place: int, word: int) -> float:
        """When the word was said as far as that character."""
        (first, end), said = spans[word], words[word]
        if place >= end:
            return said.end
        return said.start + max(0, place - first) / (end - first) * (said.end - said.start)

    times: list[Span] = []
    begin = 0
    for text, first, last in pieces:
        end = begin + len(text)
        # Words that the piece has something of: from the first that ends behind its beginning.
        low, high = bisect_right(ends, begin), bisect_left(firsts, end)
        if low < high:
            time = at(begin, low), at(end, high - 1)
        elif high == 0 or (high < len(words) and _has_space(whole[ends[high - 1] : begin + 1])):
            time = words[high].start, words[high].start
        else:
            time = words[high - 1].end, words[high - 1].end
        times += [time] * (last - first)
        begin = end
    return times


def _has_space(text: str) -> bool:
    return any(char.isspace() for char in text)
