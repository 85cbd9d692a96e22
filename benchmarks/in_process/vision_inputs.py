"""What `benchmarks.vision` asks: checkpoints of two sizes with random weights, and questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.checkpoints.loader import read_json
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl

FACTOR = 32  # pixels per visual token, both ways
Size = tuple[int, int]  # of a picture: tokens down and across


@dataclass(frozen=True, slots=True)
class Geometry:
    """text, vision: what config.json says of the two halves, besides what is always alike."""

    about: str
    text: dict[str, Any]
    vision: dict[str, Any]

    def build(self, folder: Path) -> None:
        """Writes the checkpoint."""
        pairs = self.text["head_dim"] // 2
        side = pairs * 5 // 16  # as Qwen3-VL divides 64 pairs: 24, 20, 20
        rope = {
            "rope_type": "default",
            "rope_theta": 5_000_000.0,
            "mrope_section": [pairs - 2 * side, side, side],
            "mrope_interleaved": True,
        }
        text = {"max_position_embeddings": 8192, "rope_parameters": rope, **self.text}
        vision = {"patch_size": 16, "out_hidden_size": self.text["hidden_size"], **self.vision}
        build_random_qwen3_vl(folder, text=text, vision=vision)


GEOMETRY = {
    "demo": Geometry(
        "as demo-qwen3-vl: 6 layers x 128 see, 4 x 192 speak",
        {
            "vocab_size": 645,
            "hidden_size": 192,
            "intermediate_size": 576,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 48,
        },
        {
            "depth": 6,
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_heads": 4,
            "num_position_embeddings": 144,
            "deepstack_visual_indexes": [1, 3],
        },
    ),
    "shaped": Geometry(
        "as Qwen3-VL-2B, half as wide, fewer layers: 8 x 512 see, 8 x 1024 speak",
        {
            "vocab_size": 32_768,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 8,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        {
            "depth": 8,
            "hidden_size": 512,
            "intermediate_size": 2048,
            "num_heads": 8,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [1, 3, 5],
        },
    ),
}


@dataclass(frozen=True, slots=True)
class Question:
    """tokens: the prompt. start: of the picture's placeholders in it, of size tokens. pixels:
    [1, 3, height, width] float32, normalised. answer: tokens wanted, exactly."""

    tokens: tuple[int, ...]
    start: int
    size: Size
    pixels: NDArray[np.float32]
    answer: int

    def again(self, more: Sequence[int]) -> Question:
        """The next question about the same picture, behind what was said so far."""
        return Question((*self.tokens, *more), self.start, self.size, self.pixels, self.answer)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Ids of one checkpoint. words: those without a meaning of their own."""

    image: int
    vision_start: int
    vision_end: int
    words: tuple[int, ...]

    @classmethod
    def of(cls, folder: Path) -> Vocabulary:
        """Of a checkpoint's folder."""
        config = read_json(folder / "config.json")
        named = [config[key] for key in config if key.endswith("_token_id")]
        special = {i for ids in named for i in (ids if isinstance(ids, list) else [ids])}
        size = config["text_config"]["vocab_size"]
        return cls(
            config["image_token_id"],
            config["vision_start_token_id"],
            config["vision_end_token_id"],
            tuple(i for i in range(size) if i not in special),
        )

    def draw(self, count: int, seed: int) -> list[int]:
        """So many words by lot; the seed says which."""
        found: list[int] = np.random.default_rng(seed).choice(self.words, count).tolist()
        return found

    def question(self, size: Size, text: int, answer: int, seed: int) -> Question:
        """A few words, a picture, and `text` words about it."""
        before = [*self.draw(4, 1000 + seed), self.vision_start]
        after = [self.vision_end, *self.draw(text, seed)]
        tokens = [*before, *[self.image] * (size[0] * size[1]), *after]
        shape = (1, 3, size[0] * FACTOR, size[1] * FACTOR)
        pixels = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        return Question(tuple(tokens), len(before), size, pixels, answer)

    def questions(self, shapes: Sequence[tuple[Size, int, int]]) -> list[Question]:
        """One for each shape, each of its own seed."""
        return [self.question(*shape, seed) for seed, shape in enumerate(shapes)]


# Picture, words, answer: one request, and eight of mixed lengths.
SINGLE: tuple[tuple[Size, int, int], ...] = (((16, 16), 20, 32),)
EIGHT: tuple[tuple[Size, int, int], ...] = (
    ((16, 16), 20, 32), ((8, 8), 60, 8), ((12, 10), 12, 64), ((6, 14), 110, 16),
    ((4, 4), 35, 48), ((10, 10), 8, 24), ((16, 8), 80, 12), ((7, 9), 45, 40),
)  # fmt: skip
