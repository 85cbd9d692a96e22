"""Words keep to where somebody speaks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE, Word
from lookhear.engine.speech.text.word_times import LATE, loud_stretches, voiced_span, voiced_words

marks = st.lists(st.integers(0, 10 * SAMPLE_RATE), max_size=14, unique=True).map(sorted)


def word(start: float, end: float) -> Word:
    return Word("a", start, end, 0.5)


def seconds(start: float, end: float) -> tuple[int, int]:
    return round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)


@given(words=marks, speech=marks, ends=st.booleans())
def test_words_stay_in_order_and_end_up_within_one_stretch(
    words: list[int], speech: list[int], ends: bool
) -> None:
    spans = list(zip(speech[::2], speech[1::2], strict=False))
    before = [
        word(a / SAMPLE_RATE, b / SAMPLE_RATE) for a, b in zip(words, words[1:], strict=False)
    ]
    after = voiced_words(before, spans, ends=ends)
    assert [w.word for w in after] == [w.word for w in before]
    for old, new in zip(before, after, strict=True):
        if new == old:
            continue
        assert any(a / SAMPLE_RATE <= new.start < new.end <= b / SAMPLE_RATE for a, b in spans)
        assert new.end <= old.end and new.start >= old.start - LATE
    assert all(a.end <= b.start for a, b in zip(after, after[1:], strict=False))


def test_a_word_before_a_pause_ends_with_the_voice_and_the_next_begins_with_it() -> None:
    speech = [seconds(1.0, 3.1), seconds(3.8, 6.0)]
    words = [word(0.0, 1.5), word(2.5, 3.9), word(3.9, 4.5)]
    assert voiced_words(words, speech) == [word(1.0, 1.5), word(2.5, 3.1), word(3.8, 4.5)]


def test_a_segments_first_word_begins_with_the_voice_unless_somebody_spoke_since() -> None:
    speech = [seconds(1.0, 4.0)]
    assert voiced_words([word(1.2, 2.0)], speech) == [word(1.0, 2.0)]
    assert voiced_words([word(1.2, 2.0)], speech, until=0.9) == [word(1.0, 2.0)]
    assert voiced_words([word(1.2, 2.0)], speech, until=1.2) == [word(1.2, 2.0)]


def test_a_segments_last_word_is_in_front_of_the_pause_where_it_begins() -> None:
    speech = [seconds(1.0, 3.1), seconds(3.8, 6.0)]
    first, last = word(1.0, 2.5), word(2.5, 5.5)
    assert voiced_words([first, last], speech, ends=True) == [first, word(2.5, 3.1)]
    assert voiced_words([first, last], speech) == [first, word(3.8, 5.5)]
    little = word(2.9, 5.5)
    assert voiced_words([first, little], speech, ends=True) == [first, word(3.8, 5.5)]
    assert voiced_words([last], speech, ends=True) == [word(3.8, 5.5)], "of several"
    near = [seconds(1.0, 3.1), seconds(3.3, 6.0)]
    assert voiced_words([first, last], near, ends=True) == [first, word(3.3, 5.5)]


def test_a_segment_is_trimmed_at_its_ends_only() -> None:
    speech = [seconds(1.0, 3.0), seconds(4.0, 6.0)]
    assert voiced_span(0.0, 9.0, speech) == (1.0, 6.0)
    assert voiced_span(1.5, 3.5, speech) == (1.5, 3.0)
    assert voiced_span(7.0, 8.0, speech) == (7.0, 8.0)


def test_loud_stretches_are_where_it_is_not_quiet() -> None:
    rng = np.random.default_rng(0)
    samples = 1e-4 * rng.normal(size=6 * SAMPLE_RATE).astype(np.float32)
    for start, end in (seconds(1.0, 2.5), seconds(4.0, 5.0)):
        samples[start:end] += rng.normal(size=end - start).astype(np.float32) / 10
    found = loud_stretches(samples)
    assert found == [seconds(1.0, 2.5), seconds(4.0, 5.0)]
    assert loud_stretches(samples[:0]) == [] and loud_stretches(np.zeros(800, np.float32)) == []
