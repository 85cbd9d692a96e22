"""Conversations as tensors: padded tokens, targets, positions, pictures, guides for attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.paged.mrope import Grid, PromptPositions
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.checkpoints.qwen_vocabulary import END_OF_TEXT
from tools.recipes.qwen3_vl.examples import Example
from tools.recipes.qwen3_vl.network import FRAMES, MERGE, PATCH, PATCH_VALUES
from tools.recipes.qwen3_vl.pictures import TOKEN
from tools.recipes.scenes import labels as under
from tools.recipes.whisper.examples import IGNORE


@dataclass(frozen=True)
class Batch:
    """patches: `[pictures, patches, PATCH_VALUES]`. guided: of both guided layers
    (asked, answered) `[guides, 4]` (example, head, row, whether even) and targets `[guides, n]`."""

    patches: Tensor
    grid: tuple[int, int]
    tokens: Tensor
    targets: Tensor
    positions: Tensor
    place: Tensor
    token_labels: Tensor
    patch_labels: Tensor
    guided: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]


def collate(
    examples: Sequence[Example], height: int, width: int, tokenizer: QwenTokenizer
) -> Batch:
    """Pads conversations; pictures are height x width tokens."""
    n = max(len(e.tokens) for e in examples)
    tokens = torch.full((len(examples), n), tokenizer.token(END_OF_TEXT))
    targets = torch.full((len(examples), n), IGNORE)
    positions = torch.zeros(3, len(examples), n, dtype=torch.long)
    place: list[NDArray[np.int64]] = []
    for i, e in enumerate(examples):
        tokens[i, : len(e.tokens)] = torch.tensor(e.tokens)
        targets[i, : len(e.targets)] = torch.tensor(e.targets)
        grids = [Grid(start, height, width) for start in e.starts]
        axes = PromptPositions.of(len(e.tokens), grids).axes
        positions[:, i, : len(e.tokens)] = torch.from_numpy(np.ascontiguousarray(axes))
        place += [i * n + start + np.arange(height * width) for start in e.starts]
    pictures = [p for e in examples for p in e.pictures]
    frames = (
        np.stack([p.frames for p in pictures])
        if pictures
        else np.zeros((0, FRAMES, TOKEN * height, TOKEN * width, 3), np.uint8)
    )
    return Batch(
        patchify(torch.from_numpy(frames)),
        (MERGE * height, MERGE * width),
        tokens,
        targets,
        positions,
        torch.from_numpy(np.concatenate(place)) if place else torch.zeros(0, dtype=torch.long),
        torch.from_numpy(np.stack([p.token_labels for p in pictures]))
        if pictures
        else torch.zeros(0, height * width, under.TOKEN_LABELS),
        torch.from_numpy(np.stack([p.patch_labels for p in pictures]))
        if pictures
        else torch.zeros(0, height * width * MERGE**2, under.PATCH_LABELS),
        (_guided(examples, n, True), _guided(examples, n, False)),
    )


def patchify(frames: Tensor) -> Tensor:
    """`[pictures, FRAMES, height, width, 3]` bytes to normalised `[pictures, patches, values]`."""
    count, _, height, width, channels = frames.shape
    x = frames.view(
        count, FRAMES, height // TOKEN, MERGE, PATCH, width // TOKEN, MERGE, PATCH, channels
    )
    x = x.permute(0, 2, 5, 3, 6, 8, 1, 4, 7).reshape(count, -1, PATCH_VALUES)
    return (x.float() - 127.5) / 127.5


def _guided(examples: Sequence[Example], n: int, asked: bool) -> tuple[Tensor, Tensor]:
    rows = [
        (i, head, guide.row, guide.even, guide.targets)
        for i, e in enumerate(examples)
        for guide in e.guides
        if guide.asked == asked
        for head in guide.heads
    ]
    where = torch.tensor([row[:4] for row in rows], dtype=torch.long).view(-1, 4)
    mask = np.zeros((len(rows), n), bool)
    for i, row in enumerate(rows):
        mask[i, list(row[4])] = True
    return where, torch.from_numpy(mask)
