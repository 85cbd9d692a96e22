"""In which languages windows are heard, which of their texts is kept, and who changes between."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.files.attempts import Attempt
from lookhear.engine.whisper.files.file import WhisperFile
from lookhear.engine.whisper.files.language import MOST_ALIKE, FileLanguage, WindowLanguage
from lookhear.engine.whisper.prompt import WhisperPrompter
from lookhear.engine.whisper.recognizer import WindowRule
from lookhear.engine.whisper.request import WhisperRequest
from tests.engine.speech.scripted import FIRST_STAMP, SpeltTokens

DE, EN = 1000, 1001
DEMO = Path(__file__).parents[4] / "tools/demo/lookhear_demo/whisper"
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
    trial = WindowLanguage()
    first = max(shares, key=lambda token: shares[token])
    tried = [first, *rivals(logs(shares))]
    kept = None
    for number, (language, logprobs) in enumerate(zip(tried, texts, strict=False)):
        assert kept is None
        assert trial.asked == (None if number == 0 else language)
        kept = trial.take(*said(language, shares, logprobs), logs(shares))
    assert kept is not None and trial.asked == kept.language
    joint = {
        language: math.log(shares[language]) + sum(logprobs)
        for language, logprobs in zip(tried, texts, strict=False)
    }
    assert kept.language is not None
    assert joint[kept.language] >= max(joint.values()) - 1e-9
    again = said(first, shares, [-9.0])
    assert trial.take(*again, logs(shares)) is again[1], (
        "sampled again, it is still in that language"
    )


def test_silence_has_no_language() -> None:
    trial = WindowLanguage()
    shares = {0: 0.4, 1: 0.4}
    result, nothing = said(0, shares, [])
    assert trial.take(result, nothing, logs(shares)) is nothing


def test_nothing_and_loops_do_not_win() -> None:
    shares = {0: 0.4, 1: 0.35}
    for worse in (said(1, shares, []), said(1, shares, [-0.1], loops=True)):
        trial = WindowLanguage()
        first = said(0, shares, [-4.0])
        assert trial.take(*first, logs(shares)) is None and trial.asked == 1
        assert trial.take(*worse, logs(shares)) is first[1]


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
        prior = request.language_prior
        language = request.language or max(
            shares, key=lambda token: math.log(shares[token]) + prior[token]
        )
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
    # The second window may be in the other one, and so is heard without a text before it.
    assert asked == [-1, EN, -1, -1, DE]


def test_a_sure_language_is_not_doubted() -> None:
    done, asked = hear({DE: -0.5, EN: -0.1}, {DE: 0.95, EN: 0.01})
    assert (done.language, done.text) == ("de", "Haus Haus")
    assert asked == [-1, -1]


@pytest.mark.parametrize(
    ("prompt", "told", "alone"),
    [("Ein Satz.", None, True), ("Ein Satz.", "en", False), (" ", None, False)],
)
def test_a_prompt_says_nothing_of_the_language(prompt: str, told: str | None, alone: bool) -> None:
    settings = TranscriptionSettings(model="m", prompt=prompt, language=told)
    message = TranscribeFile("f", settings, np.zeros(9 * SAMPLE_RATE, np.float32))
    prompter = WhisperPrompter(WhisperTokenizer.from_folder(DEMO))
    request = WhisperFile(message, prompter, WINDOW, None).make_request()
    assert request.detects_alone == alone
    assert (len(request.head) > 1) == bool(prompt.strip())


# --- a recording in several ----------------------------------------------------------------------


SOUNDS = st.dictionaries(st.sampled_from(["de", "en", "es"]), st.floats(-9.0, 0.0), min_size=2)


def sound(**shares: float) -> dict[str, float]:
    return {code: math.log(share) for code, share in shares.items()}


@given(SOUNDS, st.sampled_from(["de", "en", "es"]))
def test_what_was_heard_before_is_likelier_and_others_as_likely_as_they_sound(
    heard: dict[str, float], known: str
) -> None:
    weighed = FileLanguage(known=known).weighed(heard)
    assert weighed.keys() == heard.keys()
    gains = {code: weighed[code] - heard[code] for code in heard}
    assert all((gain > 1.0) == (code == known) for code, gain in gains.items())


@given(SOUNDS)
def test_only_candidates_are_weighed_and_mixed(heard: dict[str, float]) -> None:
    language = FileLanguage(candidates=["de"])
    if "de" in heard:
        assert list(language.weighed(heard)) == ["de"] and not language.is_mixed(heard)


def test_languages_that_sound_alike_are_not_told_apart_for_ever() -> None:
    language, alike = FileLanguage(), sound(hr=0.5, bs=0.4, en=0.001)
    for _ in range(MOST_ALIKE):
        assert language.is_mixed(alike)
        language.sound_alike(alike)
    assert not language.is_mixed(alike)
    assert language.is_mixed(sound(hr=0.5, en=0.4)), "others are"
    language.keep("hr", sound(hr=0.99, bs=0.01))
    language.keep("bs", sound(hr=0.01, bs=0.99))
    assert language.is_mixed(alike), "who was heard to change is told apart"


def test_a_change_is_clear_or_none() -> None:
    language = FileLanguage(known="en")
    assert language.has_changed(sound(en=0.01, de=0.9))
    assert not language.has_changed(sound(en=0.2, de=0.7)), "a mumbled part inherits"
    assert not FileLanguage().has_changed(sound(de=0.9)), "there was none before"


class Talk:
    """Turns of five seconds, with pauses of a second. shares: of German in each. A model that
    writes all of a window in the language that is asked for, or that most of it is in."""

    def __init__(self, *shares: float) -> None:
        self.shares = shares
        self.speech = [(i * TURN, i * TURN + 4 * SAMPLE_RATE) for i in range(len(shares))]
        self.samples = np.repeat(np.arange(len(shares), dtype=np.float32), TURN)

    def hear(self, **wanted: Any) -> tuple[FileTranscribed, list[WhisperRequest]]:
        """The answer, and what was asked."""
        settings = TranscriptionSettings("m", **wanted)
        message = TranscribeFile("f", settings, self.samples, speech=self.speech)
        vocabulary = SpeltTokens([" Haus", " house"])
        job = WhisperFile(message, vocabulary, WINDOW, None)  # type: ignore[arg-type]
        requests, events = list[WhisperRequest](), job.settle()
        while job.wants_request():
            request = job.make_request()
            requests.append(request)
            turns, counts = np.unique(request.samples.astype(int), return_counts=True)
            spoken = [turn for turn, n in zip(turns, counts, strict=True) if n > SAMPLE_RATE]
            german = float(np.mean([self.shares[turn] for turn in spoken]))
            if len(request.head) > 1:  # behind a text it sounds like that
                german = (german + 3 * (request.head[2] == 0)) / 4
            heard = logs({DE: max(german, 0.001), EN: max(1 - german, 0.001)})
            prior = request.language_prior
            language = request.language or max(
                heard, key=lambda one: heard[one] + prior.get(one, -9.0)
            )
            said = (FIRST_STAMP, language - DE, FIRST_STAMP + len(request.samples) // 320)
            events += job.absorb(
                Result(
                    request.key,
                    said,
                    (-0.1,) * 3,
                    0,
                    StopReason.END,
                    language=language,
                    languages=heard,
                )  # fmt: skip
            )
        (done,) = events
        assert isinstance(done, FileTranscribed)
        return done, requests


def texts(done: FileTranscribed) -> list[str]:
    return [segment.text.strip() for segment in done.segments]


TURN = 5 * SAMPLE_RATE


@pytest.mark.parametrize("shares", [[1.0] * 14, [0.0] * 14, [0.97] * 14])
def test_one_language_is_heard_in_full_windows_behind_each_other(shares: list[float]) -> None:
    done, requests = Talk(*shares).hear()
    assert len(requests) == len(done.segments) <= 4
    assert {*texts(done)} == {"Haus" if shares[0] > 0.5 else "house"}
    assert all(len(request.head) > 1 for request in requests[1:])


@pytest.mark.parametrize(
    "shares", [[1.0] * 6 + [0.0] * 6, [0.0, 1.0] * 6, [1.0, 1.0, 0.0] * 4, [0.0] * 9 + [1.0] * 2]
)
def test_each_turn_is_heard_in_its_own_language(shares: list[float]) -> None:
    done, _ = Talk(*shares).hear()
    for turn, share in enumerate(shares):
        middle = 5.0 * turn + 2.0
        (segment,) = [one for one in done.segments if one.start <= middle < one.end]
        assert segment.text.strip() == ("Haus" if share else "house")
    pieces = Counter(texts(done))
    assert (
        done.language == ("de" if pieces["Haus"] > pieces["house"] else "en")
        or len({*pieces.values()}) == 1
    )


def test_who_was_told_the_language_hears_all_in_it() -> None:
    done, requests = Talk(0.0, 1.0, 0.0, 1.0).hear(language="de")
    assert {*texts(done)} == {"Haus"} and len(requests) == len(done.segments)


def test_a_translation_is_behind_english_and_stays_in_its_language() -> None:
    _, requests = Talk(*[1.0] * 14).hear(task="translate")
    assert [request.language for request in requests] == [None, *[DE] * (len(requests) - 1)]


def test_neighbours_end_to_be_parted() -> None:
    """A model to which everything sounds like both gets on as with one."""
    _, requests = Talk(*[0.6] * 60).hear()
    longest = [len(request.samples) for request in requests[-4:]]
    assert max(longest) > 25 * SAMPLE_RATE, "in full windows in the end"
    assert len(requests) < 50
