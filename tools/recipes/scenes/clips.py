"""Short clips: one shape moves, blinks or jumps, or nothing does; and slide shows."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tools.recipes.scenes.questions import Motion
from tools.recipes.scenes.scenes import (
    COLOURS,
    MOST_SHAPES,
    SHAPES,
    Scene,
    Thing,
    in_reading_order,
    shape_in,
)

MOST_FRAMES, MOST_TIMES = 8, 3
STEPS = {"left": -1, "right": 1, "up": -1, "down": 1}


@dataclass(frozen=True)
class Clip:
    """scene: the last frame's. moved: how far, in fractions of the sides, the thing that moves is
    from its last place, frame by frame; hidden: the frames in which it is not seen."""

    scene: Scene
    motion: Motion
    moved: tuple[tuple[float, float], ...]
    hidden: frozenset[int]

    @property
    def num_frames(self) -> int:
        """Of the clip."""
        return len(self.moved)

    def things(self, frame: int) -> tuple[Thing, ...]:
        """Those of the scene, in its order, where they are in a frame."""
        across, down = self.moved[frame]
        index = self.motion.thing
        return tuple(
            replace(thing, x=thing.x + across, y=thing.y + down) if i == index else thing
            for i, thing in enumerate(self.scene.things)
        )


def draw_clip(
    rng: random.Random, kind: str, aspect: float = 1.0, most_shapes: int = 3, frames: int = 0
) -> Clip:
    """A clip of one kind of motion by lot. frames: how many; 0: any number from 2 to 8 in which
    what is drawn can be seen."""
    assert kind in ("direction", "blinks", "jumps"), kind
    if kind == "direction":
        return _moving(rng, aspect, most_shapes, frames or rng.randint(2, MOST_FRAMES))
    most = MOST_TIMES if not frames else (frames - 1) // 2
    times = rng.randint(0, min(most, MOST_TIMES))
    frames = frames or rng.randint(max(2, 2 * times + 1), MOST_FRAMES)
    at = _apart(rng, times, frames)
    row, column = rng.randrange(1 if kind == "jumps" else 0, 3), rng.randrange(3)
    home = row * 3 + column
    taken = {home, home - 3} if kind == "jumps" else {home}
    mover = _any_shape(rng, home, aspect)
    scene, index = _with_others(rng, mover, taken, aspect, most_shapes)
    height = -rng.uniform(0.16, 0.24)
    moved = tuple(
        (0.0, height) if kind == "jumps" and frame in at else (0.0, 0.0) for frame in range(frames)
    )
    hidden = frozenset(at if kind == "blinks" else ())
    return Clip(scene, Motion(kind, index, times=times), moved, hidden)


def _moving(rng: random.Random, aspect: float, most_shapes: int, frames: int) -> Clip:
    way = rng.choice(("left", "right", "up", "down", "left", "right", "up", "down", ""))
    lane = rng.randrange(3)
    across = way in ("left", "right") or (way == "" and rng.random() < 0.5)
    cells = [lane * 3 + i if across else i * 3 + lane for i in range(3)]
    first, last = rng.choice(((0, 1), (1, 2), (0, 2), (0, 2)))
    if way in ("left", "up") or (way == "" and rng.random() < 0.5):
        first, last = last, first
    mover = _any_shape(rng, cells[last], aspect)
    scene, index = _with_others(rng, mover, set(cells), aspect, most_shapes)
    total = 0.0 if way == "" else (first - last) / 3
    path = [total * (1 - frame / (frames - 1)) for frame in range(frames)]
    moved = tuple((step, 0.0) if across else (0.0, step) for step in path)
    return Clip(scene, Motion("direction", index, way=way), moved, frozenset())


def _any_shape(rng: random.Random, cell: int, aspect: float) -> Thing:
    return shape_in(rng, cell, rng.choice(SHAPES), rng.choice(COLOURS), aspect)


def _with_others(
    rng: random.Random, mover: Thing, taken: set[int], aspect: float, most_shapes: int
) -> tuple[Scene, int]:
    """A scene with the mover and other shapes that look different; and the mover's index."""
    free = [cell for cell in range(9) if cell not in taken]
    rng.shuffle(free)
    things = [mover]
    for cell in free[: rng.randint(0, min(most_shapes, MOST_SHAPES) - 1)]:
        other = _any_shape(rng, cell, aspect)
        if (other.kind, other.colour) != (mover.kind, mover.colour):
            things.append(other)
    ordered = in_reading_order(things)
    return Scene(ordered), ordered.index(mover)


def _apart(rng: random.Random, times: int, frames: int) -> list[int]:
    """So many frames, neither the first nor the last, no two of them neighbours."""
    inner = frames - 2
    picked = sorted(rng.sample(range(inner - times + 1), times)) if times else []
    return [1 + frame + i for i, frame in enumerate(picked)]


def next_slide(rng: random.Random, scene: Scene, aspect: float = 1.0) -> Scene:
    """The scene after one change: a shape comes, goes, or is replaced."""
    things = list(scene.things)
    shapes = [i for i, thing in enumerate(things) if thing.is_shape]
    if shapes and rng.random() < 0.6:
        del things[rng.choice(shapes)]
        if rng.random() < 0.4:
            return Scene(tuple(things))
    free = _free_cells(things)
    if free and sum(thing.is_shape for thing in things) < MOST_SHAPES:
        things.append(_any_shape(rng, rng.choice(free), aspect))
    return Scene(in_reading_order(things))


def _free_cells(things: list[Thing]) -> list[int]:
    taken = set()
    for thing in things:
        for cell in range(9):
            apart_x = abs(thing.x - (cell % 3 + 0.5) / 3) >= thing.width / 2 + 1 / 6
            apart_y = abs(thing.y - (cell // 3 + 0.5) / 3) >= thing.height / 2 + 1 / 6
            if not (apart_x or apart_y):
                taken.add(cell)
    return [cell for cell in range(9) if cell not in taken]
