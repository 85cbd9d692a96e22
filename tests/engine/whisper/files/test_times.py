"""When segments were said: in order, one after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    FileProgress,
    FileTranscribed,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.engine.whisper.files.pieces import Piece, disjoint
from tests.engine.whisper.files.test_file import STAMP, Stamped, answer_to, at, heard_by

Spans = list[tuple[float, float]]
Seconds = tuple[float, float]


def recording(spoken: Spans, length: float) -> TranscribeFile:
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spoken]
    samples = np.zeros(round(length * SAMPLE_RATE), np.float32)
    wanted = TranscriptionSettings(model="m", words=True)
    return TranscribeFile("f", wanted, samples, True, speech=speech)


def heard(spoken: Spans, length: float, said: tuple[int, ...], times: Spans) -> FileTranscribed:
    """What is told of one window of these tokens, each said at its time."""
    job = heard_by(Stamped([" a", " b", " c"]), recording(spoken, length))
    answer = answer_to(job.make_request(), said, -0.1)
    *_, done = job.absorb(replace(answer, token_times=tuple(times)))
    assert isinstance(done, FileTranscribed)
    return done


def test_a_word_behind_a_pause_that_was_left_out_ends_behind_it() -> None:
    """By its time it begins long before the pause."""
    done = heard(
        [(1.0, 1.6), (9.0, 9.9)],
        11,
        (at(0), 0, 1, at(2.7)),
        [(0, 0), (0.0, 0.8), (0.8, 2.6), (2.6, 2.6)],
    )
    found = [(round(s.start, 1), round(s.end, 1)) for s in done.segments]
    assert found == [(1.0, 1.4), (9.0, 9.6)]


def test_a_word_that_runs_into_what_is_said_next_is_its_own_segments() -> None:
    """It has enough of the speech in front of the pause that was left out, if less than behind."""
    done = heard(
        [(1.0, 2.0), (9.0, 9.9)],
        11,
        (at(0), 0, 1, at(2.0), at(2.0), 2, at(3.2)),
        [(0, 0), (0.4, 1.0), (1.0, 2.9), (2.9, 2.9), (2.9, 2.9), (2.9, 3.1), (3.1, 3.1)],
    )
    segments = [(round(s.start, 1), round(s.end, 1), s.text) for s in done.segments]
    assert segments[0] == (1.0, 2.0, " a b")
    words = [(word.word, round(word.start, 1), round(word.end, 1)) for word in done.words]
    assert words[:2] == [("a", 1.0, 1.6), ("b", 1.6, 2.0)]


def test_the_only_word_of_a_segment_is_behind_the_pause() -> None:
    """By its time it begins long before."""
    done = heard(
        [(1.0, 2.0), (9.0, 9.9)],
        11,
        (at(0), 0, at(0.8), at(1.0), 1, at(2.8)),
        [(0, 0), (0.4, 0.7), (0.7, 0.7), (0.7, 0.7), (1.0, 2.9), (2.9, 2.9)],
    )
    segments = [(round(s.start, 1), round(s.end, 1), s.text) for s in done.segments]
    assert segments == [(1.0, 1.4, " a"), (9.0, 9.6, " b")]
    assert [round(word.start, 1) for word in done.words] == [1.0, 9.0]


def test_a_segment_by_the_models_times_ends_where_one_by_its_words_begins() -> None:
    done = heard(
        [(0.2, 2.4), (2.5, 3.5), (9.0, 9.9)],
        11,
        (at(0), 0, at(2.2), at(2.2), 1, 2, at(5.0)),
        [(0, 0), (0.2, 1.9), (1.9, 1.9), (1.9, 1.9), (1.9, 3.5), (3.6, 5.0), (5.0, 5.0)],
    )
    found = [(round(s.start, 1), round(s.end, 1)) for s in done.segments]
    assert found == [(0.2, 1.9), (1.9, 2.9), (9.0, 9.6)]


def test_the_first_word_of_a_segment_begins_behind_the_last_one_of_another() -> None:
    done = heard(
        [(1.0, 4.0)],
        5,
        (at(0.4), 0, at(0.6), at(0.6), 1, 2, at(3.6)),
        [(0, 0), (0.3, 0.62), (0.62, 0.62), (0.62, 0.62), (0.62, 1.5), (1.5, 3.4), (3.6, 3.6)],
    )
    found = [(word.word, round(word.start, 2), round(word.end, 2)) for word in done.words]
    assert found == [("a", 1.0, 1.22), ("b", 1.22, 2.1), ("c", 2.1, 4.0)]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0.0, 2.0), (2.0, 3.0), [(0.0, 2.0), (2.0, 3.0)]),
        ((0.0, 2.2), (1.9, 3.0), [(0.0, 1.9), (1.9, 3.0)]),
        ((0.0, 9.0), (1.0, 2.0), [(0.0, 1.0), (1.0, 2.0)]),  # a wrong end moves nothing else
        ((1.0, 2.0), (0.5, 4.0), [(1.0, 2.0), (2.0, 4.0)]),
        ((1.0, 9.0), (1.0, 4.0), [(1.0, 4.0), (4.0, 4.0)]),
        ((5.0, 6.0), (1.0, 2.0), [(5.0, 5.0), (5.0, 5.0)]),
    ],
)
def test_of_two_that_overlap_one_ends_where_the_other_begins(
    first: Seconds, second: Seconds, expected: list[Seconds]
) -> None:
    found = disjoint([Piece(0, 1, "a", *first), Piece(1, 2, "b", *second)])
    assert [(piece.start, piece.end) for piece in found] == expected


@st.composite
def spoken_spans(draw: st.DrawFn) -> Spans:
    """Stretches of speech of a minute or two, with short pauses and such as are left out."""
    spans, end = Spans(), 0.0
    for gap, length in draw(
        st.lists(
            st.tuples(st.sampled_from([0.3, 0.9, 2.1, 3.0, 8.0]), st.integers(2, 120)),
            min_size=1,
            max_size=12,
        )
    ):
        spans.append((end + gap, end + gap + length / 10))
        end = spans[-1][1]
    return spans


@settings(max_examples=150, deadline=None)
@given(spoken=spoken_spans(), data=st.data())
def test_whatever_the_model_says_segments_and_words_follow_one_another(
    spoken: Spans, data: st.DataObject
) -> None:
    message = replace(recording(spoken, spoken[-1][1] + 1), tells_progress=True)
    job = heard_by(Stamped([" a", " b", " c."]), message)
    told: list[Event] = []
    while job.wants_request():
        request = job.make_request()
        marks = sorted(data.draw(st.lists(st.integers(0, 300), min_size=1, max_size=12)))
        said, times, begun = [STAMP + marks[0]], [(marks[0] / 10, marks[0] / 10)], marks[0] / 10
        for mark in marks[1:]:
            for token in data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3)):
                over = begun + data.draw(st.sampled_from([0.0, 0.1, 0.4, 1.5, 4.0]))
                said.append(token)
                times.append((min(begun, 30.0), min(over, 30.0)))
                begun = over
            end = min(begun, 30.0)
            said += [STAMP + mark] * 2
            times += [(end, end)] * 2
        answer = answer_to(request, tuple(said), -0.1)
        told += job.absorb(replace(answer, token_times=tuple(times)))
    *progress, done = told
    assert isinstance(done, FileTranscribed)
    segments = [
        segment
        for event in progress
        if isinstance(event, FileProgress)
        for segment in event.segments
    ]
    assert segments == done.segments, "what was told stays"
    for cues in (
        [(segment.start, segment.end) for segment in done.segments],
        [(word.start, word.end) for word in done.words],
    ):
        assert all(start <= end for start, end in cues)
        assert all(a[1] <= b[0] for a, b in zip(cues, cues[1:], strict=False))
