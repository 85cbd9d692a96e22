"""Scenes and clips by lot, and their drawing."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.recipes.scenes.clips import MOST_FRAMES, Clip, draw_clip, next_slide
from tools.recipes.scenes.drawing import RGB, Canvas
from tools.recipes.scenes.labels import covered, extent
from tools.recipes.scenes.scenes import (
    MOST_SHAPES,
    NUMBER,
    PLACES,
    WORD,
    WORDS,
    Scene,
    Thing,
    draw_scene,
)

SEEDS = st.integers(0, 10_000)
ASPECTS = st.sampled_from((0.6, 1.0, 1.78))
KINDS = ("direction", "blinks", "jumps")


def _in_order(scene: Scene) -> None:
    cells = [thing.cell for thing in scene.things]
    assert cells == sorted(cells)
    shapes = [thing.cell for thing in scene.shapes]
    assert len(set(shapes)) == len(shapes) <= MOST_SHAPES


def _clear_of_borders(thing: Thing, aspect: float) -> None:
    """A shape lies in its cell and is round in pixels."""
    row, column = divmod(thing.cell, 3)
    left, top, right, bottom = extent(thing)
    assert column / 3 <= left + 1e-9 and right <= (column + 1) / 3 + 1e-9
    assert row / 3 <= top + 1e-9 and bottom <= (row + 1) / 3 + 1e-9
    assert thing.width * aspect == pytest.approx(thing.height)


@given(SEEDS, ASPECTS)
@settings(max_examples=60, deadline=None)
def test_where_a_shape_is_has_one_name(seed: int, aspect: float) -> None:
    scene = draw_scene(random.Random(seed), aspect=aspect)
    _in_order(scene)
    for thing in scene.shapes:
        _clear_of_borders(thing, aspect)
    for kind in (NUMBER, WORD):
        assert sum(thing.kind == kind for thing in scene.things) <= 1
    word, number = scene.written(WORD), scene.written(NUMBER)
    assert word is None or word.text in WORDS
    assert number is None or str(int(number.text)) == number.text
    assert len(PLACES) == 9


def test_the_same_seed_draws_the_same() -> None:
    def draw() -> tuple[Scene, bytes]:
        rng = random.Random(4)
        scene = draw_scene(rng)
        return scene, Canvas(rng, 96, 128, scene.things, plain=False).draw(scene.things).tobytes()

    assert draw() == draw()


def test_a_shape_has_its_colour_where_it_is() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        scene = draw_scene(rng, writing=0.0)
        picture = Canvas(rng, 120, 120, scene.things, plain=True).draw(scene.things)
        assert picture.shape == (120, 120, 3) and picture.dtype == np.uint8
        for thing in scene.shapes:
            x, y = thing.x * 120, thing.y * 120
            if thing.kind == "ring":
                y -= thing.height * 120 * 0.4
            found = picture[int(y), int(x)].astype(int)
            assert np.abs(found - np.array(RGB[thing.colour])).max() <= 20


def test_letters_are_inside_their_word() -> None:
    word = Thing(WORD, "black", 0.5, 0.5, 0.9, 0.3, "lemon")
    canvas = Canvas(random.Random(1), 96, 192, [word], plain=True)
    letters = canvas.letters(word, 0)
    assert "".join(letter for letter, _ in letters) == "lemon"
    edges = [box[0] for _, box in letters] + [letters[-1][1][2]]
    assert edges == sorted(edges) and edges[0] > 0.02 and edges[-1] < 0.98


def _moves(clip: Clip) -> list[tuple[float, float]]:
    return [(clip.things(i)[clip.motion.thing].x, clip.things(i)[clip.motion.thing].y)
            for i in range(clip.num_frames)]  # fmt: skip


@given(SEEDS, ASPECTS, st.sampled_from(KINDS))
@settings(max_examples=60, deadline=None)
def test_a_clip_does_what_it_says(seed: int, aspect: float, kind: str) -> None:
    clip = draw_clip(random.Random(seed), kind, aspect)
    assert 2 <= clip.num_frames <= MOST_FRAMES
    _in_order(clip.scene)
    places = _moves(clip)
    first, last = places[0], places[-1]
    assert all(0 < x < 1 and 0 < y < 1 for x, y in places)
    assert 0 not in clip.hidden and clip.num_frames - 1 not in clip.hidden
    motion = clip.motion
    if kind == "direction":
        across, down = last[0] - first[0], last[1] - first[1]
        told = {"left": across < 0, "right": across > 0, "up": down < 0, "down": down > 0}
        assert [way for way, true in told.items() if true] == ([motion.way] if motion.way else [])
    elif kind == "blinks":
        assert len(clip.hidden) == motion.times and len(set(places)) == 1
    else:
        raised = [i for i, place in enumerate(places) if place != last]
        assert len(raised) == motion.times and not clip.hidden
        assert all(b - a > 1 for a, b in zip(raised, raised[1:], strict=False))
        assert all(places[i][1] < last[1] for i in raised)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_next_slide_is_a_scene_again(seed: int) -> None:
    rng = random.Random(seed)
    scene = draw_scene(rng)
    for _ in range(4):
        scene = next_slide(rng, scene)
        _in_order(scene)


def test_covered_fields() -> None:
    whole = covered((0.0, 0.0, 1.0, 1.0), 2, 3)
    assert whole.all()
    corner = covered((0.0, 0.0, 0.1, 0.1), 4, 4)
    assert corner.sum() == 1 and corner[0, 0]
    assert covered((0.4, 0.4, 0.6, 0.6), 2, 2).all()  # a quarter of it in each
