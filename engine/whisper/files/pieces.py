"""The segments of a window's text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.text.sentences import ends_text
from lookhear.engine.speech.text.word_times import boundary

SecondsOf = Callable[[int], float | None]  # seconds of a timestamp token, None for any other

SENTENCE_PAUSE = SAMPLE_RATE // 2
# Seconds that the last token of a window lasts at most.
LONGEST_TOKEN = 1.0


class Piece(NamedTuple):
    """A segment of a window: heard.tokens[first:last], and its seconds in the window."""

    first: int
    last: int
    text: str
    start: float
    end: float


class Cut(NamedTuple):
    """A window's text in segments. moved: seconds of the window that are done with; None: all.
    is_whole: nobody speaks where it ends."""

    pieces: list[Piece]
    moved: float | None
    is_whole: bool


def is_rough(tokens: Sequence[int], seconds: SecondsOf) -> bool:
    """Whether the times between the segments of a text are told to half a second. So they are
    where Whisper does not listen for them: they may be off by two seconds."""
    stamps = [time for token in tokens if (time := seconds(token)) is not None]
    return len(stamps) > 3 and all(round(50 * time) % 25 == 0 for time in stamps[1:-1])


def sentence_begin(spelt: Sequence[bytes], index: int) -> int:
    """Where the sentence begins that a token is in; of the last two of one, their own places.
    spelt: UTF-8 of each token."""
    if any(map(ends_text, spelt[index : index + 2])):
        return index
    while index and not ends_text(spelt[index - 1]):
        index -= 1
    return index


def spoken_span(heard: Hypothesis, first: int, last: int, low: float = 0.0) -> tuple[float, float]:
    """When tokens[first:last] were said, by their times, but not before `low`."""
    (start, _), (begun, end) = heard.spans[first], heard.spans[last - 1]
    # By its time the last one may fill a window in which nobody speaks any more.
    return max(start, low), max(low, min(end, max(begun, low) + LONGEST_TOKEN))


def disjoint(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces in order, each ending where the next one begins if not before. Some have times of the
    model, some of their words, which may overlap."""
    found = list[Piece]()
    for piece in pieces:
        if found and piece.start < found[-1].end:
            before = found[-1]
            at = boundary((before.start, before.end), (piece.start, piece.end))
            found[-1] = before._replace(end=at)
            piece = piece._replace(start=at, end=max(at, piece.end))
        found.append(piece)
    return found


def split_segments(
    tokens: tuple[int, ...], seconds: SecondsOf, *, keep_open: bool = False
) -> tuple[list[tuple[int, int, float, float]], float | None]:
    """Cut tokens at timestamp tokens: ([(first, last, start_s, end_s)], where to go on, in s).

    Timestamps come in pairs: <|0.00|> text <|2.10|><|2.60|> text <|4.00|>. The text after the last
    complete pair is not taken when an earlier one is complete (the next window hears it whole),
    unless keep_open: there is no next window. None: nothing says where to go on, so the whole
    window is done with.
    """
    stamps = [i for i, token in enumerate(tokens) if seconds(token) is not None]
    if not stamps:
        return ([(0, len(tokens), 0.0, float("inf"))] if tokens else []), None
    pieces = []
    for a, b in pairwise(stamps):
        if b > a + 1:
            pieces.append((a + 1, b, seconds(tokens[a]) or 0.0, seconds(tokens[b]) or 0.0))
    if stamps[0] > 0:
        pieces.insert(0, (0, stamps[0], 0.0, seconds(tokens[stamps[0]]) or 0.0))
    last = stamps[-1]
    is_open = last < len(tokens) - 1  # text after the last timestamp: cut off by the window's end
    if is_open and (keep_open or not pieces):
        rest = (last + 1, len(tokens), seconds(tokens[last]) or 0.0, float("inf"))
        return [*pieces, rest], None
    if is_open:
        return pieces, seconds(tokens[last])
    # Two timestamps at the end: more speech follows the last segment. One: the rest is silence.
    ends_in_pair = len(stamps) >= 2 and stamps[-2] == last - 1
    return pieces, seconds(tokens[last]) if ends_in_pair else None
