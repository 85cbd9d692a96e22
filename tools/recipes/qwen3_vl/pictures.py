"""Drawn images and slices of clips at the size they are seen, with what lies under each token."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from tools.recipes.qwen3_vl.network import FRAMES, MERGE, PATCH, block_order
from tools.recipes.scenes import labels as under
from tools.recipes.scenes.clips import Clip
from tools.recipes.scenes.drawing import Box, Canvas
from tools.recipes.scenes.scenes import Scene, Thing

TOKEN = PATCH * MERGE


@dataclass(frozen=True)
class Picture:
    """An image or a slice of a clip. frames: `[FRAMES, height, width, 3]` bytes, as resized.
    cover: of each thing of the scene its tokens, in its last frame; middles: the one in its middle;
    digits: of each digit of the number. labels: see scenes.labels."""

    frames: NDArray[np.uint8]
    things: tuple[Thing, ...]
    cover: tuple[NDArray[np.int64], ...]
    token_labels: under.Labels
    patch_labels: under.Labels
    middles: tuple[int, ...]
    digits: tuple[NDArray[np.int64], ...] = ()


class PictureMaker:
    """Draws scenes at a size of height x width tokens, with what lies under each token."""

    def __init__(self, rng: random.Random, height: int, width: int) -> None:
        self.rng, self.height, self.width = rng, height, width
        rows, columns = block_order(MERGE * height, MERGE * width)
        self._blocks = (rows * MERGE * width + columns).numpy()

    @property
    def aspect(self) -> float:
        """Width by height."""
        return self.width / self.height

    def canvas(self, things: Sequence[Thing]) -> Canvas:
        """As large as it is seen, or larger, to be resized."""
        scale = 1.0 if self.rng.random() < 0.7 else self.rng.uniform(1.0, 2.6)
        stretch = 1.0 if scale == 1.0 else self.rng.uniform(0.93, 1.07)
        height = round(TOKEN * self.height * scale * stretch)
        width = round(TOKEN * self.width * scale)
        return Canvas(self.rng, height, width, things, self.rng.random() < 0.2)

    def image(self, scene: Scene) -> Picture:
        """The scene drawn, with labels of what lies where."""
        canvas = self.canvas(scene.things)
        frame = self._resized(canvas.draw(scene.things))
        letters = [
            letter
            for index, thing in enumerate(scene.things)
            if not thing.is_shape
            for letter in canvas.letters(thing, index)
        ]
        frames = np.broadcast_to(frame, (FRAMES, *frame.shape))
        picture = self._picture(frames, scene.things, [scene.things], letters)
        digits = [box for letter, box in letters if letter.isdigit()]
        return replace(picture, digits=tuple(np.flatnonzero(self._fields(b)) for b in digits))

    def clip(self, clip: Clip, doubled: bool) -> list[Picture]:
        """Slices of two frames, the last one filled up; doubled: of one frame each, twice."""
        canvas = self.canvas(clip.scene.things)
        order = range(clip.num_frames)
        drawn = [self._resized(canvas.draw(clip.things(i), self._hidden(clip, i))) for i in order]
        pairs = (
            [(i, i) for i in order]
            if doubled
            else [(i, min(i + 1, len(drawn) - 1)) for i in order[::2]]
        )
        slices = []
        for first, last in pairs:
            frames = np.stack([drawn[first], drawn[last]])
            stages = [clip.things(i) for i in {first, last}]
            slices.append(self._picture(frames, clip.things(last), stages, [], clip, (first, last)))
        return slices

    def _hidden(self, clip: Clip, frame: int) -> tuple[int, ...]:
        return (clip.motion.thing,) if frame in clip.hidden else ()

    def _picture(
        self,
        frames: NDArray[np.uint8],
        things: tuple[Thing, ...],
        stages: Sequence[Sequence[Thing]],
        letters: Sequence[tuple[str, Box]],
        clip: Clip | None = None,
        pair: tuple[int, int] = (0, 0),
    ) -> Picture:
        labels = np.zeros((self.height * self.width, under.TOKEN_LABELS), np.float32)
        cover = [self._tokens(thing) for thing in things]
        mover = None if clip is None else clip.motion.thing
        shown: list[Thing] = []
        for index in range(len(things)):
            if index == mover and clip is not None and {*pair} <= clip.hidden:
                continue
            for stage in stages:
                under.mark(labels, stage[index], self._tokens(stage[index]))
                shown.append(stage[index])
        if clip is not None:
            for name in _changes(clip, *pair):
                for stage in stages:
                    under.mark_motion(labels, name, self._tokens(stage[clip.motion.thing]))
        patch_labels = under.patch_labels(shown, letters, MERGE * self.height, MERGE * self.width)
        middles = tuple(under.middle(thing, self.height, self.width) for thing in things)
        for index, thing in enumerate(things):
            # Where it is last; labels of a thing that is not seen were left out above.
            if thing in shown and thing.is_shape:
                labels[middles[index], under.AT_MIDDLE] = 1
        places = tuple(np.flatnonzero(tokens) for tokens in cover)
        return Picture(frames, things, places, labels, patch_labels[self._blocks], middles)

    def _tokens(self, thing: Thing) -> NDArray[np.bool_]:
        return self._fields(under.extent(thing))

    def _fields(self, box: Box) -> NDArray[np.bool_]:
        return under.covered(box, self.height, self.width).ravel()

    def _resized(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """As at inference, by `PixelRules.prepare`."""
        size = (TOKEN * self.height, TOKEN * self.width)
        if frame.shape[:2] == size:
            return frame
        x = torch.from_numpy(frame).permute(2, 0, 1)[None]
        x = F.interpolate(x, size, mode="bicubic", antialias=True, align_corners=False)
        resized: NDArray[np.uint8] = x[0].permute(1, 2, 0).contiguous().numpy()
        return resized


def _changes(clip: Clip, first: int, last: int) -> list[str]:
    """What the mover does between two frames, of scenes.labels.MOTIONS."""
    motion = clip.motion
    if clip.moved[first] == clip.moved[last] and (first in clip.hidden) == (last in clip.hidden):
        return []
    return [motion.way] if motion.kind == "direction" else [motion.kind]
