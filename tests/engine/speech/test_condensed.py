"""A recording without its long pauses: nothing spoken is lost, and all times lead back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.condensed import PADDING, PAUSE, CondensedAudio

LENGTH = 40 * SAMPLE_RATE
RECORDING = np.arange(LENGTH, dtype=np.float32)


@st.composite
def spans(draw: st.DrawFn) -> list[tuple[int, int]]:
    marks = sorted(draw(st.sets(st.integers(0, LENGTH), max_size=16)))
    return list(zip(marks[::2], marks[1::2], strict=False))


@settings(max_examples=60, deadline=None)
@given(speech=spans())
def test_speech_is_kept_whole_with_padding_and_pauses_are_bounded(
    speech: list[tuple[int, int]],
) -> None:
    audio = CondensedAudio(RECORDING, speech)
    assert np.all(np.diff(audio.samples) > 0), "in the order of the recording, nothing twice"
    for (start, end), (first, last) in zip(speech, audio.speech, strict=True):
        assert np.array_equal(audio.samples[first:last], RECORDING[start:end])
        assert first >= min(start, PADDING) and len(audio.samples) - last >= min(
            LENGTH - end, PADDING
        )
    gaps = [b - a for (_, a), (b, _) in zip(audio.speech, audio.speech[1:], strict=False)]
    assert all(gap <= PAUSE for gap in gaps)


@settings(max_examples=60, deadline=None)
@given(speech=spans(), data=st.data())
def test_times_lead_back_to_the_recording(
    speech: list[tuple[int, int]], data: st.DataObject
) -> None:
    audio = CondensedAudio(RECORDING, speech)
    for (start, end), (first, last) in zip(speech, audio.speech, strict=True):
        assert abs(audio.start_time(first / SAMPLE_RATE) - start / SAMPLE_RATE) < 1e-6
        assert abs(audio.end_time(last / SAMPLE_RATE) - end / SAMPLE_RATE) < 1e-6
    if len(audio.samples):
        a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(audio.samples))] * 2)))
        start_s, end_s = audio.start_time(a / SAMPLE_RATE), audio.end_time(b / SAMPLE_RATE)
        assert 0 <= start_s <= LENGTH / SAMPLE_RATE and 0 <= end_s <= LENGTH / SAMPLE_RATE
        assert a == b or start_s <= end_s


@settings(max_examples=60, deadline=None)
@given(speech=spans(), data=st.data())
def test_spoken_counts_samples_of_speech(
    speech: list[tuple[int, int]], data: st.DataObject
) -> None:
    audio = CondensedAudio(RECORDING, speech)
    is_speech = np.zeros(len(audio.samples), bool)
    for first, last in audio.speech:
        is_speech[first:last] = True
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(audio.samples))] * 2)))
    assert audio.spoken(a, b) == is_speech[a:b].sum()
    begun = sum(is_speech[max(first, a) : min(last, b)].any() for first, last in audio.speech)
    assert audio.stretches(a, b, 0) == begun
    least = data.draw(st.integers(1, LENGTH))
    spoken = np.flatnonzero(is_speech[a:b])
    assert audio.stretches(a, b, least) == (np.diff(spoken) > least).sum() + bool(len(spoken))
    following = audio.next_pause(a, 1)
    if following is not None:
        assert following >= a and not is_speech[following : following + 1].any()
        begin = audio.next_begin(a, 1)
        assert begin is not None and following <= begin
        assert not is_speech[following:begin].any() and is_speech[begin:][: PADDING + 1].any()
    pause = audio.last_pause(a, b)
    if pause is not None:
        assert a <= pause <= b and not is_speech[pause : pause + 1].any()
    middles = [(x[1] + y[0]) // 2 for x, y in pairwise(audio.speech)]
    between = [middle for middle in middles if a <= middle < b]
    near = audio.pause_near((a + b) // 2, a, b)
    assert (near is None) == (not between)
    assert near is None or abs(near - (a + b) // 2) == min(abs(m - (a + b) // 2) for m in between)


def test_where_nobody_listened_for_voices_all_is_kept() -> None:
    audio = CondensedAudio(RECORDING, None)
    assert audio.samples is RECORDING and audio.speech == [(0, LENGTH)]
    assert audio.start_time(12.5) == audio.end_time(12.5) == 12.5


def test_where_nobody_speaks_nothing_is_kept() -> None:
    audio = CondensedAudio(RECORDING, [])
    assert len(audio.samples) == 0 and audio.speech == []


def test_seams_are_where_pauses_were_left_out() -> None:
    speech = [(a * SAMPLE_RATE, b * SAMPLE_RATE) for a, b in ((1, 3), (4, 5), (20, 22), (50, 51))]
    audio = CondensedAudio(np.zeros(60 * SAMPLE_RATE, np.float32), speech)
    assert [
        audio.start_time(seam / SAMPLE_RATE) for seam in audio.seams(0, len(audio.samples))
    ] == [pytest.approx(start - PADDING / SAMPLE_RATE) for start in (20, 50)]
    [first, second] = audio.seams(0, len(audio.samples))
    assert audio.seams(first, second) == [] and audio.seams(first - 1, second) == [first]
    assert (
        CondensedAudio(np.zeros(60 * SAMPLE_RATE, np.float32), None).seams(0, 60 * SAMPLE_RATE)
        == []
    )


def test_words_are_together_that_have_no_pause_between_them_that_was_left_out() -> None:
    speech = [(a * SAMPLE_RATE, b * SAMPLE_RATE) for a, b in ((1, 3), (4, 5), (20, 22), (50, 51))]
    audio = CondensedAudio(np.zeros(60 * SAMPLE_RATE, np.float32), speech)
    [one, two] = (seam / SAMPLE_RATE for seam in audio.seams(0, len(audio.samples)))
    end = len(audio.samples) / SAMPLE_RATE
    # A word's time may begin where the one before it ended, and end where the next one begins.
    words = [(0.4, 2.0), (2.0, 3.6), (3.6, one + 0.1), (one + 0.1, one + 2.2), (one + 2.2, end)]
    assert audio.unbroken(words) == [(0, 0.0, one), (3, one, two), (4, two, end)]
    assert audio.unbroken(words[3:]) == [(0, one, two), (1, two, end)]
    assert audio.unbroken([(0.4, 2.0), (7.0, end)]) == [(0, 0.0, one), (1, two, end)]
    assert audio.unbroken([(one, one)]) == [(0, one, two)]
    # That of the last one may run into what is said next, from where it was said.
    assert audio.unbroken([(0.4, 4.0), (4.0, 7.0)]) == [(0, 0.0, one)]
    assert audio.unbroken([(0.4, 4.2), (4.2, 7.0)]) == [(0, 0.0, one), (1, one, two)]
    assert audio.unbroken([(4.0, 7.0)]) == [(0, one, two)]
    whole = CondensedAudio(np.zeros(60 * SAMPLE_RATE, np.float32), None)
    assert whole.unbroken(words) == [(0, 0.0, 60.0)]
