"""Spoken questions: what training hears, what it never hears, and the recorded two."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tools.recipes.scenes.questions import with_article
from tools.recipes.scenes.scenes import COLOURS, SHAPES
from tools.recipes.speech.corpus import UNSEEN_VARIANTS, VARIANTS
from tools.recipes.speech.spoken_questions import (
    QUESTION,
    RECORDED,
    evaluation_orders,
    is_held_out,
    question,
    training_orders,
)

ROOT = Path(__file__).parents[3]
RECORDINGS = ROOT / "tools" / "demo" / "lookhear_demo" / "recordings"
DATA = ROOT / "tests" / "data"


def test_a_few_pairs_of_colour_and_shape_are_held_out() -> None:
    things = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]
    asked = [f"Where is the {thing}?" for thing in things]
    asked += [f"Is there {with_article(thing)}?" for thing in things]
    assert [text for text in asked if is_held_out(text)] == [
        "Where is the orange cross?",
        "Is there a blue circle?",
        "Is there a blue ring?",
    ]
    assert not is_held_out("What colour is the circle?")
    assert not is_held_out("How many red shapes are there?")


def test_a_drawn_question_is_of_the_wanted_part() -> None:
    rng = random.Random(0)
    for held_out in (False, True):
        drawn = [question(rng, held_out) for _ in range(12)]
        assert all(is_held_out(item.text("en")) == held_out for item in drawn)
        assert {item.template for item in drawn} == {QUESTION}


def test_a_training_speaker_asks_three_questions_and_says_a_sentence() -> None:
    orders = training_orders(0, 12)
    assert len(orders) == 12
    assert len({order.number for order in orders}) == 12
    for order in orders:
        *asked, said = order.sentences
        assert [item.template for item in asked] == [QUESTION] * 3
        assert not any(is_held_out(item.text("en")) for item in asked)
        assert said.template != QUESTION
        assert not said.held_out


@pytest.mark.parametrize("seen", [True, False])
def test_every_sixth_evaluated_question_is_asked_by_no_training_speaker(seen: bool) -> None:
    orders = evaluation_orders(7, seen, 30)
    texts = [order.sentences[0].text("en") for order in orders]
    assert [is_held_out(text) for text in texts] == [i % 6 == 0 for i in range(30)]
    variants = {o.speaker.voice.partition("+")[2].replace(" ", "_") for o in orders} - {""}
    assert variants <= set(VARIANTS if seen else UNSEEN_VARIANTS)


def test_same_seed_same_orders() -> None:
    assert training_orders(3, 4) == training_orders(3, 4)
    assert training_orders(3, 4) != training_orders(4, 4)


@pytest.mark.parametrize(("name", "asked"), RECORDED.items())
def test_a_recorded_question_is_small_and_told_in_its_json(name: str, asked: str) -> None:
    assert (RECORDINGS / f"{name}.opus").stat().st_size < 20_000
    told = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    assert told["text"] == asked
    assert told["file"] == f"{name}.opus"


def test_the_evaluated_questions_are_those_of_the_splits() -> None:
    entries = json.loads((DATA / "questions.json").read_text(encoding="utf-8"))
    assert len(entries) == 120
    for seen in (True, False):
        group = [entry for entry in entries if entry["seen_voice"] == seen]
        assert sum(is_held_out(entry["text"]) for entry in group) == 10
