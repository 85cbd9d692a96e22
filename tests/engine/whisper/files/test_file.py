"""Cutting a window's tokens at timestamps, and getting through a recording."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    FileProgress,
    FileTranscribed,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.engine.whisper.files.attempts import TEMPERATURES
from lookhear.engine.whisper.files.file import AUDIO_TOKEN, WhisperFile
from lookhear.engine.whisper.files.pieces import is_rough, sentence_begin, split_segments
from lookhear.engine.whisper.prompt import WhisperPrompter
from lookhear.engine.whisper.recognizer import WindowRule
from lookhear.engine.whisper.request import WhisperRequest
from tests.engine.speech.scripted import SpeltTokens

STAMP = 1000  # first timestamp token; each is 0.1 s
WINDOW = WindowRule(30 * SAMPLE_RATE, 30 * SAMPLE_RATE, 30 * SAMPLE_RATE, 3200)
QUICK = WindowRule(SAMPLE_RATE // 2, SAMPLE_RATE, 15 * SAMPLE_RATE, 3200)


def seconds(token: int) -> float | None:
    return (token - STAMP) / 10 if token >= STAMP else None


def at(time: float) -> int:
    return STAMP + round(time * 10)


def test_complete_pairs_are_segments_and_the_open_rest_is_heard_again() -> None:
    tokens = (at(0), 1, 2, at(2), at(2.5), 3, at(4), at(4.5), 4)
    pieces, moved = split_segments(tokens, seconds)
    assert pieces == [(1, 3, 0.0, 2.0), (5, 6, 2.5, 4.0)]
    assert moved == 4.5


def test_the_open_rest_of_the_last_window_is_kept() -> None:
    pieces, moved = split_segments((at(0), 1, at(2), at(2.5), 3), seconds, keep_open=True)
    assert [(a, b) for a, b, _, _ in pieces] == [(1, 2), (4, 5)] and moved is None


def test_one_timestamp_at_the_end_means_that_the_rest_is_silence() -> None:
    assert split_segments((at(0), 1, at(2)), seconds) == ([(1, 2, 0.0, 2.0)], None)


def test_a_pair_at_the_end_means_that_more_follows() -> None:
    pieces, moved = split_segments((at(0), 1, at(2), at(2)), seconds)
    assert pieces == [(1, 2, 0.0, 2.0)] and moved == 2.0


def test_text_without_timestamps_and_nothing_at_all() -> None:
    assert split_segments((1, 2), seconds)[0][0][:2] == (0, 2)
    assert split_segments((), seconds) == ([], None)


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(STAMP, STAMP + 300)), max_size=30))
def test_segments_hold_text_only_never_overlap_and_keep_the_order(tokens: list[int]) -> None:
    pieces, _ = split_segments(tuple(tokens), seconds, keep_open=True)
    spans = [(a, b) for a, b, _, _ in pieces]
    assert spans == sorted(spans)
    taken = [i for a, b in spans for i in range(a, b)]
    assert len(taken) == len(set(taken))
    assert all(seconds(tokens[i]) is None for i in taken)
    # Nothing said is dropped when there is no next window to hear it again.
    assert len(taken) == sum(seconds(t) is None for t in tokens)


@pytest.mark.parametrize(
    ("index", "begin"), [(0, 0), (1, 1), (2, 2), (3, 3), (5, 3), (6, 6), (7, 7)]
)
def test_a_sentence_begins_behind_the_sign_that_ends_one(index: int, begin: int) -> None:
    spelt = [b" No", b" one", b".", b" Mr", b".com", b" said", b" so", b'?"']
    assert sentence_begin(spelt, index) == begin


class Stamped(SpeltTokens):
    def timestamp_seconds(self, token: int) -> float | None:
        return seconds(token)


def heard_by(
    vocabulary: Stamped,
    message: TranscribeFile,
    cap: int | None = None,
    quick: WindowRule | None = None,
) -> WhisperFile:
    """The recording, by a checkpoint of these words."""
    return WhisperFile(message, cast(WhisperPrompter, vocabulary), WINDOW, cap, quick=quick)


@pytest.mark.parametrize("cap", [None, 14 * SAMPLE_RATE])
@pytest.mark.parametrize("quick", [None, QUICK])
@pytest.mark.parametrize("speech", [None, [(0, 20), (21, 28), (29, 74)]])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_model_output_gets_to_the_end_of_the_file(
    speech: list[tuple[int, int]] | None,
    quick: WindowRule | None,
    cap: int | None,
    data: st.DataObject,
) -> None:
    """Whatever the model says, every request moves on, and the end is reached."""
    message = TranscribeFile(
        "f",
        TranscriptionSettings(model="m"),
        np.zeros(75 * SAMPLE_RATE, np.float32),
        True,
        speech=speech and [(a * SAMPLE_RATE, b * SAMPLE_RATE) for a, b in speech],
        tells_progress=True,
    )
    read = 0
    vocabulary = Stamped([" a", " b"])
    job = heard_by(vocabulary, message, cap, quick)
    token = st.one_of(st.integers(0, 1), st.integers(STAMP, STAMP + 300))
    events = job.settle()
    for _ in range(200):
        if not job.wants_request():
            break
        request = job.make_request()
        assert 0 < len(request.samples) <= (cap or WINDOW.longest)
        read += request.window_samples // AUDIO_TOKEN
        said = tuple(data.draw(st.lists(token, max_size=8)))
        result = Result(request.key, said, (0.0,) * len(said), 0, StopReason.END, language=1001)
        if request.align:
            second = st.floats(0, len(request.samples) / SAMPLE_RATE)
            times = sorted(
                data.draw(st.lists(second, min_size=2 * len(said), max_size=2 * len(said)))
            )
            result = replace(result, token_times=tuple(zip(times[::2], times[1::2], strict=True)))
        events += job.absorb(result)
    *told, done = events
    assert isinstance(done, FileTranscribed) and job.is_done
    progress = [event for event in told if isinstance(event, FileProgress)]
    assert progress == told, "what is told before the end is progress"
    seconds = [event.seconds for event in progress]
    assert seconds == sorted(seconds) and seconds[-1] == 75.0 == progress[-1].duration
    assert [segment for event in progress for segment in event.segments] == done.segments
    assert done.num_audio_tokens == read and done.num_text_tokens > 0
    assert all(0 <= s.start <= s.end <= 75.0 for s in done.segments)


@pytest.mark.parametrize(
    ("said", "logprob", "is_kept"),
    [
        ((STAMP, 0, STAMP + 40), -0.1, True),
        ((STAMP, 0, STAMP + 40), -0.9, False),  # the model hardly believes it
        ((STAMP, *(0,) * 9, STAMP + 40), -0.1, False),  # it repeats itself
        ((), -0.1, False),  # nothing, although somebody speaks
    ],
)
def test_what_is_short_is_heard_in_a_short_window_first_and_what_is_doubtful_in_a_full_one(
    said: tuple[int, ...], logprob: float, is_kept: bool
) -> None:
    samples = np.zeros(4 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples)
    job = heard_by(Stamped([" a", " b"]), message, quick=QUICK)

    request = job.make_request()
    assert request.window_samples == 4.5 * SAMPLE_RATE
    events = job.absorb(answer_to(request, said, logprob))
    if not is_kept:
        assert events == []
        assert job.cost().encoder == WINDOW.longest
        request = job.make_request()
        assert request.window_samples == WINDOW.longest
        # A full window's text is believed as ever.
        events = job.absorb(answer_to(request, (STAMP, 1, STAMP + 40), -0.9))
    [done] = events
    assert isinstance(done, FileTranscribed)
    assert done.text.strip() == ("a" if is_kept else "b")


def answer_to(request: WhisperRequest, said: tuple[int, ...], logprob: float) -> Result:
    logprobs = (logprob,) * len(said)
    return Result(request.key, said, logprobs, 0, StopReason.END, language=1001)


def test_what_is_long_is_heard_in_a_full_window_at_once() -> None:
    samples = np.zeros(20 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples)
    job = heard_by(Stamped([" a"]), message, quick=QUICK)
    assert job.make_request().window_samples == WINDOW.longest


@pytest.mark.parametrize(
    ("begun", "said", "goes_on"),
    [
        (0.8, (at(28.2), at(28.8)), 28.8),  # somebody begins to speak, and pauses
        (0.1, (at(28.2), at(28.8)), None),  # a breath
        (0.8, (at(28.2),), None),  # the model knows of nobody
    ],
)
def test_what_begins_at_the_end_of_a_window_is_heard_in_the_next_one(
    begun: float, said: tuple[int, ...], goes_on: float | None
) -> None:
    spoken = [(0.0, 28.2), (28.8, 28.8 + begun), (30.2, 36.0)]
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spoken]
    samples = np.zeros(40 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    job = heard_by(Stamped([" a", " b", " c", " d"]), message)
    request = job.make_request()
    end = len(request.samples) / SAMPLE_RATE
    assert 28.8 < end <= 30.2
    job.absorb(answer_to(request, (STAMP, 0, 1, 2, 3, *said), -0.1))
    assert job._position / SAMPLE_RATE == pytest.approx(end if goes_on is None else goes_on)


ANSWERS = (1.0, 9.0, 17.0, 25.0)  # begins of four short ones
AHEAD = (at(0), 0, at(1.1), at(1.1), 1, at(2.1), at(2.1), 2, at(3.1), at(3.1), 3, at(4.1))


def test_times_that_run_ahead_of_the_words_have_nothing_said_twice() -> None:
    """Four short words with pauses between them, of which the model says that they follow each
    other by the second: by the times of its words the last one is the last one."""
    speech = [(round(a * SAMPLE_RATE), round((a + 1) * SAMPLE_RATE)) for a in ANSWERS]
    samples = np.zeros(27 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    job = heard_by(Stamped([" a", " b", " c", " d"]), message)
    answer = answer_to(job.make_request(), AHEAD, -0.1)
    times = [(0.0, 0.0)] * len(answer.tokens)
    for token, (start, _) in zip((1, 4, 7, 10), job._audio.speech, strict=True):
        times[token] = (start / SAMPLE_RATE, start / SAMPLE_RATE + 1.2)
    [done] = job.absorb(replace(answer, token_times=tuple(times)))
    assert isinstance(done, FileTranscribed) and done.text == "a b c d"
    assert [round(segment.start) for segment in done.segments] == [1, 9, 17, 25]


@pytest.mark.parametrize("told", [None, "en"])
@pytest.mark.parametrize(
    "said",
    [
        AHEAD,
        (at(0), 0, 1, 2, at(7)),
        (at(0), 0, 0, 0, 0, 0, at(7)),
        (at(0), 0, 0, 0, 0, at(5), at(5)),
    ],
    ids=["times that run ahead", "one too few", "one too many", "all of them before the last"],
)
def test_short_answers_that_are_miscounted_are_heard_one_by_one(
    said: tuple[int, ...], told: str | None
) -> None:
    """In the language of the window, which is that of the recording."""
    speech = [(round(a * SAMPLE_RATE), round((a + 1) * SAMPLE_RATE)) for a in ANSWERS]
    samples = np.zeros(35 * SAMPLE_RATE, np.float32)
    settings = TranscriptionSettings(model="m", language=told)
    message = TranscribeFile("f", settings, samples, True, speech=speech)
    job = heard_by(Stamped([" a", " b", " c", " d"]), message, quick=QUICK)
    request = job.make_request()
    whole = len(request.samples)
    assert job.absorb(answer_to(request, said, -0.1)) == [] and job._position == 0
    events, heard = list[Event](), 0
    for token in range(4):
        request = job.make_request()
        heard += len(request.samples)
        assert request.language == 1001 and not job._closed
        events += job.absorb(answer_to(request, (at(0), token, at(1)), -0.1))
    [done] = events
    assert heard == whole
    assert isinstance(done, FileTranscribed) and done.text == "a b c d"
    assert [round(segment.start) for segment in done.segments] == list(ANSWERS)


@pytest.mark.parametrize(
    ("stamps", "expected"),
    [
        ((0, 1, 1, 3, 3, 4), True),
        ((0.3, 1.5, 2, 3.4), True),  # what is around them all tells nothing
        ((0, 1.1, 1.1, 3), False),
        ((0, 1, 1.2, 3), False),
        ((0, 1, 3), False),  # a segment or two
        ((), False),
    ],
)
def test_times_are_rough_where_all_between_segments_are_told_to_half_a_second(
    stamps: tuple[float, ...], expected: bool
) -> None:
    assert is_rough([token for time in stamps for token in (at(time), 1)], seconds) is expected


@pytest.mark.parametrize("inner", [10, 11], ids=["rough", "exact"])
def test_segments_have_the_times_of_their_words_where_the_models_are_rough(inner: int) -> None:
    spoken = [(0.4, 0.8), (2.0, 2.4), (3.2, 3.9)]
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spoken]
    samples = np.zeros(4 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    job = heard_by(Stamped([" a", " b", " c"]), message)
    request, stamps = job.make_request(), [STAMP, STAMP + inner, STAMP + 20, STAMP + 40]
    said = (stamps[0], 0, stamps[1], stamps[1], 1, stamps[2], stamps[2], 2, stamps[3])
    assert request.align_if is not None and request.align_if(said) is (inner == 10)
    answer = answer_to(request, said, -0.1)
    spans = {1: (0.0, 0.9), 4: (1.7, 2.6), 7: (3.0, 4.0)}
    times = tuple(spans.get(place, (0.0, 0.0)) for place in range(len(said)))
    [done] = job.absorb(replace(answer, token_times=times) if inner == 10 else answer)
    assert isinstance(done, FileTranscribed)
    found = [(round(s.start, 1), round(s.end, 1)) for s in done.segments]
    assert found == (spoken if inner == 10 else [(0.4, 0.8), (1.1, 2.0), (2.0, 3.9)])


@pytest.mark.parametrize(
    ("last", "expected"), [([1, 2, 4], True), ([0, 1, 2, 4], True), ([0, 4], False), ([4], False)]
)
def test_the_times_of_words_are_asked_for_where_the_last_segment_says_again_what_was_said(
    last: list[int], expected: bool
) -> None:
    samples = np.zeros(6 * SAMPLE_RATE, np.float32)
    speech = [(0, len(samples))]
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    request = heard_by(Stamped([" First", " the", " line", " is", "."]), message).make_request()
    said = (at(0), 0, 1, 2, 4, at(3.1), at(3.1), *last, at(5.9))
    assert request.align_if is not None and request.align_if(said) is expected
    assert not request.align_if((at(0.3), *last, at(5.9))), "by itself"


def test_what_is_made_up_at_the_end_of_a_window_is_not_told() -> None:
    samples = np.zeros(4 * SAMPLE_RATE, np.float32)
    speech = [(0, 3 * SAMPLE_RATE)]
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)

    def told(times: list[float]) -> str:
        job = heard_by(Stamped([" busy line", " is here", "."]), message)
        said = (at(0), 0, 1, 2, at(2), at(2), 0, 1, 2, at(4))
        spans = tuple(zip(times, [*times[1:], 4.0], strict=True))
        [done] = job.absorb(replace(answer_to(job.make_request(), said, -0.1), token_times=spans))
        assert isinstance(done, FileTranscribed)
        return done.text

    assert told([0.0, 0.2, 0.7, 1.3, 1.5, 1.5, 1.7, 2.1, 2.7, 3.1]) == (
        "busy line is here. busy line is here."
    )
    assert told([0.0, 0.4, 1.7, 2.9, 3.1, 3.4, 3.4, 3.4, 3.4, 3.4]) == "busy line is here."


@pytest.mark.parametrize(("seconds", "expected"), [(11.0, False), (13.0, True)])
@pytest.mark.parametrize("closed", [True, False])
def test_who_did_not_listen_for_times_is_asked_for_those_of_the_words(
    seconds: float, expected: bool, closed: bool
) -> None:
    samples = np.zeros(round(seconds * SAMPLE_RATE), np.float32)
    speech = [(0, len(samples))]
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    request = heard_by(Stamped([" a", " b"]), message).make_request()
    said = (at(0), 0, 1, at(seconds)) if closed else (at(0), 0, 1)
    assert request.align_if is not None and request.align_if(said) is expected
    # Where nobody knows when somebody speaks they would tell nothing.
    unknown = heard_by(Stamped([" a", " b"]), replace(message, speech=None)).make_request()
    assert unknown.align_if is not None and not unknown.align_if(said)


def test_a_segment_is_cut_where_a_long_pause_was_left_out_of_it() -> None:
    spoken = [(1.0, 1.6), (9.0, 9.4), (10.0, 10.6), (90.0, 90.5)]
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spoken]
    samples = np.zeros(95 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    job = heard_by(Stamped([" a", "b.", " c", " d", " e"]), message)
    request = job.make_request()
    said = (STAMP, 0, 1, 2, 3, 4, at(4.9))
    assert request.align_if is not None and request.align_if(said)
    assert not request.align_if((STAMP, 0, 1, at(1.1), at(1.6), 2, 3, at(3.4), at(4.1), 4, at(5.0)))
    starts = [a / SAMPLE_RATE for a, _ in job._audio.speech]
    # Of the words behind a pause the attention takes the silence before them for a part.
    spans = [(0, 0), (0, 0.5), (0.5, 1.0), (1.0, starts[1] + 0.9), (starts[2], starts[2] + 0.8)]
    spans += [(starts[3] - 0.5, starts[3] + 0.9), (0, 0)]
    [done] = job.absorb(replace(answer_to(request, said, -0.1), token_times=tuple(spans)))
    assert isinstance(done, FileTranscribed) and done.text == "ab. c d e"
    found = [(s.text, round(s.start, 1), round(s.end, 1)) for s in done.segments]
    assert found == [(" ab.", 1.0, 1.6), (" c d", 9.0, 10.6), (" e", 90.0, 90.5)]


@pytest.mark.parametrize("smeared", ["the word before", "the word behind"])
def test_a_sentence_that_the_text_lacks_is_heard_on_from(smeared: str) -> None:
    """Three are said, two are written: a token lasts as long as nobody takes for a word. From there
    on it is heard once more, and what is missing then stays so."""
    spoken = [(0.0, 1.8), (2.3, 5.0), (5.5, 8.0)]
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spoken]
    samples = np.zeros(9 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    job = heard_by(Stamped([" a", ".", " c", " d", "."]), message)
    request = job.make_request()
    said = (at(0), 0, 1, at(1.9), at(5.4), 2, 3, at(8.1))
    # Somebody speaks where no segment is.
    assert request.align_if is not None and request.align_if(said)
    assert not request.align_if((at(0), 0, 1, at(1.9), at(3.1), 2, 3, at(8.1)))
    assert not request.align_if((at(0), 0, 1, 2, 3)), "all of a short recording"
    begun = 5.6 if smeared == "the word before" else 2.2
    times = [(0, 0), (0.1, 1.0), (1.0, 1.8), (1.8, 1.8), (begun, begun), (begun, 6.8), (6.8, 8.0)]
    answer = replace(answer_to(request, said, -0.1), token_times=(*times, (8.0, 8.1)))
    assert job.absorb(answer) == []
    assert 1.8 < job._position / SAMPLE_RATE < 2.3
    assert [segment.text for segment in job.heard.segments] == [" a."]
    assert job._closed == []  # behind that it might be left out again
    answer = answer_to(job.make_request(), (at(0), 2, 3, at(5.9)), -0.1)
    times = [(0, 0), (0.3, 4.6), (4.6, 5.8), (5.8, 5.9)]
    [done] = job.absorb(replace(answer, token_times=tuple(times)))
    assert isinstance(done, FileTranscribed) and done.text == "a. c d"


@pytest.mark.parametrize("temperature", [0.0, 0.2])
def test_a_sentence_that_a_window_lacks_at_its_beginning_is_heard_with_no_text_in_front(
    temperature: float,
) -> None:
    """It was said before, and stands in the text in front: so the model leaves it out, whether its
    words are drawn or not. Without that text it is heard, and if not it stays so."""
    spoken = [(0.0, 1.8), (2.3, 5.0), (5.5, 8.0)]
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spoken]
    samples = np.zeros(9 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    job = heard_by(Stamped([" a", ".", " c", " d", "."]), message)
    answer = answer_to(job.make_request(), (at(0), 0, 1, at(2), at(2)), -0.1)
    assert job.absorb(replace(answer, token_times=((0, 0), (0.1, 1), (1, 2), (2, 2), (2, 2)))) == []
    begin = job._position
    assert job._closed and 1.8 < begin / SAMPLE_RATE < 2.3

    def lacks(request: WhisperRequest) -> Result:
        said = answer_to(request, (at(0), 2, 3, 4, at(6)), -0.1)
        return replace(said, token_times=((0, 0), (0.3, 3.6), (3.6, 4.8), (4.8, 6), (6, 6)))

    if temperature:
        assert job.absorb(answer_to(job.make_request(), (at(0), 2, 3, 4, at(6)), -2.0)) == []
    request = job.make_request()
    assert request.temperature == temperature and job.absorb(lacks(request)) == []
    assert job._position == begin and job._closed == []
    again = job.make_request()
    assert again.temperature == 0
    [done] = job.absorb(lacks(again))
    assert isinstance(done, FileTranscribed) and done.text == "a. c d."


def test_speech_behind_the_words_of_a_window_is_heard_from_their_end_on() -> None:
    """Two sentences without a pause, and a third that the model did not write."""
    spoken = [(0.0, 12.0), (13.0, 20.0)]
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spoken]
    samples = np.zeros(20 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    job = heard_by(Stamped([" a", " b"]), message)
    said = (STAMP, 0, STAMP + 60, STAMP + 60, 1, STAMP + 120)
    job.absorb(answer_to(job.make_request(), said, -0.1))
    assert job._position / SAMPLE_RATE == pytest.approx(12.0)


@pytest.mark.parametrize("said", [(at(0), 0, *(1,) * 30), ()], ids=["loop", "silence"])
def test_behind_a_loop_it_is_heard_on_from_the_next_pause(said: tuple[int, ...]) -> None:
    """Whatever the temperature, the model is stuck in the first sentence: the second is not lost
    with it, and does not know the text of the first."""
    spoken = [(0.0, 3.0), (4.0, 8.0)]
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spoken]
    samples = np.zeros(9 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    job = heard_by(Stamped([" a", " b", " c"]), message)
    loop = (at(0), 0, *(1,) * 40)
    for temperature in TEMPERATURES:
        request = job.make_request()
        assert request.temperature == temperature and job._position == 0
        assert request.align_if is not None and request.align_if(loop)
        written = said if temperature == TEMPERATURES[-1] else loop
        stop = StopReason.REPETITION if written else StopReason.END
        answer = replace(answer_to(request, written, -0.1), stop=stop)
        times = [(0.0, 0.0), (0.2, 0.6), *((0.6 + n / 20, 0.65 + n / 20) for n in range(40))]
        assert job.absorb(replace(answer, token_times=tuple(times[: len(written)]))) == []
    assert 3.0 < job._position / SAMPLE_RATE < 4.0 and job._closed == []
    request = job.make_request()
    assert len(request.samples) >= 4 * SAMPLE_RATE
    [done] = job.absorb(answer_to(request, (at(0), 2, at(4)), -0.1))
    assert isinstance(done, FileTranscribed)
    assert done.text == ("a b c" if said else "c")


def test_a_window_that_is_given_up_is_told_once_where_its_words_have_no_times() -> None:
    """Its text goes on for long after its audio, whatever the temperature."""
    speech = [(0, 3 * SAMPLE_RATE), (4 * SAMPLE_RATE, 8 * SAMPLE_RATE)]
    samples = np.zeros(9 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", TranscriptionSettings(model="m"), samples, True, speech=speech)
    job = heard_by(Stamped([" a", " b"]), message)
    said = (at(0), 0, 1, at(29))
    for _ in TEMPERATURES[:-1]:
        assert job.absorb(answer_to(job.make_request(), said, -0.1)) == []
    [done] = job.absorb(answer_to(job.make_request(), said, -0.1))
    assert isinstance(done, FileTranscribed) and done.text == "a b"
