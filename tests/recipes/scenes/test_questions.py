"""Questions about scenes: the answer is true, and no question leaves it open."""

from __future__ import annotations

import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tools.recipes.scenes.clips import draw_clip
from tools.recipes.scenes.questions import (
    COUNTS,
    FORMS,
    SPOKEN_FORMS,
    TIMES,
    WAYS,
    Asker,
    caption,
    matching,
    mentions,
    plural,
    spoken_question,
    style,
    with_article,
)
from tools.recipes.scenes.scenes import COLOURS, PLACES, SHAPES, Scene, Thing, draw_scene

SEEDS = st.integers(0, 10_000)
STILL = [task for task in FORMS if task not in ("direction", "blinks", "jumps")]
PLURALS = {plural(shape): shape for shape in (*SHAPES, "shape")}


def _named(scene: Scene, text: str) -> list[Thing]:
    """Shapes that the words of a question name, found in another way than the asker's."""
    words = [PLURALS.get(word, word) for word in re.findall(r"[a-z]+", text.lower())]
    colours = [word for word in words if word in COLOURS]
    kinds = [word for word in words if word in SHAPES]
    return [
        thing
        for thing in scene.shapes
        if (not colours or thing.colour in colours) and (not kinds or thing.kind in kinds)
    ]


def _true(scene: Scene, task: str, text: str) -> str:
    named = _named(scene, text)
    if task in ("colour", "shape", "position"):
        assert len(named) <= 1, (text, scene)
        if not named:
            colour = next((w for w in COLOURS if f" {w}" in text), "")
            kind = next((w for w in SHAPES if w in text), "shape")
            return f"There is no {colour} {kind}.".replace("  ", " ")
        thing = named[0]
        if task == "position":
            return PLACES[thing.cell].capitalize() + "."
        return f"{thing.colour}.".capitalize() if task == "colour" else _a(thing.kind)
    if task == "count":
        return COUNTS[len(named)]
    if task == "presence":
        return "Yes." if named else "No."
    if task == "description":
        return "".join(piece.text for piece in caption(scene))
    written = scene.written(task)
    if written is None:
        return f"There is no {task}."
    return f"{written.text}." if task == "number" else f"The word is {written.text}."


def _a(kind: str) -> str:
    return f"{with_article(kind)}.".capitalize()


@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_answers_are_true(seed: int) -> None:
    rng = random.Random(seed)
    scene = draw_scene(rng)
    asker = Asker(scene, rng)
    for task in STILL:
        question = asker.ask(task)
        if question is not None:
            assert question.answer_text == _true(scene, task, question.text), question
            assert question.missing <= (question.answer_text[:5] in ("There", "None."))
    assert asker.ask("direction") is None


@given(SEEDS, st.sampled_from(("direction", "blinks", "jumps")))
@settings(max_examples=60, deadline=None)
def test_answers_about_motion_are_true(seed: int, kind: str) -> None:
    rng = random.Random(seed)
    clip = draw_clip(rng, kind)
    question = Asker(clip.scene, rng, clip.motion).ask(kind)
    if question is None:
        return
    (named,) = _named(clip.scene, question.text)
    motion = clip.motion
    moves = named is clip.scene.things[motion.thing]
    if kind == "direction":
        expected = WAYS[motion.way] if moves and motion.way else "It does not move."
    else:
        expected = TIMES[motion.times] if moves and motion.times else f"It does not {kind[:-1]}."
    assert question.answer_text == expected


def test_caption_names_all_in_reading_order() -> None:
    things = (
        Thing("circle", "orange", 0.2, 0.2, 0.2, 0.2),
        Thing("number", "black", 0.5, 0.2, 0.2, 0.2, "40"),
        Thing("word", "black", 0.5, 0.8, 0.9, 0.2, "tea"),
    )
    pieces = caption(Scene(things))
    assert "".join(p.text for p in pieces) == "An orange circle, the number 40 and the word tea."
    assert [p.things for p in pieces if p.things] == [(0,), (1,), (2,)]
    assert caption(Scene(()))[0].text == "I see nothing."


def test_mentions_are_what_a_question_names() -> None:
    things = draw_scene(random.Random(3)).things
    text = "How many red circles are there?"
    assert mentions(text, things) == [(9, 20, matching(things, "red circle"))]
    assert mentions("is there a cross", things)[0][:2] == (11, 16)
    assert mentions("What do you see?", things) == []


def test_spoken_questions_are_a_small_closed_set() -> None:
    rng = random.Random(0)
    found = {spoken_question(rng) for _ in range(8000)}
    assert len(found) <= 200
    assert all(q[0].isupper() and q.endswith("?") and "{" not in q for q in found)
    assert all(
        set(q) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz ?") for q in found
    )
    typed = {form for forms in FORMS.values() for form in forms}
    first = {form.split("{")[0] for form in typed}
    assert {form.split("{")[0] for form in SPOKEN_FORMS} & first


def test_style_changes_only_spelling_and_marks() -> None:
    rng = random.Random(1)
    styled = {style("What colour is the ring?", rng) for _ in range(200)}
    assert "What colour is the ring?" in styled and "what color is the ring" in styled
    assert len(styled) == 8
