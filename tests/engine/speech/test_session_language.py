"""A session's language: inherited by what is short, changed by what is clear."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.speech.earlier import EarlierSpeech
from lookhear.engine.speech.session_language import (
    LONG,
    SEVERAL,
    SOLID,
    SURE,
    SessionLanguage,
)
from lookhear.engine.speech.speaker import Speaker

CODES = ("de", "en", "es", "it", "pt")


def heard(**probabilities: float) -> dict[str, float]:
    """The rest is shared among the others."""
    others = [code for code in CODES if code not in probabilities]
    rest = (1.0 - sum(probabilities.values())) / len(others)
    return {code: math.log(probabilities.get(code, rest)) for code in CODES}


def likeliest(language: SessionLanguage, turn: dict[str, float], seconds: float = 4.0) -> str:
    posterior = language.posterior(turn, seconds)
    return max(posterior, key=posterior.__getitem__)


def after(*turns: dict[str, float]) -> SessionLanguage:
    language = SessionLanguage()
    for turn in turns:
        language.conclude(turn, 4.0)
    return language


def test_a_short_turn_inherits_what_was_heard_before() -> None:
    mumbled = heard(it=0.9, es=0.05)
    session = after(heard(es=0.7), heard(es=0.6))
    assert likeliest(SessionLanguage(), mumbled, 1.0) == "it"
    assert likeliest(session, mumbled, 1.0) == "es"
    assert likeliest(session, mumbled, 4.0) == "it", "a sentence says more than a syllable"


@given(st.floats(0.0, 20.0), st.floats(0.0, 20.0))
def test_the_more_is_heard_the_sooner_a_change_is_believed(one: float, other: float) -> None:
    session, turn = after(heard(es=0.95)), heard(en=0.9, es=0.05)
    shorter, longer = sorted((one, other))
    assert session.posterior(turn, shorter)["en"] <= session.posterior(turn, longer)["en"]


def test_many_unsure_turns_make_a_sure_session() -> None:
    language = SessionLanguage()
    for _ in range(4):
        assert likeliest(language, heard(es=0.4, it=0.3)) == "es"
        language.conclude(heard(es=0.6, it=0.3), 2.0)
    assert language.posterior(heard(es=0.4, it=0.3), 2.0)["es"] >= SURE


def test_a_change_that_is_clearly_heard_is_followed() -> None:
    language = after(*[heard(es=0.95)] * 50)
    assert likeliest(language, heard(en=0.9999)) == "en"
    language.conclude(heard(en=0.9999), 4.0)
    assert likeliest(language, heard(en=0.6, es=0.3)) == "en"


def test_a_change_that_may_be_one_is_no_certainty() -> None:
    """The text will tell: Spanish people, whom the model takes for English by one in eight."""
    language = after(*[heard(en=0.95)] * 50)
    believed = language.posterior(heard(es=0.8, en=0.1), 4.0)
    assert max(believed.values()) < SURE
    assert set(sorted(believed, key=believed.__getitem__)[-2:]) == {"en", "es"}


def test_only_candidates_are_believed() -> None:
    language = SessionLanguage(["de", "es"])
    turn = heard(en=0.9, es=0.05, de=0.01)
    assert set(language.posterior(turn, 4.0)) == {"de", "es"}
    assert likeliest(language, turn) == "es"
    assert set(language.prior(CODES)) == {"de", "es"}


def test_other_candidates_leave_what_is_known_of_them() -> None:
    mumbled, session = heard(it=0.9, es=0.05), after(heard(es=0.7, de=0.2), heard(es=0.6))
    fewer = session.among(["es", "it"])
    assert fewer.candidates == {"es", "it"}
    assert set(fewer.belief) == {"es", "it"} and sum(fewer.belief.values()) == pytest.approx(1.0)
    assert likeliest(fewer, mumbled, 1.0) == "es"
    assert likeliest(fewer.among([]), mumbled, 1.0) == "es"
    assert session.among(["it", "pt"]).belief == {}, "it was another one most likely"
    assert SessionLanguage().among([]).belief == {}


@pytest.mark.parametrize("later", [["es", "it"], []], ids=["fewer", "any"])
def test_a_session_goes_on_in_its_language_among_other_candidates(later: list[str]) -> None:
    speaker = Speaker(EarlierSpeech())
    speaker.language(["es", "it", "pt"]).conclude(heard(es=0.9), 4.0)
    assert likeliest(speaker.language(later), heard(it=0.9, es=0.05), 1.0) == "es"


@pytest.mark.parametrize("later", [["es", "it"], []], ids=["fewer", "any"])
def test_candidates_may_change_while_the_turn_before_is_heard(later: list[str]) -> None:
    """However far behind who listens is."""
    speaker = Speaker(EarlierSpeech())
    first = speaker.language(["es", "it", "pt"])
    second = speaker.language(later)
    third = speaker.language(["en", "es"])
    first.conclude(heard(es=0.9), 4.0)
    assert likeliest(second, heard(it=0.9, es=0.05), 1.0) == "es"
    assert likeliest(third, heard(en=0.9, es=0.05), 1.0) == "es"
    second.join(heard(es=0.95), SOLID)
    assert third.is_solid


def test_candidates_that_a_checkpoint_has_not_are_no_candidates() -> None:
    assert set(SessionLanguage(["xx"]).prior(CODES)) == set(CODES)


def test_a_checkpoint_of_one_language_has_nothing_to_guess() -> None:
    assert SessionLanguage().prior([]) == {}


@given(st.lists(st.tuples(*[st.floats(1e-9, 1.0)] * len(CODES)), min_size=1, max_size=40))
def test_a_belief_is_a_distribution(turns: list[tuple[float, ...]]) -> None:
    language = SessionLanguage()
    for turn in turns:
        now = {code: math.log(p / sum(turn)) for code, p in zip(CODES, turn, strict=True)}
        posterior = language.posterior(now, 1.0 + sum(turn), now)
        assert sum(posterior.values()) == pytest.approx(1.0)
        assert all(value >= 0.0 for value in posterior.values())
        language.conclude(now, 1.0 + sum(turn), now, now)


def test_a_turn_that_says_nothing_of_languages_changes_nothing() -> None:
    language = after(heard(es=0.9))
    before = language.prior(CODES)
    language.conclude({}, 4.0)
    assert language.prior(CODES) == before


def voice(*turns: dict[str, float]) -> SessionLanguage:
    """A session in which each turn was heard so after a second."""
    language = SessionLanguage()
    for turn in turns:
        language.conclude(turn, 4.0, turn, turn)
    return language


def sure_of(language: SessionLanguage, turn: dict[str, float], seconds: float) -> str | None:
    posterior = language.posterior(turn, seconds, turn)
    likeliest = max(posterior, key=posterior.__getitem__)
    return likeliest if posterior[likeliest] >= SURE else None


def test_of_a_voice_that_was_always_clear_an_unclear_turn_is_in_doubt() -> None:
    unclear = heard(en=0.25, es=0.35)
    clear, mumbling = voice(*[heard(en=0.97)] * 4), voice(*[heard(en=0.6, de=0.3)] * 4)
    assert sure_of(mumbling, unclear, 1.0) == "en"
    assert sure_of(clear, unclear, 1.0) is None
    assert sure_of(clear, unclear, 0.5) == "en", "a syllable is never clear"
    assert sure_of(clear, heard(en=0.9), 1.0) == "en"
    assert clear.doubt(1.0, unclear) > 0.0 == clear.doubt(1.0, heard(en=0.98))


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(1.0, 10.0))
def test_the_less_clear_the_more_doubt(one: float, other: float, seconds: float) -> None:
    session = voice(*[heard(en=0.97)] * 3)
    less, more = sorted((one, other))
    assert session.doubt(seconds, heard(en=less)) >= session.doubt(seconds, heard(en=more)) >= 0.0


def test_who_spoke_two_languages_goes_back_rather_than_to_a_third() -> None:
    session, between = voice(heard(es=0.9), heard(en=0.999)), heard(es=0.45, pt=0.45)
    posterior = session.posterior(between, 4.0, between)
    assert posterior["es"] > 5 * posterior["pt"]
    posterior = voice(heard(en=0.999)).posterior(between, 4.0, between)
    assert posterior["es"] == pytest.approx(posterior["pt"])


def test_a_turn_that_is_nothing_like_the_others_does_not_make_the_voice_less_clear() -> None:
    session, odd = voice(*[heard(en=0.99)] * 4), heard(en=0.02, es=0.3)
    known = session.spoken["en"]
    session.conclude(heard(en=0.99), 4.0, heard(en=0.99), odd)
    assert session.spoken["en"] == known
    session.conclude(heard(en=0.99), 4.0, heard(en=0.99), heard(en=0.97))
    assert session.spoken["en"] > known


def test_a_new_language_is_remembered_from_its_first_turn() -> None:
    session, spanish = voice(*[heard(en=0.99)] * 4), heard(es=0.999)
    session.conclude(spanish, 4.0, spanish, spanish)
    assert session.sure() == "es"
    assert set(session.spoken) == {"en", "es"}


def test_short_turns_are_in_what_they_sound_like_together() -> None:
    """Each was taken for English, with a language that the voice never spoke before it."""
    language = SessionLanguage()
    for turn in (heard(en=0.5, de=0.2), heard(en=0.4, de=0.3), heard(en=0.6, de=0.1)):
        language.conclude(turn, 1.0, turn, turn)
    short = 0.5
    assert likeliest(language, heard(de=0.5, en=0.1), short) == "en" and not language.is_solid
    language.join(heard(de=0.6, en=0.1), SEVERAL)
    assert likeliest(language, heard(en=0.5, de=0.2), short) == "de"
    assert language.sure() is None and not language.is_solid, "there is more to come"
    language.join(heard(de=0.95, en=0.01), SOLID)
    assert language.is_solid and likeliest(language, heard(en=0.5, de=0.1), short) == "de"


def test_what_several_turns_do_not_tell_changes_nothing() -> None:
    language = after(heard(en=0.9))
    before = language.prior(CODES)
    language.join(heard(de=0.4, en=0.3), SOLID)
    language.join({}, SOLID)
    assert language.prior(CODES) == before and not language.is_solid
    only = SessionLanguage(["es", "de"], {"de": 1.0})
    only.join(heard(en=0.9, es=0.08), SOLID)
    assert only.sure() == "es", "nobody speaks what is no candidate"


def test_a_language_is_solid_once_a_long_turn_was_in_it_until_another_is_spoken() -> None:
    language = SessionLanguage()
    language.conclude(heard(en=0.99), 1.0)
    assert not language.is_solid
    language.conclude(heard(en=0.99), LONG)
    assert language.is_solid
    language.conclude(heard(en=0.5, de=0.3), 0.5)
    assert language.is_solid
    language.conclude(heard(de=0.9999), 2.9)
    assert likeliest(language, heard(de=0.5, en=0.3)) == "de" and not language.is_solid
