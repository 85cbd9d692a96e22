"""The language of a turn: many looks, and a text that has a say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.session_language import SessionLanguage
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.turn_language import (
    AGAIN,
    SHORT,
    TurnLanguage,
    averaged,
    text_evidence,
)

CODES = ("de", "en", "es", "it", "pt")


def heard(**probabilities: float) -> dict[str, float]:
    """The rest is shared among the others."""
    others = [code for code in CODES if code not in probabilities]
    rest = (1.0 - sum(probabilities.values())) / len(others)
    return {code: math.log(probabilities.get(code, rest)) for code in CODES}


def look(language: str, mean: float = -0.9, **probabilities: float) -> Hypothesis:
    """mean: log-probability of the tokens of its text."""
    tokens = tuple(range(8))
    return Hypothesis(
        tokens, (mean,) * len(tokens), language=language, languages=heard(**probabilities)
    )


def test_a_text_that_the_model_believes_settles_what_the_sound_leaves_open() -> None:
    sound = {"es": 0.55, "pt": 0.35}
    for mean, known in ((-0.2, "es"), (-0.9, None), (-1.5, None)):
        turn = TurnLanguage(SessionLanguage(), {})
        turn.add(look("es", mean, **sound), 2 * SAMPLE_RATE)
        assert turn.known() == known, mean


def test_one_look_that_differs_changes_nothing() -> None:
    turn = TurnLanguage(SessionLanguage(), {})
    for _ in range(4):
        turn.add(look("es", -0.3, es=0.8, pt=0.1), 3 * SAMPLE_RATE)
    turn.add(look("es", -0.6, pt=0.5, es=0.4), 3 * SAMPLE_RATE)
    assert turn.known() == "es"


def test_a_look_at_a_syllable_is_forgotten() -> None:
    turn = TurnLanguage(SessionLanguage(), {})
    turn.add(look("en", -0.9, en=0.7), SHORT - 1)
    assert turn.prior().belief == {}, "the next one starts anew"
    turn.add(look("es", -0.9, es=0.7), SHORT)
    assert max(turn.heard, key=turn.heard.__getitem__) == "es"
    assert turn.prior().belief["es"] > 0.6


def test_what_comes_behind_committed_text_does_not_unsay_it() -> None:
    """The last look of a turn has a word or two left to say, and those in doubt."""
    turn = TurnLanguage(SessionLanguage(), {})
    turn.add(look("es", -0.2, es=0.55, pt=0.35), 3 * SAMPLE_RATE)
    last = look("es", -2.0, es=0.55, pt=0.35).split(2)[0]
    turn.add(last, 3 * SAMPLE_RATE)
    assert turn.known() == "es"


def test_committed_text_speaks_for_its_language_as_long_as_the_turn_lasts() -> None:
    turn = TurnLanguage(SessionLanguage(), {})
    whole = look("es", -0.2, es=0.55, pt=0.35)
    turn.add(whole, 3 * SAMPLE_RATE)
    turn.say([*whole.logprobs, *whole.logprobs])
    turn.add(look("es", -2.0, es=0.55, pt=0.35).split(4)[1], 4 * SAMPLE_RATE)
    assert turn.known() == "es", "four doubtful tokens behind sixteen good ones"
    unsaid = TurnLanguage(SessionLanguage(), {})
    unsaid.add(whole, 3 * SAMPLE_RATE)
    unsaid.add(look("es", -2.0, es=0.55, pt=0.35).split(4)[1], 4 * SAMPLE_RATE)
    assert unsaid.known() is None


def test_what_is_said_is_heard_in_several_languages_where_none_is_clear() -> None:
    turn = TurnLanguage(SessionLanguage(), {})
    italian = look("it", -0.9, it=0.5, es=0.4)
    assert turn.hear(italian, 2 * SAMPLE_RATE, is_over=False) is italian, "somebody speaks on"
    assert turn.hear(italian, 2 * SAMPLE_RATE, is_over=True) is None
    assert turn.asked(is_over=True) == "es"
    spanish = look("es", -0.2)._replace(languages={})
    assert turn.hear(spanish, 2 * SAMPLE_RATE, is_over=True) is spanish
    assert turn.asked(is_over=True) is None
    session = SessionLanguage()
    assert max(session.posterior(turn.heard, 2.0).items(), key=lambda one: one[1])[0] == "es"


def test_who_speaks_on_is_heard_as_it_seems() -> None:
    turn = TurnLanguage(SessionLanguage(), {})
    turn.hear(look("it", -0.9, it=0.5, es=0.4), 2 * SAMPLE_RATE, is_over=True)
    assert turn.asked(is_over=False) is None
    more = look("es", -0.3, es=0.6)
    assert turn.hear(more, 3 * SAMPLE_RATE, is_over=False) is more


def test_a_language_that_is_clear_is_not_tried() -> None:
    turn = TurnLanguage(SessionLanguage(), {})
    sure = look("es", -0.2, es=0.7, pt=0.2)
    assert turn.hear(sure, 2 * SAMPLE_RATE, is_over=True) is sure


def test_an_unclear_turn_of_a_clear_voice_is_heard_again_before_anything_is_told() -> None:
    def wants(turn: TurnLanguage, at: int, *, is_due: bool, is_urgent: bool = False) -> bool:
        return turn.wants_check(at, [SAMPLE_RATE], is_urgent=is_urgent, is_due=is_due)

    session = SessionLanguage()
    for _ in range(4):
        turn = TurnLanguage(session, {})
        turn.add(look("en", -0.2, en=0.97), SAMPLE_RATE)
        turn.conclude()
    unclear, clear = TurnLanguage(session, {}), TurnLanguage(session, {})
    assert wants(unclear, SAMPLE_RATE, is_due=False), "each turn is asked once"
    unclear.check(look("en", en=0.3, es=0.4), SAMPLE_RATE)
    clear.check(look("en", en=0.96), SAMPLE_RATE)
    later = SAMPLE_RATE + AGAIN
    assert not wants(unclear, later, is_due=False), "there is nothing to tell"
    assert not wants(unclear, later - 1, is_due=True), "that would be the same sound"
    assert wants(unclear, later, is_due=True)
    assert wants(unclear, later, is_due=False, is_urgent=True)
    assert not wants(clear, later, is_due=True)


def test_a_turn_tells_the_session() -> None:
    session = SessionLanguage()
    turn = TurnLanguage(session, {})
    for _ in range(3):
        turn.add(look("es", -0.2, es=0.6, pt=0.3), 3 * SAMPLE_RATE)
    turn.conclude()
    assert session.sure() == "es"
    assert turn.session.belief == session.belief
    assert TurnLanguage(session, {}).known() == "es", "before it was heard"


@pytest.mark.parametrize(
    ("sound", "language"),
    [({"pt": 0.95, "es": 0.02}, "es"), ({"en": 0.98, "es": 0.0001}, "en")],
)
def test_a_look_is_written_in_what_the_turn_is_in(sound: dict[str, float], language: str) -> None:
    """The sound of one voice does not count once more with every look at it."""
    session = SessionLanguage((), {"es": 0.96, "en": 0.02, "pt": 0.01, "it": 0.005, "de": 0.005})
    turn = TurnLanguage(session, {})
    few = Hypothesis((1,), (-0.9,), language="es", languages=heard(**sound))  # no witness
    for _ in range(8):
        turn.add(few, 2 * SAMPLE_RATE)
        believed = session.posterior(turn.heard, 2.0)
        assert max(believed, key=believed.__getitem__) == language
        expected = turn.prior().prior(CODES)
        assert max(CODES, key=lambda code: expected[code] + few.languages[code]) == language


def test_a_text_that_the_model_does_not_believe_is_tried_in_another_language() -> None:
    turn = TurnLanguage(SessionLanguage(), {})
    turn.add(look("pt", -1.4, pt=0.5, es=0.4), 2 * SAMPLE_RATE)
    expected, sound = turn.prior().prior(CODES), heard(pt=0.5, es=0.4)
    assert max(CODES, key=lambda code: expected[code] + sound[code]) == "es"


def test_looks_behind_others_say_nothing() -> None:
    turn = TurnLanguage(SessionLanguage(), {})
    turn.add(Hypothesis((1, 2), (-0.1, -0.1), language="es"), SAMPLE_RATE)
    assert turn.heard == {} and turn.known() is None


@given(st.lists(st.floats(-20, 0), min_size=1, max_size=30))
def test_a_text_says_so_much_and_no_more(logprobs: list[float]) -> None:
    less = text_evidence([p - 0.1 for p in logprobs])
    assert -1.5 <= less <= text_evidence(logprobs) <= 3.0


@given(st.lists(st.floats(0.01, 1.0), min_size=5, max_size=5), st.integers(0, 4))
def test_averages_are_probabilities(weights: list[float], shift: int) -> None:
    total = sum(weights)
    first = {code: math.log(w / total) for code, w in zip(CODES, weights, strict=True)}
    moved = weights[shift:] + weights[:shift]
    second = {code: math.log(w / total) for code, w in zip(CODES, moved, strict=True)}
    mean = averaged(first, second)
    assert math.isclose(sum(math.exp(p) for p in mean.values()), 1.0)
    assert all(math.isclose(mean[c], averaged(second, first)[c]) for c in CODES)
    assert all(math.isclose(averaged(first, first)[c], first[c], abs_tol=1e-9) for c in CODES)
