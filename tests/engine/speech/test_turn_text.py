"""What a turn tells of its text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lookhear.engine.messages import SAMPLE_RATE, TextProvisional, TranscriptionSettings, TurnState
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.turn_text import TurnText
from tests.engine.speech.scripted_asr import Ear, make_tokenizer


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_word_is_not_told_to_be_earlier_than_the_one_before_it(
    tmp_path: Path, goes_on: bool
) -> None:
    """Each look times all of a text anew. goes_on: another engine with each word."""
    ear, settings = Ear(make_tokenizer(tmp_path)), TranscriptionSettings("m", words=True)
    text = TurnText("s", "t", settings, ear, TurnState())
    told = []
    for piece, span in (("one", (0.5, 1.0)), (" two", (0.75, 0.875)), (" three", (1.5, 2.0))):
        if goes_on:
            state = replace(text.state(), text=text.text)
            text = TurnText("s", "t", settings, ear, state)
        tokens = tuple(ear.tokenizer.encode(piece))
        said = Hypothesis(tokens, (0.0,) * len(tokens), (span,) * len(tokens), "en")
        [event] = text.commit(said)
        told += [(word.word, word.start, word.end) for word in event.words or ()]
    assert told == [("one", 0.5, 1.0), ("two", 1.0, 1.0), ("three", 1.5, 2.0)]


def test_a_word_beside_a_pause_is_told_to_be_where_somebody_speaks(tmp_path: Path) -> None:
    """A model's times cover the pause, too."""
    ear, settings = Ear(make_tokenizer(tmp_path)), TranscriptionSettings("m", words=True)
    text = TurnText("s", "t", settings, ear, TurnState())
    heard = np.zeros(6 * SAMPLE_RATE, np.float32)
    for begin, end in ((0.5, 1.5), (5.0, 5.5)):
        heard[round(begin * SAMPLE_RATE) : round(end * SAMPLE_RATE)] = 0.5
    told = []
    for piece, span in (("one", (2.5, 3.0)), (" two", (3.0, 5.5)), (" three", (5.5, 7.25))):
        tokens = tuple(ear.tokenizer.encode(piece))
        said = Hypothesis(tokens, (0.0,) * len(tokens), (span,) * len(tokens), "en")
        [event] = text.commit(said, heard, 2 * SAMPLE_RATE)  # they begin there in the turn
        told += [(word.word, word.start, word.end) for word in event.words or ()]
    assert told == [("one", 2.5, 3.0), ("two", 3.0, 3.5), ("three", 7.0, 7.25)]


def test_what_no_other_word_follows_is_told_of_the_guess_or_of_what_was_said(
    tmp_path: Path,
) -> None:
    ear = Ear(make_tokenizer(tmp_path))
    text = TurnText("s", "t", TranscriptionSettings("m", provisional=True), ear, TurnState())
    tokens = tuple(ear.tokenizer.encode("one two."))
    heard = Hypothesis(tokens, (-0.5,) * len(tokens), closing=0.9)
    assert [told.closing for told in provisional(text, heard)] == [0.9]
    said, rest = heard.split(1)
    text.commit(said)
    assert [told.closing for told in provisional(text, rest)] == [0.9]
    assert [told.closing for told in provisional(text, heard._replace(closing=None))] == [None]
    text.commit(rest)
    assert [told.closing for told in provisional(text, Hypothesis())] == [0.9], "all is said"
    assert [told.closing for told in provisional(text, Hypothesis(closing=0.8))] == [0.8]


def test_who_goes_on_with_a_turn_knows_that_a_sentence_ended(tmp_path: Path) -> None:
    ear = Ear(make_tokenizer(tmp_path))
    settings = TranscriptionSettings("m")
    text = TurnText("s", "t", settings, ear, TurnState())
    assert text.state().ended == text.end_probability(Hypothesis()) == 0.0
    tokens = tuple(ear.tokenizer.encode("one two."))
    text.commit(Hypothesis(tokens, (-0.5,) * len(tokens)))
    ended = text.end_probability(Hypothesis())
    assert ended > 0.0
    again = TurnText("s", "t", settings, ear, replace(text.state(), text=text.text))
    assert again.end_probability(Hypothesis()) == ended


def provisional(text: TurnText, guess: Hypothesis) -> list[TextProvisional]:
    return [told for told in text.provisional(guess, 0) if isinstance(told, TextProvisional)]


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ("Yes", True),
        ("It is Tom", True),
        ("No", True),
        ("to Mr", False),
        ("U.S", False),
        ("John F", False),
        ("and so", True),
    ],
)
def test_a_sentence_ends_alike_however_much_of_it_is_said(
    tmp_path: Path, words: str, ends: bool
) -> None:
    ear = Ear(make_tokenizer(tmp_path))
    tokens, told = tuple(ear.tokenizer.encode(words + ".")), []
    for count in range(len(tokens)):
        text = TurnText("s", "t", TranscriptionSettings("m"), ear, TurnState())
        said, guess = Hypothesis(tokens, (-0.5,) * len(tokens)).split(count)
        text.commit(said)
        told.append(text.end_probability(guess) > 0.0)
    assert told == [ends] * len(tokens)
