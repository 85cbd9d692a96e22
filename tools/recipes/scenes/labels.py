"""What lies under each visual token and each patch of a drawn picture: labels to learn from.

Of a token (32 x 32 pixels): which coloured shapes, which word, which digits of a number, which cell
of the picture, what moves there, and whether it is the middle of a shape. Of a patch (16 x 16):
which letters and digits, colours and shapes.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tools.recipes.scenes.drawing import Box
from tools.recipes.scenes.scenes import COLOURS, NUMBER, SHAPES, WORD, WORDS, Thing

Labels = NDArray[np.float32]
LETTERS = string.ascii_lowercase + string.digits
AT_WORDS = len(COLOURS) * len(SHAPES)
AT_DIGITS = AT_WORDS + len(WORDS)
AT_CELLS = AT_DIGITS + 30
AT_MOTION = AT_CELLS + 9
MOTIONS = ("blinks", "jumps", "left", "right", "up", "down")
AT_PARTS = AT_MOTION + len(MOTIONS)
PARTS = (*COLOURS, *SHAPES)  # what coloured shapes have in common
AT_MIDDLE = AT_PARTS + len(PARTS)
TOKEN_LABELS = AT_MIDDLE + 1
PATCH_LABELS = len(LETTERS) + len(PARTS)


def covered(box: Box, height: int, width: int, least: float = 0.12) -> NDArray[np.bool_]:
    """Which fields of a grid `[height, width]` a box covers to a part worth mentioning: `least` of
    the field or a quarter of the box. At least one: where its middle is."""
    left, top, right, bottom = box
    rows, columns = np.arange(height), np.arange(width)
    high = np.minimum(rows + 1, bottom * height) - np.maximum(rows, top * height)
    wide = np.minimum(columns + 1, right * width) - np.maximum(columns, left * width)
    area = np.clip(high, 0, None)[:, None] * np.clip(wide, 0, None)[None]
    own = max(1e-6, (bottom - top) * height * (right - left) * width)
    found: NDArray[np.bool_] = (area >= least) | (area >= 0.25 * own)
    row = min(height - 1, max(0, int((top + bottom) / 2 * height)))
    column = min(width - 1, max(0, int((left + right) / 2 * width)))
    found[row, column] = True
    return found


def middle(thing: Thing, height: int, width: int) -> int:
    """The field of a grid that a thing's middle is in, counted by rows."""
    row, column = int(thing.y * height), int(thing.x * width)
    return min(height - 1, max(0, row)) * width + min(width - 1, max(0, column))


def extent(thing: Thing) -> Box:
    """The space a thing fills."""
    across, down = thing.width / 2, thing.height / 2
    return thing.x - across, thing.y - down, thing.x + across, thing.y + down


def mark(labels: Labels, thing: Thing, where: NDArray[np.bool_]) -> None:
    """Marks a thing in token labels `[tokens, TOKEN_LABELS]`. where: `[tokens]`."""
    if thing.kind == WORD:
        labels[where, AT_WORDS + WORDS.index(thing.text)] = 1
    elif thing.kind == NUMBER:
        for place, digit in enumerate(reversed(thing.text)):
            labels[where, AT_DIGITS + 10 * place + int(digit)] = 1
    else:
        labels[where, COLOURS.index(thing.colour) * len(SHAPES) + SHAPES.index(thing.kind)] = 1
        labels[where, AT_CELLS + thing.cell] = 1
        for part in (thing.colour, thing.kind):
            labels[where, AT_PARTS + PARTS.index(part)] = 1


def mark_motion(labels: Labels, motion: str, where: NDArray[np.bool_]) -> None:
    """Marks these patches as moving so."""
    labels[where, AT_MOTION + MOTIONS.index(motion)] = 1


def patch_labels(
    things: Sequence[Thing], letters: Sequence[tuple[str, Box]], height: int, width: int
) -> Labels:
    """`[height * width, PATCH_LABELS]`, by rows. height, width: in patches."""
    labels = np.zeros((height * width, PATCH_LABELS), np.float32)
    for letter, box in letters:
        labels[covered(box, height, width, 0.2).ravel(), LETTERS.index(letter)] = 1
    for thing in things:
        where = covered(extent(thing), height, width, 0.25).ravel()
        for part in (thing.colour, thing.kind) if thing.is_shape else ():
            labels[where, len(LETTERS) + PARTS.index(part)] = 1
    return labels
