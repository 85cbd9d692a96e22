"""What a drawn scene holds, and drawing one by lot: shapes, a number, a word. No pixels here.

A picture is a grid of 3 x 3 cells. A shape has a cell to itself and stays clear of its borders, so
that where it is has one name; a number takes one cell or two, a word takes a row or the whole of a
small picture. Places are fractions of the picture's width and height, so a scene fits any size.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

SHAPES = ("circle", "square", "triangle", "star", "cross", "ring")
COLOURS = ("red", "green", "blue", "yellow", "black", "purple", "orange", "brown")
INKS = ("black", "black", "blue", "red", "green", "purple", "brown")  # of writing
WORDS = (
    "apple", "bank", "bird", "book", "bread", "bus", "cafe", "cat", "coffee", "dog", "door",
    "east", "exit", "fish", "hotel", "house", "key", "lemon", "milk", "moon", "music", "north",
    "open", "park", "phone", "rain", "salt", "shop", "snow", "south", "stop", "sugar", "sun",
    "taxi", "tea", "train", "tree", "water", "west", "wine",
)  # fmt: skip
NUMBER, WORD = "number", "word"
MOST_SHAPES = 5
PLACES = (
    "at the top left", "at the top", "at the top right",
    "on the left", "in the centre", "on the right",
    "at the bottom left", "at the bottom", "at the bottom right",
)  # fmt: skip


@dataclass(frozen=True)
class Thing:
    """kind: one of SHAPES, NUMBER or WORD. text: what a number or word says, as it is asked for.
    x, y: its middle; width, height: of the space it fills; fractions of the picture's sides."""

    kind: str
    colour: str
    x: float
    y: float
    width: float
    height: float
    text: str = ""

    @property
    def is_shape(self) -> bool:
        """And not a word or a number."""
        return self.kind in SHAPES

    @property
    def cell(self) -> int:
        """0 to 8 by rows from the top left: which cell its middle is in, an index of PLACES."""
        return min(2, int(3 * self.y)) * 3 + min(2, int(3 * self.x))


@dataclass(frozen=True)
class Scene:
    """things: in reading order, by cells. A picture shows at most one number and one word."""

    things: tuple[Thing, ...]

    @property
    def shapes(self) -> tuple[Thing, ...]:
        """The things that are shapes, in their order."""
        return tuple(thing for thing in self.things if thing.is_shape)

    def written(self, kind: str) -> Thing | None:
        """The number or the word, if there is one."""
        return next((thing for thing in self.things if thing.kind == kind), None)


def in_reading_order(things: list[Thing]) -> tuple[Thing, ...]:
    """By row, then by column."""
    return tuple(sorted(things, key=lambda thing: thing.cell))


def draw_scene(
    rng: random.Random, most_shapes: int = MOST_SHAPES, writing: float = 0.5, aspect: float = 1.0
) -> Scene:
    """A scene by lot. writing: chance of a number or a word or both. aspect: width / height of the
    picture it is for: shapes are as wide as high in pixels."""
    things: list[Thing] = []
    free = list(range(9))
    kinds: list[str] = []
    if rng.random() < writing:
        kinds = rng.choice(([NUMBER], [NUMBER], [WORD], [WORD], [NUMBER, WORD]))
    if WORD in kinds:
        row = rng.randrange(3)
        things.append(_word(rng, row))
        free = [cell for cell in free if cell // 3 != row]
    if NUMBER in kinds:
        cells = _number_cells(rng, free)
        things.append(_number(rng, cells))
        free = [cell for cell in free if cell not in cells]
    fewest = 0 if kinds or rng.random() < 0.04 else 1
    count = rng.randint(fewest, min(most_shapes, len(free)))
    rng.shuffle(free)
    # A few colours and kinds come again, or counting them would be counting ones.
    colours = rng.sample(COLOURS, rng.choice((2, 3, 8, 8)))
    shapes = rng.sample(SHAPES, rng.choice((2, 3, 6, 6)))
    for cell in free[:count]:
        things.append(shape_in(rng, cell, rng.choice(shapes), rng.choice(colours), aspect))
    return Scene(in_reading_order(things))


def shape_in(rng: random.Random, cell: int, kind: str, colour: str, aspect: float) -> Thing:
    """A shape of a size and place by lot inside a cell."""
    side = rng.uniform(0.5, 0.92) / 3 * min(1.0, aspect)  # of the height
    width, height = side / aspect, side
    x, y = _within(rng, cell % 3, width), _within(rng, cell // 3, height)
    return Thing(kind, colour, x, y, width, height)


def _within(rng: random.Random, index: int, side: float) -> float:
    """The middle of something of that side that stays inside a cell, with its middle at least a
    fifth of the cell away from the borders."""
    room = min(1 / 3 - side, 0.6 / 3)
    return (index + 0.5) / 3 + rng.uniform(-0.5, 0.5) * max(0.0, room)


def _number_cells(rng: random.Random, free: list[int]) -> list[int]:
    pairs = [[c, c + 1] for c in free if c % 3 < 2 and c + 1 in free]
    return rng.choice(pairs) if rng.random() < 0.6 else [rng.choice(free)]


def _number(rng: random.Random, cells: list[int]) -> Thing:
    digits = rng.choice((1, 2, 2, 3)) if len(cells) > 1 else rng.choice((1, 1, 2))
    text = str(rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits))
    x = (sum(cell % 3 for cell in cells) / len(cells) + 0.5) / 3 + rng.uniform(-0.01, 0.01)
    y = (cells[0] // 3 + 0.5) / 3 + rng.uniform(-0.015, 0.015)
    size = rng.uniform(0.7, 0.95) / 3
    return Thing(NUMBER, rng.choice(INKS), x, y, size * len(cells), size, text)


def _word(rng: random.Random, row: int) -> Thing:
    x, y = 0.5 + rng.uniform(-0.02, 0.02), (row + 0.5) / 3 + rng.uniform(-0.015, 0.015)
    return Thing(
        WORD, rng.choice(INKS), x, y, rng.uniform(0.72, 0.95), rng.uniform(0.7, 0.95) / 3,
        rng.choice(WORDS),
    )  # fmt: skip
