"""What a tick's request guesses of its language, what stands in front of it, and whether its text
is thought over."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from lookhear.engine.core.request import Priority
from lookhear.engine.messages import SAMPLE_RATE, TranscriptionSettings
from lookhear.engine.sampling.alternatives import Doubts
from lookhear.engine.speech.earlier import Earlier, EarlierSegment
from lookhear.engine.speech.recognizer import Stretch, loop_room
from lookhear.engine.speech.session_language import SessionLanguage
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.prompt import WhisperPrompter
from lookhear.engine.whisper.recognizer import WhisperRecognizer, WindowRule
from lookhear.engine.whisper.request import WhisperRequest
from tests.engine.speech.scripted import SpeltTokens

DE, EN = 1000, 1001
DEMO = Path(__file__).parents[3] / "tools/demo/lookhear_demo/whisper"
WINDOW = WindowRule(SAMPLE_RATE, SAMPLE_RATE, 30 * SAMPLE_RATE, 0)


def asked(
    languages: SessionLanguage, draft: Hypothesis | None = None, language: str | None = None
) -> WhisperRequest:
    settings = TranscriptionSettings(model="m")
    recognizer = WhisperRecognizer(SpeltTokens([]), WINDOW, settings)  # type: ignore[arg-type]
    samples = np.zeros(SAMPLE_RATE, np.float32)
    return recognizer.request(
        Stretch("s/t", Priority.LIVE, 0, samples, language, draft=draft, languages=languages)
    )


def test_nothing_is_guessed_before_anything_was_heard() -> None:
    assert asked(SessionLanguage()).language_guess is None
    assert asked(SessionLanguage(), Hypothesis()).language_guess is None


def test_what_the_last_tick_heard_is_guessed_again() -> None:
    assert asked(SessionLanguage(), Hypothesis(language="de")).language_guess == DE


def test_a_turn_is_guessed_to_be_in_the_language_of_the_one_before() -> None:
    session = SessionLanguage()
    session.conclude({"de": math.log(0.05), "en": math.log(0.95)}, 4.0)
    assert asked(session).language_guess == EN
    assert asked(session, Hypothesis()).language_guess == EN
    # What this turn's own audio said counts for more.
    assert asked(session, Hypothesis(language="de")).language_guess == DE


def test_one_language_that_may_be_spoken_is_guessed() -> None:
    assert asked(SessionLanguage(["en"])).language_guess == EN


def test_a_guess_is_no_language_that_is_settled() -> None:
    request = asked(SessionLanguage(), Hypothesis(language="de"), language="en")
    assert request.language == EN


def test_a_phrase_may_be_said_again_and_again_for_as_long_as_somebody_speaks() -> None:
    prompter = WhisperPrompter(WhisperTokenizer.from_folder(DEMO))
    recognizer = WhisperRecognizer(prompter, WINDOW, TranscriptionSettings(model="m"))
    silent = Stretch("s/t", Priority.LIVE, 0, np.zeros(4 * SAMPLE_RATE, np.float32), None)
    spoken = silent._replace(voiced_from=SAMPLE_RATE, voiced_until=3 * SAMPLE_RATE)
    assert recognizer.request(silent).loop_room == 0
    assert recognizer.request(spoken).loop_room == loop_room(2 * SAMPLE_RATE) == 10


@pytest.mark.parametrize(
    ("prompt", "told", "alone"),
    [("Ein Satz.", None, True), ("Ein Satz.", "en", False), (" ", None, False)],
)
def test_a_prompt_says_nothing_of_the_language(prompt: str, told: str | None, alone: bool) -> None:
    settings = TranscriptionSettings(model="m", prompt=prompt, language=told)
    prompter = WhisperPrompter(WhisperTokenizer.from_folder(DEMO))
    recognizer = WhisperRecognizer(prompter, WINDOW, settings)
    samples = np.zeros(SAMPLE_RATE, np.float32)
    turn = Stretch("s/t", Priority.LIVE, 0, samples, told, prompt=prompt)
    assert recognizer.request(turn).detects_alone == alone
    # Also where the turn goes on in what it began in: the session learns from all of it.
    assert recognizer.request(turn._replace(language="de")).detects_alone == alone
    check = recognizer.request(turn._replace(asks_language=True, prompt=""))
    assert len(check.head) == 1 and not check.detects_alone
    assert (len(recognizer.request(turn).head) > 1) == bool(prompt.strip())


@pytest.mark.parametrize(
    ("is_open", "committed", "is_late", "thinks"),
    [
        (True, (), False, False),  # its first text would come later
        (True, (1,), False, True),
        (True, (1,), True, False),  # a machine that has no time
        (False, (), True, True),  # who has finished speaking is heard as well as can be
        (False, (1,), False, True),
    ],
)
def test_what_is_thought_over(
    is_open: bool, committed: tuple[int, ...], is_late: bool, thinks: bool
) -> None:
    words = SpeltTokens([" one", " two"])
    doubts = Doubts(words.token_bytes, 1000)
    settings = TranscriptionSettings(model="m")
    recognizer = WhisperRecognizer(words, WINDOW, settings, doubts=doubts)  # type: ignore[arg-type]
    samples = np.zeros(SAMPLE_RATE, np.float32)
    stretch = Stretch(
        "s/t", Priority.LIVE, 0, samples, "en", committed, is_open=is_open, is_late=is_late
    )
    assert recognizer.request(stretch).doubts == (doubts if thinks else None)
    assert recognizer.request(stretch._replace(asks_language=True)).doubts is None


def behind(text: str, silence: float, language: str | None) -> str:
    """What is forced of a turn behind one that said so, with so many seconds of silence after it.
    Times are dots in brackets."""
    tokenizer = WhisperTokenizer.from_folder(DEMO)
    prompter = WhisperPrompter(tokenizer)
    settings = TranscriptionSettings(model="m")
    recognizer = WhisperRecognizer(prompter, WINDOW, settings)
    spoken = np.zeros(round((1 + silence) * SAMPLE_RATE), np.float32)
    said = tuple(tokenizer.encode(text))
    held = EarlierSegment(spoken, 0, SAMPLE_RATE, said, language, "transcribe")
    samples = np.zeros(SAMPLE_RATE, np.float32)
    request = recognizer.request(
        Stretch("s/t", Priority.LIVE, 0, samples, language, before=Earlier(segments=(held,)))
    )
    return "".join(
        "[.]" if prompter.timestamp_seconds(token) is not None else tokenizer.decode([token])
        for token in request.prefix
    )


@pytest.mark.parametrize(
    ("text", "silence", "language", "forced"),
    [
        (" And so my fellow", 0.5, "en", "[.] And so my fellow,"),
        (" And so my fellow,", 0.5, "en", "[.] And so my fellow,"),
        (" And so my fellow", 0.02, "en", "[.] And so my fellow"),  # cut, maybe within a word
        (" And so my fellow.", 0.5, "en", "[.] And so my fellow.[.][.]"),
        (" And so my fellow", 0.5, None, "[.] And so my fellow,"),
        (" my fellow.", 0.5, "en", "[.] My fellow.[.][.]"),  # "and so" was a guess
    ],
)
def test_behind_a_pause_in_a_sentence_stands_a_comma(
    text: str, silence: float, language: str | None, forced: str
) -> None:
    assert behind(text, silence, language) == forced


@pytest.mark.parametrize(
    ("language", "comma"),
    [("es", ","), ("ja", "、"), ("zh", "，"), ("ar", "،"), ("ur", "،"), ("th", "")],
)
def test_a_comma_is_the_one_of_its_language(language: str, comma: str) -> None:
    tokenizer = WhisperTokenizer.from_folder(DEMO)
    prompter, said = WhisperPrompter(tokenizer), tokenizer.encode(" one")
    assert tokenizer.decode(prompter.comma(said, language)) == comma
    assert prompter.comma(tokenizer.encode(" one" + comma), language) == () or not comma
    assert prompter.comma([], language) == ()


@pytest.mark.parametrize(
    ("text", "begun"),
    [
        (" abbiamo cenato. oggi", " Abbiamo cenato. oggi"),  # the first alone
        ("abbiamo", "Abbiamo"),
        (" Abbiamo cenato", " Abbiamo cenato"),
        (" ¿cómo está?", " ¿Cómo está?"),
        (" l'une", " L'une"),
        (" école", " École"),
        (" iPhone", " iPhone"),
        (" 7 minuti", " 7 minuti"),
        (" ...", " ..."),
        (" 今日は", " 今日は"),
        (" გამარჯობა", " გამარჯობა"),  # has capitals for headings alone
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital(text: str, begun: str) -> None:
    tokenizer = WhisperTokenizer.from_folder(DEMO)
    tokens = tokenizer.encode(text)
    told = WhisperPrompter(tokenizer).capital(tokens)
    assert tokenizer.decode(told) == begun
    if text == begun:
        assert told == tuple(tokens)
