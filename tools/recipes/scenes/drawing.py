"""Draws scenes with Pillow: shapes and writing on a light, not quite even background.

What varies: colours within their names, tilt, fonts, size of the drawing, its resizing (the same as
inference does), brightness, JPEG. The recipe wants many fonts and takes what Debian's
`fonts-dejavu-core` and `fonts-liberation` bring; a font of its own comes with Pillow.
"""

from __future__ import annotations

import io
import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from tools.recipes.scenes.scenes import NUMBER, WORD, Thing

Pixels = NDArray[np.uint8]  # [height, width, 3], RGB
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom; fractions of the sides

RGB = {
    "red": (218, 38, 40),
    "green": (40, 165, 60),
    "blue": (45, 80, 215),
    "yellow": (238, 208, 35),
    "black": (25, 25, 25),
    "purple": (145, 60, 180),
    "orange": (245, 135, 25),
    "brown": (125, 75, 35),
}
FONT_FOLDER = Path("/usr/share/fonts/truetype")
FONTS = (
    "dejavu/DejaVuSans.ttf", "dejavu/DejaVuSans-Bold.ttf", "dejavu/DejaVuSerif.ttf",
    "dejavu/DejaVuSansMono-Bold.ttf", "dejavu/DejaVuSansCondensed.ttf",
    "dejavu/DejaVuSerif-Bold.ttf", "liberation/LiberationSans-Regular.ttf",
    "liberation/LiberationSans-Bold.ttf", "liberation/LiberationSerif-Regular.ttf",
    "liberation/LiberationSerif-Bold.ttf", "liberation/LiberationMono-Bold.ttf",
    "liberation/LiberationSansNarrow-Bold.ttf",
)  # fmt: skip


@lru_cache(maxsize=1)
def fonts() -> tuple[str, ...]:
    """Paths of the fonts there are; the empty one stands for Pillow's own."""
    return ("", *(str(FONT_FOLDER / f) for f in FONTS if (FONT_FOLDER / f).is_file()))


@lru_cache(maxsize=512)
def _font(path: str, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.truetype(path, size) if path else ImageFont.load_default(size)


@dataclass(frozen=True)
class Look:
    """How one thing looks, wherever it is: its exact colour, tilt (radians), font, letters."""

    colour: tuple[int, int, int]
    tilt: float
    font: str
    text: str


class Canvas:
    """A background, and the looks of things: frames of one clip are drawn on one canvas."""

    def __init__(
        self, rng: random.Random, height: int, width: int, things: Sequence[Thing], plain: bool
    ) -> None:
        """height, width: pixels. plain: nothing but flat colours, as a drawing program has it."""
        self.height, self.width = height, width
        self._background = _background(rng, height, width, plain)
        self._looks = [_look(rng, thing) for thing in things]
        self._light = 1.0 if plain else rng.uniform(0.82, 1.0)
        self._jpeg = 0 if plain or rng.random() < 0.6 else rng.randint(45, 92)

    def draw(self, things: Sequence[Thing], hidden: Collection[int] = ()) -> Pixels:
        """things: those of the constructor, in their order, perhaps elsewhere. hidden: indices of
        those that are left out."""
        image = Image.fromarray(self._background)
        brush = ImageDraw.Draw(image)
        for index, thing in enumerate(things):
            if index in hidden:
                continue
            if thing.is_shape:
                self._shape(brush, thing, self._looks[index])
            else:
                _write(brush, thing, self._looks[index], self.height, self.width)
        if self._light < 1:
            image = image.point(lambda value: int(value * self._light))
        if self._jpeg:
            file = io.BytesIO()
            image.save(file, "JPEG", quality=self._jpeg)
            image = Image.open(file)
        return np.array(image)

    def letters(self, thing: Thing, index: int) -> list[tuple[str, Box]]:
        """Where each letter or digit of a thing that is written is."""
        font, left, top, right, bottom = _placed(thing, self._looks[index], self.height, self.width)
        text = self._looks[index].text
        ends = [font.getlength(text[:i]) for i in range(len(text) + 1)]
        scale = (right - left) / max(ends[-1], 1)
        return [
            (
                letter.lower(),
                (
                    (left + ends[i] * scale) / self.width,
                    top / self.height,
                    (left + ends[i + 1] * scale) / self.width,
                    bottom / self.height,
                ),
            )
            for i, letter in enumerate(text)
        ]

    def _shape(self, brush: ImageDraw.ImageDraw, thing: Thing, look: Look) -> None:
        x, y = thing.x * self.width, thing.y * self.height
        r = thing.height * self.height / 2
        if thing.kind == "circle":
            brush.ellipse((x - r, y - r, x + r, y + r), fill=look.colour)
        elif thing.kind == "ring":
            brush.ellipse(
                (x - r, y - r, x + r, y + r), outline=look.colour, width=max(2, round(0.42 * r))
            )
        else:
            brush.polygon(_outline(thing.kind, x, y, r, look.tilt), fill=look.colour)


def _outline(kind: str, x: float, y: float, r: float, tilt: float) -> list[Point]:
    points: list[Point]
    match kind:
        case "square":
            s = 0.86
            points = [(-s, -s), (s, -s), (s, s), (-s, s)]
        case "triangle":
            points = [(0, -0.95), (0.98, 0.82), (-0.98, 0.82)]
        case "star":
            points = []
            for i in range(10):
                far = 1.0 if i % 2 == 0 else 0.42
                angle = math.pi * i / 5
                points.append((far * math.sin(angle), -far * math.cos(angle)))
        case _:
            assert kind == "cross", kind
            a, b = 0.3, 0.97
            points = [
                (-a, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a),
                (a, b), (-a, b), (-a, a), (-b, a), (-b, -a), (-a, -a),
            ]  # fmt: skip
    cos, sin = math.cos(tilt), math.sin(tilt)
    return [(x + r * (u * cos - v * sin), y + r * (u * sin + v * cos)) for u, v in points]


def _background(rng: random.Random, height: int, width: int, plain: bool) -> Pixels:
    tint = np.array([rng.randint(222, 255) for _ in range(3)], np.float32)
    kind = 0.0 if plain else rng.random()
    if plain or kind < 0.35:
        if rng.random() < 0.5:
            tint[:] = 255
        return np.broadcast_to(tint.astype(np.uint8), (height, width, 3)).copy()
    other = np.array([rng.randint(200, 255) for _ in range(3)], np.float32)
    angle = rng.uniform(0, 2 * math.pi)
    across = np.linspace(-0.5, 0.5, width, dtype=np.float32)[None] * math.cos(angle)
    down = np.linspace(-0.5, 0.5, height, dtype=np.float32)[:, None] * math.sin(angle)
    share = (np.clip(across + down + 0.5, 0, 1))[..., None]
    picture = tint * (1 - share) + other * share
    if kind > 0.7:
        noise = np.random.default_rng(rng.getrandbits(32)).standard_normal(
            (height // 2 + 1, width // 2 + 1, 1), np.float32
        )
        grain = noise.repeat(2, 0).repeat(2, 1)[:height, :width]
        picture = picture + grain * rng.uniform(2, 9)
    return np.clip(picture, 0, 255).astype(np.uint8)


def _look(rng: random.Random, thing: Thing) -> Look:
    r, g, b = (min(255, max(0, v + rng.randint(-14, 14))) for v in RGB[thing.colour])
    text = thing.text
    if thing.kind == WORD:
        text = rng.choice((text, text.upper(), text.capitalize()))
    tilt = rng.uniform(-0.16, 0.16) if rng.random() < 0.5 else 0.0
    return Look((r, g, b), tilt, rng.choice(fonts()), text)


def _placed(
    thing: Thing, look: Look, height: int, width: int
) -> tuple[ImageFont.FreeTypeFont | ImageFont.ImageFont, float, float, float, float]:
    """The font at the size that fills the thing's box, and the ink's box in pixels."""
    wide, high = thing.width * width, thing.height * height
    # As measured at a fixed size: one measurement a text and font.
    left, top, right, bottom = _extent(look.font, look.text)
    size = max(6, int(100 * min(wide / (right - left), high / (bottom - top))))
    # A short word in a tall box would be huge beside the others.
    size = min(size, int(1.1 * high)) if thing.kind == NUMBER else size
    left, top, right, bottom = (v * size / 100 for v in (left, top, right, bottom))
    x = thing.x * width - (right - left) / 2
    y = thing.y * height - (bottom - top) / 2
    return _font(look.font, size), x, y, x + right - left, y + bottom - top


@lru_cache(maxsize=4096)
def _extent(path: str, text: str) -> Box:
    left, top, right, bottom = _font(path, 100).getbbox(text)
    return float(left), float(top), max(float(right), left + 1.0), max(float(bottom), top + 1.0)


def _write(brush: ImageDraw.ImageDraw, thing: Thing, look: Look, height: int, width: int) -> None:
    font, x, y, _, _ = _placed(thing, look, height, width)
    left, top, _, _ = font.getbbox(look.text)
    brush.text((x - left, y - top), look.text, fill=look.colour, font=font)
