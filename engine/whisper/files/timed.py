"""What the times of a window's words tell of its text: what it lacks, and what it made up. Pure.

Whisper aligns each token with the audio it was written for. What was said and not written is taken
for a part of the tokens next to it, which last too long then; what was written and not said has no
audio left, at the end of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.condensed import CondensedAudio
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.text.words import group_words
from lookhear.engine.whisper.files.attempts import MOST_CHARACTERS
from lookhear.engine.whisper.files.pieces import (
    SENTENCE_PAUSE,
    Cut,
    Piece,
    sentence_begin,
    spoken_span,
)

# Speech from one token to the next, and to the one behind that, which none has: something was left
# out of the text. Seen where nothing was: 1.4 s, 2.3 s.
LEFT_OUT = SAMPLE_RATE * 2
LEFT_OUT_OF_TWO = SAMPLE_RATE * 5 // 2
# It may begin so much behind the begin of that token, which is said before it then.
BEFORE = SAMPLE_RATE
# Seconds that a time may be off which is told to the second.
AHEAD = 1.0
# Of a window of which no text is any good, at least so much is not heard again.
LEAST_GIVEN_UP = SAMPLE_RATE * 2


def until_pause(cut: Cut, heard: Hypothesis, begin: int, audio: CondensedAudio) -> Cut:
    """A window up to the pause behind the last word: it was given up there, and what follows was
    not heard yet. All of it if nobody knows when that was. begin: of the window, in samples."""
    if cut.pieces and not heard.spans:
        return cut
    last = round(heard.spans[-1][1] * SAMPLE_RATE) if heard.spans else begin
    pause = audio.next_pause(max(last, begin + LEAST_GIVEN_UP), SENTENCE_PAUSE)
    if pause is None:
        return cut
    moved = (pause - begin) / SAMPLE_RATE
    kept = [piece._replace(end=min(piece.end, moved)) for piece in cut.pieces]
    return Cut([piece for piece in kept if piece.start < moved], moved, cut.is_whole)


def runs_ahead(cut: Cut, heard: Hypothesis, begin: int, audio: CondensedAudio) -> bool:
    """Whether a window seems to have more segments than stretches of speech before the place from
    which it is to be heard on, and by the times of its tokens, if there are any, the last one is
    spoken well behind that: so it is where short words have pauses between them. begin: of the
    window, in samples."""
    if cut.moved is None or not cut.is_whole or not cut.pieces or not heard.spans:
        return False
    last, moved = cut.pieces[-1], begin + round(cut.moved * SAMPLE_RATE)
    is_ahead = heard.spans[last.last - 1][0] - begin / SAMPLE_RATE - last.end >= AHEAD
    return is_ahead and len(cut.pieces) > audio.stretches(begin, moved, 1)


def timed_by_words(
    pieces: Sequence[Piece], heard: Hypothesis, begin: int, longest: float
) -> list[Piece]:
    """Segments, with the times of their words. begin: of the window, in samples. longest: of its
    seconds."""
    offset, timed = begin / SAMPLE_RATE, list[Piece]()
    for piece in pieces:
        start, end = (
            min(time - offset, longest) for time in spoken_span(heard, piece.first, piece.last)
        )
        timed.append(piece._replace(start=start, end=max(start, end)))
    return timed


class Timed:
    """A window's text, whose tokens have times. cut: its segments. begin: of the window, in samples
    of `audio`, of which it is known when somebody speaks. decode: UTF-8 of tokens."""

    def __init__(
        self,
        heard: Hypothesis,
        cut: Cut,
        begin: int,
        audio: CondensedAudio,
        decode: Callable[[Sequence[int]], bytes],
    ) -> None:
        assert heard.spans
        self._heard, self._cut, self._begin = heard, cut, begin
        self._audio, self._decode = audio, decode

    def num_said(self, num_samples: int) -> int:
        """Leading segments that were said. Those behind them are more than anybody says in what is
        spoken from the last word in front of them to the end of the window of so many samples."""
        pieces = self._cut.pieces
        count = len(pieces)
        while count > 1:
            left = self._spoken(self._begun(pieces[count - 2].last - 1), num_samples / SAMPLE_RATE)
            if len(pieces[count - 1].text.strip()) * SAMPLE_RATE <= MOST_CHARACTERS * left:
                break
            count -= 1
        return count

    def left_out(self, num_samples: int) -> float | None:
        """Where something was said that the text lacks, or the sentence begins in which it was:
        seconds of the window of so many samples; None if nothing is. Of a sentence that is said
        again and again Whisper leaves one out at times."""
        tokens = [i for piece in self._cut.pieces for i in range(piece.first, piece.last)]
        done = num_samples / SAMPLE_RATE if self._cut.moved is None else self._cut.moved
        begun = [*(self._begun(i) for i in tokens), done]
        spoken = [self._spoken(a, b) for a, b in pairwise(begun)]
        for i, (one, other) in enumerate(pairwise([*spoken, 0])):
            if max(one, other) >= LEFT_OUT or one + other >= LEFT_OUT_OF_TWO:
                spelt = [self._decode([self._heard.tokens[i]]) for i in tokens]
                place = i + 1 if one < LEFT_OUT <= other else i
                return begun[sentence_begin(spelt, place)]  # what is missing may begin alike
        return None

    def until(self, at: float, language: str | None) -> Cut | None:
        """The window up to the pause in front of a place in it, in seconds, to be heard on from
        there; None if nothing is told in front of it. language: ISO code (some have no spaces)."""
        begin, cut = self._begin, self._cut
        latest = begin + round(at * SAMPLE_RATE) + BEFORE
        pause = self._audio.last_pause(begin + SAMPLE_RATE // 2, latest)
        if pause is None:
            return None
        moved = (pause - begin) / SAMPLE_RATE
        kept = [part for piece in cut.pieces for part in self._before(piece, moved, language)]
        return Cut(kept, moved, cut.is_whole) if kept else None

    def _before(self, piece: Piece, until: float, language: str | None) -> list[Piece]:
        """The words of a segment that begin before a time, in seconds of the window."""
        tokens = self._heard.tokens
        words = group_words(tokens[piece.first : piece.last], self._decode, language)
        begun = (piece.first + first for _, first, _ in words)
        last = next((i for i in begun if self._begun(i) >= until), piece.last)
        text = self._decode(tokens[piece.first : last]).decode("utf-8", "replace")
        end = min(piece.end, until)
        return [Piece(piece.first, last, text, min(piece.start, end), end)] if text.strip() else []

    def _begun(self, token: int) -> float:
        """Seconds of the window."""
        return self._heard.spans[token][0] - self._begin / SAMPLE_RATE

    def _spoken(self, start: float, end: float) -> int:
        """How many samples of speech there are between two times in seconds of the window."""
        first, last = (self._begin + round(time * SAMPLE_RATE) for time in (start, end))
        return self._audio.spoken(first, last)
