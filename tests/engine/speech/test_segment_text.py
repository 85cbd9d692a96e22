"""What of a segment may stand in front of others."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.core.request import Priority, Result, StopReason
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.earlier import Earlier, EarlierSegment
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Recognizer, Stretch
from lookhear.engine.speech.segment_text import SegmentText
from lookhear.engine.speech.text.agreement import is_punctuation
from lookhear.engine.speech.text.hypothesis import Hypothesis
from tests.engine.speech.scripted import SpeltTokens

WORDS = [" the", " P", "AM", " key", ".", " Log", "桜", "が"]
RECOGNIZER = cast("Recognizer", SpeltTokens(WORDS))
LEAST = math.log(0.5)
SURE, UNSURE = math.log(0.9), math.log(0.2)

said = st.lists(
    st.tuples(st.integers(0, len(WORDS) - 1), st.sampled_from([SURE, UNSURE])), max_size=12
)


def text(*parts: list[tuple[int, float]]) -> SegmentText:
    segment = SegmentText(RECOGNIZER)
    for part in parts:
        segment.add(Hypothesis(tuple(t for t, _ in part), tuple(p for _, p in part)), LEAST)
    return segment


@pytest.mark.parametrize(
    ("tokens", "unsure", "language", "kept"),
    [
        ([0, 1, 2, 3, 4], [], "en", [0, 1, 2, 3, 4]),
        ([0, 1, 2, 3, 4], [2], "en", [0, 3, 4]),  # the word whole
        ([0, 1, 2, 3, 4], [1], "en", [0, 3, 4]),
        ([0, 1, 2, 3, 4], [4], "en", [0, 1, 2, 3, 4]),  # a sign is none
        ([0, 1, 2, 4, 5], [4], "en", [0, 1, 2, 4]),
        ([0, 1, 2, 4, 5], [1, 4], "en", []),  # most were guessed
        ([1, 2, 4, 0, 3], [0], "en", [0, 3]),  # a sign alone begins nothing
        ([4, 1, 2, 0, 3], [1], "en", [4, 0, 3]),
        ([1, 2, 4], [1], "en", []),  # no word is left
        ([6, 7, 6], [1], "ja", [6, 6]),
        ([6, 7, 6], [1], "en", []),
    ],
)
def test_improbable_words_are_left_out(
    tokens: list[int], unsure: list[int], language: str, kept: list[int]
) -> None:
    part = [(token, UNSURE if i in unsure else SURE) for i, token in enumerate(tokens)]
    assert text(part).probable(language) == kept


@given(said, said, st.sampled_from([None, "en", "ja"]))
def test_it_is_the_same_however_it_was_committed_and_goes_on_elsewhere(
    first: list[tuple[int, float]], rest: list[tuple[int, float]], language: str | None
) -> None:
    whole, parts = text(first + rest), text(first, rest)
    assert whole.tokens == parts.tokens == [token for token, _ in first + rest]
    assert whole.spelt == parts.spelt == b"".join(WORDS[t].encode() for t in whole.tokens)
    assert whole.probable(language) == parts.probable(language)
    told = SegmentText(RECOGNIZER, parts.tokens, parts.improbable)
    assert told.probable(language) == parts.probable(language) and told.spelt == parts.spelt


@given(said)
def test_what_is_left_was_sure(part: list[tuple[int, float]]) -> None:
    kept = text(part).probable("en")
    sure = [t for t, p in part if p == SURE or is_punctuation(WORDS[t].encode())]
    rest = iter(sure)
    assert all(token in rest for token in kept), "in order, nothing else"
    if all(p == SURE for _, p in part):
        assert kept == [token for token, _ in part]


def heard_for(seconds: float, prompt: str = "") -> Stretch:
    """All of it speech, and somebody may speak on."""
    samples = np.zeros(round(seconds * SAMPLE_RATE), np.float32)
    stretch = Stretch("s/t", Priority.LIVE, 0, samples, "en", voiced_until=len(samples))
    return stretch._replace(is_open=True, prompt=prompt)


@pytest.mark.parametrize(
    ("new", "seconds", "prompt", "told", "lost"),
    [
        ([1, 2, 3], 1.0, "A PAM key.", 0, False),  # whoever says so goes on
        ([1, 2, 3], 2.0, "A PAM key.", 0, True),  # or has, and was not understood
        ([1, 2, 3, 4], 2.0, "A P.A.M. Key", 0, True),
        ([1, 2, 3, 5], 2.0, "A PAM key.", 4, False),  # more than that
        ([1, 2, 3], 2.0, "", 3, False),  # heard without one
        ([0], 2.0, "The key", 1, False),  # in every text
    ],
)
def test_what_a_prompt_says_is_not_told_before_there_is_more(
    new: list[int], seconds: float, prompt: str, told: int, lost: bool
) -> None:
    segment, stretch = SegmentText(RECOGNIZER), heard_for(seconds, prompt=prompt)
    assert segment.num_told(new, stretch, Earlier(), is_over=False) == told
    assert segment.num_told(new, stretch, Earlier(), is_over=True) == len(new)
    heard = Hypothesis(tuple(new), (SURE,) * len(new))
    config, spoken = LiveConfig(), len(stretch.samples)
    assert segment.is_lost(heard, stretch, spoken, config, repeats=False) is lost
    # When all was said it counts how sure the model is.
    over = stretch._replace(is_open=False)
    assert not segment.is_lost(heard, over, spoken, config, repeats=False)
    unsure = heard._replace(logprobs=(UNSURE,) * len(new))
    assert segment.is_lost(unsure, over, spoken, config, repeats=False) is bool(prompt)


@pytest.mark.parametrize(
    ("seconds", "is_open", "said", "how_sure", "lost"),
    [
        (0.9, False, [], UNSURE, True),  # a cry, or a blow
        (0.9, False, [], SURE, False),  # a word
        (0.9, True, [], UNSURE, False),  # somebody may speak on
        (0.9, False, [0], UNSURE, False),  # or did
        (1.1, False, [], UNSURE, False),
    ],
)
def test_a_brief_sound_in_doubt_is_heard_without_what_was_said_before(
    seconds: float, is_open: bool, said: list[int], how_sure: float, lost: bool
) -> None:
    segment, heard = SegmentText(RECOGNIZER, said), Hypothesis((3, 5), (how_sure,) * 2)
    audio = np.zeros(2 * SAMPLE_RATE, np.float32)
    before = Earlier(None, (EarlierSegment(audio, 0, len(audio), (6, 7), "en", "transcribe"),))
    stretch = heard_for(seconds)._replace(is_open=is_open)

    def is_lost(stretch: Stretch) -> bool:
        spoken = len(stretch.samples)
        return segment.is_lost(heard, stretch, spoken, LiveConfig(), repeats=False)

    assert is_lost(stretch._replace(before=before)) is lost
    assert not is_lost(stretch), "nothing was"


@pytest.mark.parametrize(
    ("said", "is_open", "prompt", "unheard", "lost"),
    [
        ([], True, "A lock.", 0.6, False),  # it may be a syllable
        ([], True, "A lock.", 0.8, True),
        ([], False, "A lock.", 0.3, True),  # behind a prompt a whole word may be none
        ([], False, "", 0.3, False),  # nothing is in front
        ([0, 3], False, "A lock.", 0.3, False),
        ([0, 3], True, "A lock.", 1.6, True),
    ],
)
def test_speech_without_text_is_heard_by_itself(
    said: list[int], is_open: bool, prompt: str, unheard: float, lost: bool
) -> None:
    stretch = heard_for(2.0, prompt=prompt)._replace(is_open=is_open)
    found = SegmentText(RECOGNIZER, said).is_lost(
        Hypothesis(), stretch, round(unheard * SAMPLE_RATE), LiveConfig(), repeats=False
    )
    assert found is lost


def test_a_sentence_that_is_known_is_told_as_fast_as_it_is_usually_said() -> None:
    pieces = [" Do", " enter", " your", " extension", " now", "."]  # 23 letters
    sentence = list(range(len(pieces)))
    recognizer = cast("Recognizer", SpeltTokens(pieces))

    def told(
        before: list[int], said: list[int], new: list[int], seconds: float, *, is_over: bool = False
    ) -> int:
        """Of what is heard in 1.1 s, by a voice that needed so long for what it said before."""
        audio = np.zeros(round(seconds * SAMPLE_RATE), np.float32)
        segment = EarlierSegment(audio, 0, len(audio), tuple(before), "en", "transcribe")
        stretch = heard_for(1.1)
        text, earlier = SegmentText(recognizer, said), Earlier(None, (segment,))
        return text.num_told(new, stretch, earlier, is_over=is_over)

    assert told([], [], sentence, 2.0) == 6, "room for 27 letters"
    assert told(sentence, [], sentence, 2.0) == 3, "for 15"
    assert told(sentence, [], sentence, 3.0) == 2, "for nine"
    assert told(sentence, [], sentence, 30.0) == 1, "for six"
    assert told(sentence, [0, 1], [2, 3, 4, 5], 2.0) == 1
    assert told(sentence, [], sentence, 2.0, is_over=True) == 6
    assert told([0, 4, 5], [], sentence, 2.0) == 6, "begins otherwise"


class Heeding(SpeltTokens):
    """Of a model that can be told which token may not come."""

    def __init__(self, heeds_bars: bool) -> None:
        super().__init__(WORDS)
        self.heeds_bars = heeds_bars


def stuck(*tokens: int, stop: StopReason = StopReason.REPETITION) -> Result:
    return Result("s/t", tokens, tuple(-0.1 * (i % 5) for i in range(len(tokens))), 0, stop)


NOTHING = Hypothesis()


@pytest.mark.parametrize(
    ("told", "is_open", "heeds_bars", "leaves"),
    [
        ((0,), False, True, True),
        ((), False, True, False),  # it may be no speech
        ((0,), True, True, False),  # somebody speaks on
        ((0,), False, False, False),
    ],
)
def test_a_loop_is_left_behind_what_was_told_where_somebody_pauses(
    told: tuple[int, ...], is_open: bool, heeds_bars: bool, leaves: bool
) -> None:
    segment = SegmentText(cast("Recognizer", Heeding(heeds_bars)), told)
    stretch = heard_for(2.0)._replace(is_open=is_open, committed=told)
    assert not segment.hears_again(stuck(1, 2, stop=StopReason.END), NOTHING, NOTHING, stretch)
    assert segment.hears_again(stuck(3, *[1, 2] * 5), NOTHING, NOTHING, stretch) is leaves
    assert segment.barred == ((4, 2) if leaves else None)


@pytest.mark.parametrize(
    ("is_open", "language", "is_again"),
    [(False, "en", True), (True, "en", False), (False, "de", False)],
)
def test_what_is_less_probable_than_a_moment_before_is_heard_again(
    is_open: bool, language: str, is_again: bool
) -> None:
    segment = SegmentText(cast("Recognizer", Heeding(True)))
    stretch = heard_for(2.0)._replace(is_open=is_open)
    before = Hypothesis((0, 1, 2), (SURE,) * 3, language="en")
    result = replace(stuck(0, 3, stop=StopReason.END), logprobs=(UNSURE,) * 2)
    new = Hypothesis(result.tokens, result.logprobs, language=language)
    assert segment.hears_again(result, new, before, stretch) is is_again
    assert segment.barred == ((1, 3) if is_again else None)
    again = stretch._replace(barred=(1, 3))
    other = replace(result, tokens=(0, 1, 2), logprobs=(SURE,) * 3)
    assert segment.better(other, again) is other
    worse = replace(result, tokens=(0, 5), logprobs=(2 * UNSURE,) * 2)
    if is_again:
        assert segment.better(worse, again) is result
    assert not segment.hears_again(worse, new, before, again), "once"
    assert segment.barred is None


def test_what_is_heard_by_itself_begins_without_a_bar() -> None:
    segment = SegmentText(cast("Recognizer", Heeding(True)), (0,))
    stretch = heard_for(2.0)._replace(is_open=False, committed=(0,))
    assert segment.hears_again(stuck(3, *[1, 2] * 5), NOTHING, NOTHING, stretch)
    segment.lose(NOTHING, stretch)
    assert segment.is_alone and segment.num_lost == 1 and segment.barred is None


@pytest.mark.parametrize(
    ("said", "is_open", "lost"),
    [
        ([], False, True),  # a word that was said before may be none behind itself
        ([], True, False),  # a syllable
        ([0, 3], False, False),  # what is left is a breath
    ],
)
def test_a_word_that_is_nothing_behind_earlier_speech_is_heard_by_itself(
    said: list[int], is_open: bool, lost: bool
) -> None:
    segment, spoken = SegmentText(RECOGNIZER, said), round(0.3 * SAMPLE_RATE)
    stretch = behind_speech(0.3)._replace(is_open=is_open)
    assert segment.is_lost(NOTHING, stretch, spoken, LiveConfig(), repeats=False) is lost
    alone = stretch._replace(before=Earlier())
    assert not segment.is_lost(NOTHING, alone, spoken, LiveConfig(), repeats=False)


@pytest.mark.parametrize(
    ("heard", "seconds", "how_sure", "told"),
    [
        (NOTHING, 0.3, -0.9, True),
        (NOTHING, 0.3, -1.1, False),  # a cry, or a blow: where the text is in doubt, too
        (NOTHING, 1.1, -1.1, True),  # so much is no blow
        (Hypothesis((5,), (UNSURE,)), 0.3, -1.1, True),  # some word it is
    ],
)
def test_a_brief_sound_that_is_hardly_believed_by_itself_either_is_no_word(
    heard: Hypothesis, seconds: float, how_sure: float, told: bool
) -> None:
    segment, stretch = SegmentText(RECOGNIZER), behind_speech(seconds)
    segment.lose(heard, stretch)
    alone = stretch._replace(before=Earlier())
    result = Result("s/t", (0,), (how_sure,), 0, StopReason.END, no_speech_prob=0.4)
    found = Hypothesis.of(segment.better(result, alone), 0, 0)
    assert bool(found.tokens) is told
    behind = Hypothesis.of(segment.better(result, stretch), 0, 0)
    assert behind.tokens, "of a look behind speech nothing more is known"


@pytest.mark.parametrize(
    ("new", "seconds", "lost"),
    [
        ((6, 7, 6, 7), 0.9, True),  # one word is heard as two, behind itself
        ((6, 7), 0.9, False),
        ((6, 7, 6, 7), 1.1, False),  # there was time for both
    ],
)
def test_what_was_said_before_is_not_said_twice_in_a_moment(
    new: tuple[int, ...], seconds: float, lost: bool
) -> None:
    segment, heard = SegmentText(RECOGNIZER), Hypothesis(new, (SURE,) * len(new))
    spoken = round(seconds * SAMPLE_RATE)
    for is_open in (False, True):
        stretch = behind_speech(seconds)._replace(is_open=is_open)
        found = segment.is_lost(heard, stretch, spoken, LiveConfig(), repeats=False)
        assert found is (lost and not is_open)


def behind_speech(seconds: float) -> Stretch:
    """All of it speech, and nobody speaks on."""
    audio = np.zeros(2 * SAMPLE_RATE, np.float32)
    before = Earlier(None, (EarlierSegment(audio, 0, len(audio), (6, 7), "en", "transcribe"),))
    return heard_for(seconds)._replace(is_open=False, before=before)
