"""What the times of words tell of a window's text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.condensed import CondensedAudio
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.whisper.files.pieces import Cut, Piece
from lookhear.engine.whisper.files.timed import Timed, runs_ahead
from tests.engine.speech.scripted import SpeltTokens

WORDS = SpeltTokens([" The", " line", " is", " busy", ".", " Ok"])
SENTENCE = [0, 1, 2, 3, 4]  # 17 letters


def timed(
    speech: list[tuple[float, float]],
    segments: list[tuple[list[int], list[float]]],
    begin: float = 0.0,
    moved: float | None = None,
) -> Timed:
    """The text of a window. speech: seconds. segments: tokens, and when each begins, in seconds of
    the window."""
    audio = CondensedAudio(
        np.zeros(40 * SAMPLE_RATE, np.float32),
        [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in speech],
    )
    tokens = [token for said, _ in segments for token in said]
    begun = [begin + time for _, times in segments for time in times]
    spans = tuple(zip(begun, [*begun[1:], begun[-1] + 0.1], strict=True))
    pieces, first = list[Piece](), 0
    for said, times in segments:
        last = first + len(said)
        text = WORDS.decode_bytes(said).decode()
        pieces.append(Piece(first, last, text, times[0], times[-1] + 0.2))
        first = last
    heard = Hypothesis(tuple(tokens), (-0.1,) * len(tokens), spans)
    cut = Cut(pieces, moved, True)
    return Timed(heard, cut, round(begin * SAMPLE_RATE), audio, WORDS.decode_bytes)


def evenly(start: float, end: float) -> list[float]:
    """When the tokens of a sentence begin."""
    step = (end - start) / len(SENTENCE)
    return [start + i * step for i in range(len(SENTENCE))]


@pytest.mark.parametrize(
    ("behind", "speech_ends", "num_said"),
    [
        (evenly(2.0, 3.5), 3.5, 2),  # said again
        ([2.0] * 5, 3.5, 2),  # and only its times are wrong
        ([1.9] * 5, 1.6, 1),  # nobody speaks any more
        ([1.5] * 5, 1.6, 1),  # or hardly
    ],
)
def test_a_segment_that_nobody_had_the_time_to_say_is_made_up(
    behind: list[float], speech_ends: float, num_said: int
) -> None:
    segments = [(SENTENCE, evenly(0.0, 1.6)), (SENTENCE, behind)]
    # Where the window begins does not matter; nor do kept pauses.
    assert timed([(0.0, speech_ends)], segments).num_said(4 * SAMPLE_RATE) == num_said
    later = [(0.0, 5.0), (10.0, 10.0 + speech_ends)]
    begin = 5.4 + 0.4  # their padding
    assert timed(later, segments, begin).num_said(4 * SAMPLE_RATE) == num_said


def test_of_several_made_up_segments_none_is_said_and_the_first_always_is() -> None:
    silent = (SENTENCE, [1.9] * 5)
    said = timed([(0.0, 1.6)], [(SENTENCE, evenly(0.0, 1.6)), silent, silent])
    assert said.num_said(2 * SAMPLE_RATE) == 1
    # What nothing stands in front of is judged by the whole window.
    assert timed([(0.0, 0.2)], [silent]).num_said(2 * SAMPLE_RATE) == 1


def test_a_short_word_at_the_end_is_said_though_its_time_is_wrong() -> None:
    """It seems to begin when nobody speaks any more; the word in front of it lasts too long."""
    segments = [(SENTENCE, evenly(0.0, 1.6)), ([5], [2.1])]
    assert timed([(0.0, 1.8)], segments).num_said(3 * SAMPLE_RATE) == 2


@pytest.mark.parametrize(
    ("begun", "moved", "expected"),
    [
        (3.5, 1.5, True),
        (2.4, 1.5, False),  # times are told to the second
        (None, 1.5, False),  # nobody knows
        (3.5, None, False),  # nothing is to be heard on
        (3.5, 3.4, False),  # there is a stretch for each segment
    ],
)
def test_times_run_ahead_of_words(begun: float | None, moved: float | None, expected: bool) -> None:
    speech = [(round(a * SAMPLE_RATE), round((a + 0.4) * SAMPLE_RATE)) for a in (0, 2, 3.5)]
    audio = CondensedAudio(np.zeros(4 * SAMPLE_RATE, np.float32), speech)
    pieces = [Piece(0, 1, " Ok", 0.0, 1.0), Piece(1, 2, " Ok", 1.0, 1.5)]
    spans = () if begun is None else ((0.0, 0.5), (begun, 4.0))
    heard = Hypothesis((5, 5), (-0.1,) * 2, spans)
    assert runs_ahead(Cut(pieces, moved, True), heard, 0, audio) is expected
    assert not runs_ahead(Cut(pieces, moved, False), heard, 0, audio), "somebody speaks on"


@pytest.mark.parametrize(
    ("begun", "at"),
    [
        (evenly(0.2, 1.8), None),
        ([0.2, 0.5, 1.9, 2.2, 2.5], None),  # 1.4 s are seen
        ([0.2, 0.5, 2.6, 2.9, 3.2], 0.2),  # from where the sentence begins
        ([0.2, 1.4, 2.5, 2.8, 3.1], None),
        ([0.2, 1.5, 2.8, 3.1, 3.3], 0.2),  # a token lasts too long together with the next
        ([0.2, 1.5, 1.8, 3.1, 3.3], None),  # not with another one
        ([0.2, 0.5, 0.8, 1.1, 3.3], 1.1),  # of the last two of a sentence, by themselves
    ],
)
def test_what_a_text_lacks_is_a_part_of_the_tokens_next_to_it(
    begun: list[float], at: float | None
) -> None:
    num_samples = round((begun[-1] + 0.4) * SAMPLE_RATE)
    assert timed([(0.0, 30.0)], [(SENTENCE, begun)]).left_out(num_samples) == at


@pytest.mark.parametrize(
    ("moved", "speech_ends", "at"),
    [
        (None, 8.0, 1.3),  # all is done with, and somebody speaks on
        (None, 3.0, None),
        (5.0, 8.0, 1.3),
        (3.0, 8.0, None),  # that is heard next
    ],
)
def test_a_text_lacks_what_is_said_between_its_end_and_where_one_goes_on(
    moved: float | None, speech_ends: float, at: float | None
) -> None:
    segments = [(SENTENCE, evenly(0.1, 1.6))]
    found = timed([(0.0, speech_ends)], segments, moved=moved).left_out(9 * SAMPLE_RATE)
    assert found == (None if at is None else pytest.approx(at))


@given(st.lists(st.floats(0.0, 20.0), min_size=10, max_size=10).map(sorted))
def test_where_nobody_speaks_nothing_is_left_out(begun: list[float]) -> None:
    segments = [(SENTENCE, begun[:5]), (SENTENCE, begun[5:])]
    assert timed([(25.0, 26.0)], segments).left_out(20 * SAMPLE_RATE) is None
