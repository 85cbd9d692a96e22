"""In which languages a window is heard, and which of its texts is kept."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.messages import (
    SAMPLE_RATE,
    FileTranscribed,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.engine.speech.language_trial import LEAST_SHARE, MOST_RIVALS, rivals
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.whisper.attempts import Attempt
from lookhear.engine.whisper.file import WhisperFile
from lookhear.engine.whisper.file_language import FileLanguage
from lookhear.engine.whisper.recognizer import WindowRule
from tests.engine.speech.scripted import SpeltTokens

DE, EN = 1000, 1001
WINDOW = WindowRule(30 * SAMPLE_RATE, 30 * SAMPLE_RATE, 30 * SAMPLE_RATE, 3200)
SHARES = st.dictionaries(st.integers(0, 20), st.floats(0.001, 1.0), min_size=1)
TEXTS = st.lists(st.lists(st.floats(-3.0, 0.0), min_size=1, max_size=6), min_size=3, max_size=3)


def logs(shares: dict[int, float]) -> dict[int, float]:
    return {token: math.log(share) for token, share in shares.items()}


def said(
    language: int, shares: dict[int, float], logprobs: list[float], *, loops: bool = False
) -> tuple[Result, Attempt]:
    """What a request hears: a token for each log-probability."""
    words = tuple(range(len(logprobs)))
    stop = StopReason.REPETITION if loops else StopReason.END
    result = Result("k", words, tuple(logprobs), 0, stop, language=language, languages=logs(shares))
    heard = Hypothesis.of(result, 0, 0)
    return result, Attempt.of(result, heard, heard.tokens, "text", 0.0, spoken=9.0)


@given(SHARES)
def test_rivals_are_nearly_as_likely_and_few(shares: dict[int, float]) -> None:
    found = rivals(logs(shares))
    best = max(shares.values())
    assert len(found) <= MOST_RIVALS and len(set(found)) == len(found)
    assert all(shares[token] >= 0.999 * LEAST_SHARE * best for token in found)
    left_out = sorted(shares.values())[: len(shares) - 1 - len(found)]
    assert all(share <= min([shares[t] for t in found], default=best) for share in left_out)
    assert len(found) == MOST_RIVALS or all(s <= 1.001 * LEAST_SHARE * best for s in left_out)


def test_who_knows_one_language_tries_none() -> None:
    assert rivals({}) == []


@given(SHARES, TEXTS)
def test_the_likeliest_text_with_its_language_is_kept(
    shares: dict[int, float], texts: list[list[float]]
) -> None:
    trial = FileLanguage()
    first = max(shares, key=lambda token: shares[token])
    tried = [first, *rivals(logs(shares))]
    kept = None
    for number, (language, logprobs) in enumerate(zip(tried, texts, strict=False)):
        assert kept is None
        assert trial.asked == (None if number == 0 else language)
        kept = trial.take(*said(language, shares, logprobs))
    assert kept is not None and trial.asked == kept.language
    joint = {
        language: math.log(shares[language]) + sum(logprobs)
        for language, logprobs in zip(tried, texts, strict=False)
    }
    assert kept.language is not None
    assert joint[kept.language] >= max(joint.values()) - 1e-9
    again = said(first, shares, [-9.0])
    assert trial.take(*again) is again[1], "sampled again, it is still in that language"


def test_silence_has_no_language() -> None:
    trial = FileLanguage()
    result, nothing = said(0, {0: 0.4, 1: 0.4}, [])
    assert trial.take(result, nothing) is nothing


def test_nothing_and_loops_do_not_win() -> None:
    shares = {0: 0.4, 1: 0.35}
    for worse in (said(1, shares, []), said(1, shares, [-0.1], loops=True)):
        trial = FileLanguage()
        first = said(0, shares, [-4.0])
        assert trial.take(*first) is None and trial.asked == 1
        assert trial.take(*worse) is first[1]


def hear(likely: dict[int, float], shares: dict[int, float]) -> tuple[FileTranscribed, list[int]]:
    """A recording of two windows; of a text in a language each token is that likely. -> the answer,
    and the languages that were asked for (-1: none)."""
    vocabulary = SpeltTokens([" Haus", " house"])
    message = TranscribeFile(
        "f", TranscriptionSettings(model="m"), np.zeros(50 * SAMPLE_RATE, np.float32)
    )
    job = WhisperFile(message, vocabulary, WINDOW, None)  # type: ignore[arg-type]
    asked = []
    events = job.settle()
    while job.wants_request():
        request = job.make_request()
        asked.append(-1 if request.language is None else request.language)
        language = request.language or max(shares, key=lambda token: shares[token])
        result = Result(
            request.key, (language - DE,), (likely[language],), 0, StopReason.END,
            language=language, languages=logs(shares),
        )  # fmt: skip
        events += job.absorb(result)
    (done,) = events
    assert isinstance(done, FileTranscribed)
    return done, asked


def test_a_file_is_in_the_language_in_which_it_makes_sense() -> None:
    done, asked = hear({DE: -3.0, EN: -0.1}, {DE: 0.5, EN: 0.3})
    assert (done.language, done.text) == ("en", "house house")
    assert asked == [-1, EN, EN], "the second window is in the language of the first"


def test_a_sure_language_is_not_doubted() -> None:
    done, asked = hear({DE: -0.5, EN: -0.1}, {DE: 0.95, EN: 0.01})
    assert (done.language, done.text) == ("de", "Haus Haus")
    assert asked == [-1, DE]
