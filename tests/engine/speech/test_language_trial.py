"""Hearing a text in several languages, and which is kept."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.speech.language_trial import MOST_RIVALS, LanguageTrial
from lookhear.engine.speech.text.hypothesis import Hypothesis


def heard(language: str, *logprobs: float) -> Hypothesis:
    return Hypothesis(tuple(range(len(logprobs))), logprobs, language=language)


def sound(**probabilities: float) -> dict[str, float]:
    return {code: math.log(p) for code, p in probabilities.items()}


def test_the_likeliest_text_is_kept_with_its_language() -> None:
    trial = LanguageTrial()
    by_sound = sound(it=0.5, es=0.3, pt=0.15, ro=0.01)
    assert trial.take(heard("it", -1.0, -1.2, -0.9), by_sound) is None
    assert trial.asked == "es"
    spanish = heard("es", -0.2, -0.3, -0.2)
    assert trial.take(spanish, {}) is None
    assert trial.asked == "pt"
    assert trial.take(heard("pt", -0.9, -0.8, -1.0), {}) is spanish
    assert trial.asked is None


def test_the_likeliest_by_sound_is_tried_where_another_was_written() -> None:
    """What earlier looks expect may outvote the sound of the last one."""
    trial = LanguageTrial()
    assert trial.take(heard("es", -0.5, -0.5), sound(it=0.6, es=0.35)) is None
    assert trial.asked == "it"


def test_what_leaves_out_most_of_it_is_not_the_likeliest() -> None:
    trial = LanguageTrial()
    whole = heard("es", *[-0.8] * 8)
    trial.take(whole, sound(es=0.5, en=0.5))
    assert trial.take(heard("en", -0.3, -0.3), {}) is whole


def test_a_language_that_is_clear_by_sound_has_no_rival() -> None:
    trial = LanguageTrial()
    only = heard("es", -3.0)
    assert trial.take(only, sound(es=0.95, pt=0.05)) is only


def test_who_speaks_on_begins_anew() -> None:
    trial = LanguageTrial()
    trial.take(heard("it", -1.0), sound(it=0.5, es=0.4))
    trial.drop()
    assert trial.asked is None
    better = heard("es", -0.1)
    assert trial.take(better, sound(es=0.95, it=0.05)) is better


@given(
    st.dictionaries(st.sampled_from(["de", "en", "es", "it", "pt"]), st.floats(-9, 0), min_size=1),
    st.lists(st.lists(st.floats(-5, 0), max_size=6), min_size=9, max_size=9),
)
def test_a_trial_ends_with_one_that_was_heard(
    by_sound: dict[str, float], texts: list[list[float]]
) -> None:
    trial, tried = LanguageTrial(), []
    language: str | None = max(by_sound, key=by_sound.__getitem__)
    for logprobs in texts:
        assert language is not None
        tried.append(heard(language, *logprobs))
        best = trial.take(tried[-1], by_sound)
        if best is not None:
            assert best in tried
            assert len({one.language for one in tried}) == len(tried) <= 1 + MOST_RIVALS
            return
        language = trial.asked
    raise AssertionError("no end")
