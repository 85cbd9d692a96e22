"""Alternatives: the other choice stands where the text with it is likelier, and nowhere else."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.sampling.alternatives import Alternatives, Doubts
from lookhear.engine.sampling.expected import Told, WrittenText

PIECES = [" Hac", "ido", " Ha", " sido", " expulsado", " por", " el", " sistema", " hoy", "."]
END = len(PIECES)
IDS = {piece: token for token, piece in enumerate(PIECES)}
NEVER = -100.0


def _piece(token: int) -> bytes:
    return PIECES[token].encode()


DOUBTS = Doubts(_piece, END, alike=2)


def tokens(*pieces: str) -> tuple[int, ...]:
    return tuple(IDS[piece] for piece in pieces)


REST = tokens(" expulsado", " por", " el", " sistema")
GREEDY, LIKELIER = tokens(" Hac", "ido"), tokens(" Ha", " sido")


class Model:
    """It knows texts, and how likely each of their tokens is."""

    def __init__(self, *texts: tuple[tuple[int, ...], list[float]]) -> None:
        self.texts = [((*text, END), nats) for text, nats in texts]
        assert all(len(text) == len(nats) for text, nats in self.texts)

    def nats(self, before: tuple[int, ...]) -> list[float]:
        found = [NEVER] * (END + 1)
        for text, nats in self.texts:
            at = len(before)
            if text[:at] == before and at < len(text):
                found[text[at]] = max(found[text[at]], nats[at])
        return found

    def told(self, before: tuple[int, ...], token: int) -> Told:
        nats = self.nats(before)
        other = max((t for t in range(END + 1) if t != token), key=lambda t: nats[t])
        return Told(nats[token], max(nats), (), other, nats[other])

    def best(self, before: tuple[int, ...]) -> int:
        nats = self.nats(before)
        return max(range(END + 1), key=lambda token: nats[token])


def thought_over(
    model: Model, doubts: Doubts = DOUBTS, *, is_open: bool = False, room: int = 40
) -> tuple[tuple[int, ...], int]:
    """The greedy text when all doubts are over, and the passes that took."""
    text: list[int] = []
    while not text or text[-1] != END:
        text.append(model.best(tuple(text)))
    told = tuple(model.told(tuple(text[:at]), token) for at, token in enumerate(text))
    trial = Alternatives(doubts, WrittenText(tuple(text), told), {END}, room, is_open=is_open)
    passes = 0
    while not trial.is_over:
        passes += 1
        context, guess, chosen = list(trial.context), trial.guess, list[int]()
        answers = []
        for place in range(len(guess) + 1):
            before = (*context, *guess[:place])
            is_forced = place < trial.num_forced
            chosen.append(guess[place] if is_forced else model.best(before))
            answers.append(model.told(before, chosen[-1]))
        trial.take(chosen, answers)
    final, sure = trial.result()
    assert len(final) == len(sure)
    return tuple(final), passes


def nats(*first: float) -> list[float]:
    return [*first, *[-0.1] * (len(REST) + 1)]


def test_a_likelier_text_that_begins_worse_is_found() -> None:
    model = Model(((*GREEDY, *REST), nats(-0.7, -1.5)), ((*LIKELIER, *REST), nats(-0.9, -0.1)))
    assert model.best(()) == GREEDY[0]
    text, passes = thought_over(model)
    assert text == (*LIKELIER, *REST)
    assert passes <= 4


def test_a_text_that_is_less_likely_in_all_is_not() -> None:
    model = Model(((*GREEDY, *REST), nats(-0.7, -0.1)), ((*LIKELIER, *REST), nats(-0.9, -0.1)))
    assert thought_over(model)[0] == (*GREEDY, *REST)


def test_who_is_sure_pays_nothing() -> None:
    sure = math.log(0.8)
    model = Model(((*GREEDY, *REST), nats(sure, -1.5)), ((*LIKELIER, *REST), nats(-1.7, -0.1)))
    assert thought_over(model) == ((*GREEDY, *REST), 0)
    doubted = Model(((*GREEDY, *REST), nats(-0.7, -1.5)), ((*LIKELIER, *REST), nats(-0.9, -0.1)))
    assert thought_over(doubted, Doubts(_piece, END, 0)) == ((*GREEDY, *REST), 0)


def test_a_choice_that_was_far_behind_is_not_tried() -> None:
    model = Model(((*GREEDY, *REST), nats(-0.7, -5.0)), ((*LIKELIER, *REST), nats(-3.3, -0.1)))
    assert thought_over(model) == ((*GREEDY, *REST), 0)


def test_the_last_words_of_an_open_text_wait() -> None:
    short = Model(
        ((*GREEDY, *REST[:1]), [-0.7, -1.5, -0.1, -0.1]),
        ((*LIKELIER, *REST[:1]), [-0.9, -0.1, -0.1, -0.1]),
    )
    assert thought_over(short, is_open=True) == ((*GREEDY, *REST[:1]), 0)
    assert thought_over(short)[0] == (*LIKELIER, *REST[:1])
    model = Model(((*GREEDY, *REST), nats(-0.7, -1.5)), ((*LIKELIER, *REST), nats(-0.9, -0.1)))
    assert thought_over(model, is_open=True)[0] == (*LIKELIER, *REST)


def test_a_text_that_is_over_at_once_is_no_likelier_one() -> None:
    said, hoy = (*GREEDY, *REST), tokens(" hoy")
    model = Model((said, [-0.7, *[-1.0] * (len(REST) + 2)]), (hoy, [-0.9, -0.1]))
    assert thought_over(model)[0] == said


def test_both_texts_must_be_the_same_again() -> None:
    doubts = Doubts(_piece, END, alike=2, stray=1)
    other = tokens(" Ha", " sido", " por", " hoy", " el", " hoy", " el", " hoy")
    model = Model(((*GREEDY, *REST), nats(-0.7, -1.5)), (other, [-0.9, *[-0.01] * (len(other))]))
    assert thought_over(model, doubts)[0] == (*GREEDY, *REST)


def test_what_would_not_fit_is_not_tried() -> None:
    model = Model(((*GREEDY, *REST), nats(-0.7, -1.5)), ((*LIKELIER, *REST), nats(-0.9, -0.1)))
    longest = len(GREEDY) + len(REST) + 1 + DOUBTS.stray + 2 * DOUBTS.alike
    assert thought_over(model, room=longest)[0] == (*LIKELIER, *REST)
    assert thought_over(model, room=longest - 1) == ((*GREEDY, *REST), 0)


def test_two_doubts_of_one_text_are_both_thought_over() -> None:
    one = Model(
        ((*GREEDY, *REST, *GREEDY), [*nats(-0.7, -1.5)[:-1], -0.7, -1.5, -0.1]),
        ((*LIKELIER, *REST, *GREEDY), [*nats(-0.9, -0.1)[:-1], -0.7, -1.5, -0.1]),
        ((*GREEDY, *REST, *LIKELIER), [*nats(-0.7, -1.5)[:-1], -0.9, -0.1, -0.1]),
        ((*LIKELIER, *REST, *LIKELIER), [*nats(-0.9, -0.1)[:-1], -0.9, -0.1, -0.1]),
    )
    assert thought_over(one)[0] == (*LIKELIER, *REST, *LIKELIER)


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, END - 1), min_size=1, max_size=10),
            st.lists(st.floats(-3, -0.01), min_size=11, max_size=11),
        ),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_it_comes_to_an_end(texts: list[tuple[list[int], list[float]]], is_open: bool) -> None:
    model = Model(*((tuple(text), nats[: len(text) + 1]) for text, nats in texts))
    text, passes = thought_over(model, is_open=is_open)
    assert passes <= DOUBTS.most * (DOUBTS.stray + DOUBTS.alike + 1)
    # What stands behind a change is the old text, which a model of anything need not know there.
    assert set(text) <= {token for known, _ in texts for token in known}


@given(st.lists(st.floats(-3, -0.01), min_size=4, max_size=4))
def test_of_two_ways_to_one_text_the_likelier_stays(ways: list[float]) -> None:
    model = Model(((*GREEDY, *REST), nats(*ways[:2])), ((*LIKELIER, *REST), nats(*ways[2:])))
    text, _ = thought_over(model, replace(DOUBTS, sure=1.0, behind=4.0))
    likelier = GREEDY if (sum(ways[:2]), ways[0]) > (sum(ways[2:]), ways[2]) else LIKELIER
    if abs(sum(ways[:2]) - sum(ways[2:])) > 1e-9:
        assert text == (*likelier, *REST)
