"""Which text of a window is believed, and when there is another try."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.core.request import Result, StopReason, is_looping
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.whisper.files.attempts import TEMPERATURES, Attempt, Attempts, has_loop

LIKELY, UNLIKELY = -0.1, -1.5


def attempt(
    words: tuple[int, ...] = (1, 2, 3),
    logprob: float = LIKELY,
    *,
    stop: StopReason = StopReason.END,
    text: str = "some words",
    no_speech: float = 0.0,
    temperature: float = 0.0,
    spoken: float | None = 60.0,
) -> Attempt:
    result = Result("k", words, (logprob,) * len(words), 0, stop, no_speech_prob=no_speech)
    heard = Hypothesis.of(result, 0, 0)
    return Attempt.of(result, heard, heard.tokens, text, temperature, spoken=spoken)


def test_a_likely_text_is_kept_at_once() -> None:
    attempts, first = Attempts(0.0), attempt()
    assert attempts.take(first) is first and attempts.count == 0


def test_an_unlikely_text_is_sampled_ever_more_freely_until_one_is_good() -> None:
    attempts = Attempts(0.0)
    seen = [attempts.temperature]
    for _ in range(3):
        assert attempts.take(attempt(logprob=UNLIKELY)) is None
        seen.append(attempts.temperature)
    good = attempt()
    assert attempts.take(good) is good
    assert tuple(seen) == TEMPERATURES[:4]
    assert attempts.temperature == 0.0, "the next window begins anew"


@given(st.lists(st.tuples(st.booleans(), st.floats(-5, -1.01)), min_size=6, max_size=6))
def test_if_none_is_good_the_likeliest_without_a_loop_is_kept(
    made: list[tuple[bool, float]],
) -> None:
    attempts = Attempts(0.0)
    tried = [
        attempt((7,) * 8 if loops else (1, 2), logprob, stop=StopReason.END, spoken=1.0)
        for loops, logprob in made
    ]
    assert [one.loops for one in tried] == [loops for loops, _ in made]
    kept = [attempts.take(one) for one in tried]
    assert kept[:-1] == [None] * 5 and kept[-1] in tried
    assert kept[-1] == max(tried, key=lambda one: (not one.loops, one.avg_logprob))


def test_a_temperature_that_was_asked_for_is_the_only_one() -> None:
    attempts, bad = Attempts(0.7), attempt(logprob=UNLIKELY)
    assert attempts.temperature == 0.7 and attempts.take(bad) is bad


def test_what_a_model_says_of_silence_is_nothing_and_that_is_good() -> None:
    silent = attempt(logprob=UNLIKELY, no_speech=0.9)
    assert silent.heard.tokens == () and silent.is_good
    assert attempt((), text="").is_good


def test_a_text_that_compresses_well_may_be_an_announcement_but_not_of_silence() -> None:
    text = "Please enter your number. " * 12
    assert attempt(text=text).is_good
    assert not attempt(text=text, spoken=None).is_good
    assert not attempt(text=text, stop=StopReason.LENGTH).is_good
    assert not attempt(stop=StopReason.REPETITION).is_good
    assert not attempt(text=text, spoken=5.0).is_good, "nobody says so much in five seconds"
    assert attempt(text="Help!", spoken=0.1).is_good


@given(
    st.lists(st.integers(0, 3), max_size=5),
    st.lists(st.integers(4, 9), min_size=1, max_size=30),
    st.lists(st.integers(0, 3), max_size=5),
)
def test_a_phrase_four_times_in_a_row_is_a_loop_wherever_it_is(
    before: list[int], phrase: list[int], after: list[int]
) -> None:
    times = 8 if len(phrase) == 1 else 4
    assert has_loop([*before, *phrase * times, *after])


@given(st.lists(st.integers(0, 2), max_size=40))
def test_what_stops_a_decoder_is_a_loop_here_too(tokens: list[int]) -> None:
    assert has_loop(tokens) or not is_looping(tokens)


def test_people_repeat_themselves() -> None:
    assert not has_loop([1] * 7) and not has_loop([1, 2, 3] * 3) and not has_loop([])


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(0, 40))
def test_more_room_only_forgives(tokens: list[int], room: int) -> None:
    assert has_loop(tokens) or not has_loop(tokens, room)
    assert has_loop(tokens, room) or not is_looping(tokens, room)


def test_a_phrase_is_no_loop_while_somebody_had_the_time_to_say_it() -> None:
    no = (1, 2) * 10  # "No, no, ..." in six seconds
    assert attempt(no, spoken=6.0).is_good and not attempt(no, spoken=3.0).is_good
    assert not attempt(no, spoken=None).is_good


@given(st.sampled_from((0.0, 0.7)), st.sampled_from((0.0, 1.0)))
def test_a_window_is_given_up_where_all_that_is_left_is_a_loop_or_silence_after_loops(
    asked: float, temperature: float
) -> None:
    attempts = Attempts(asked)
    assert attempts.gives_up(attempt((7,) * 8, spoken=1.0, temperature=temperature))
    assert not attempts.gives_up(attempt(temperature=temperature))
    silent = attempt((), text="", temperature=temperature)
    assert attempts.gives_up(silent) == (not asked and temperature > 0)


def test_a_text_of_times_behind_the_audio_is_no_good() -> None:
    result = Result("", (1, 2), (-0.1, -0.1), 0, StopReason.END)
    heard = Hypothesis((1, 2), (-0.1, -0.1))
    kept = Attempt.of(result, heard, heard.tokens, "text", 0.0, spoken=9.0)
    beyond = Attempt.of(result, heard, heard.tokens, "text", 0.0, spoken=9.0, is_beyond=True)
    assert kept.is_good and kept.is_sure
    assert not beyond.is_good and not beyond.is_sure
