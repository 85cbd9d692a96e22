"""Conversations for training: prompts as the engine builds them, targets, guides, labels."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from lookhear.engine.chat.pixels import PixelRules
from lookhear.engine.models.vision_encoder import patchify as engine_patchify
from lookhear.engine.models.vision_weights import VisionDims
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_vl.batches import collate, patchify
from tools.recipes.qwen3_vl.examples import ConversationMaker, Example, Mix
from tools.recipes.qwen3_vl.export import IMAGE_TOKENS, LIVE_FRAME_TOKENS, VIDEO_TOKENS
from tools.recipes.qwen3_vl.pictures import PictureMaker
from tools.recipes.qwen3_vl.sizes import clip_grid, image_grid, live_grid
from tools.recipes.qwen3_vl.tokenizer import SPECIAL, write_tokenizer
from tools.recipes.scenes.labels import AT_CELLS, AT_WORDS, LETTERS
from tools.recipes.scenes.scenes import draw_scene
from tools.recipes.whisper.examples import IGNORE

DIMS = VisionDims(128, 6, 4, 512, 3, 16, 2, 2, 192, 12, 10_000.0, (1, 3))
Draw = Callable[[ConversationMaker], Example]
CONVERSATIONS: dict[str, Draw] = {
    "images": lambda maker: maker.images(4, 5, 6),
    "clip": lambda maker: maker.clip(4, 5, 5, 3),
    "live": lambda maker: maker.live(4, 5, 6, 4),
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder, 0, scenes=300)
    return QwenTokenizer.from_folder(folder)


def _text(tokenizer: QwenTokenizer, ids: list[int]) -> str:
    names = {index: name for name, index in tokenizer.added.items()}
    return "".join(names.get(i) or tokenizer.decode([i]) for i in ids)


def test_tokenizer_knows_every_byte_and_tells_digits_apart(tokenizer: QwenTokenizer) -> None:
    for text in ("The number 407.", "Grüße, 世界 \n\t☃", "".join(map(chr, range(1, 256)))):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(" 407")) == 4
    assert len(tokenizer.encode("how many yellow crosses do you see")) == 7
    assert set(SPECIAL) | {"<think>", "</think>"} == set(tokenizer.added)


@pytest.mark.parametrize("kind", CONVERSATIONS)
def test_targets_are_the_answers(tokenizer: QwenTokenizer, kind: str) -> None:
    for seed in range(8):
        maker = ConversationMaker(tokenizer, random.Random(seed), Mix())
        example = CONVERSATIONS[kind](maker)
        assert len(example.tokens) == len(example.targets)
        told = [t for t in example.targets if t != IGNORE]
        answers = "".join(f"{answer}<|im_end|>" for _, _, answer in example.tasks)
        assert _text(tokenizer, told) == answers
        followed = zip(example.targets, [*example.tokens[1:], IGNORE], strict=True)
        assert all(target in (IGNORE, behind) for target, behind in followed)
        text = _text(tokenizer, example.tokens)
        assert text.count("<|im_start|>assistant\n") == len(example.tasks)


@pytest.mark.parametrize("kind", CONVERSATIONS)
def test_text_is_encoded_as_the_engine_does(tokenizer: QwenTokenizer, kind: str) -> None:
    maker = ConversationMaker(tokenizer, random.Random(5), Mix())
    example = CONVERSATIONS[kind](maker)
    special = set(tokenizer.added.values())
    run: list[int] = []
    for token in [*example.tokens, tokenizer.token(SPECIAL[0])]:
        if token in special:
            assert tokenizer.encode(tokenizer.decode(run)) == run
            run = []
        else:
            run.append(token)


@pytest.mark.parametrize("kind", CONVERSATIONS)
def test_guides_look_back_at_pictures(tokenizer: QwenTokenizer, kind: str) -> None:
    maker = ConversationMaker(tokenizer, random.Random(7), Mix())
    example = CONVERSATIONS[kind](maker)
    visual = {start + i for start in example.starts for i in range(20)}
    marks = {start - 1 for start in example.starts}
    assert example.guides
    for guide in example.guides:
        assert guide.targets and max(guide.targets) < guide.row
        assert set(guide.targets) <= visual | marks


def test_batch_has_pictures_in_their_places(tokenizer: QwenTokenizer) -> None:
    maker = ConversationMaker(tokenizer, random.Random(2), Mix())
    examples = [maker.images(4, 6, 4) for _ in range(3)]
    batch = collate(examples, 4, 6, tokenizer)
    pictures = sum(len(e.pictures) for e in examples)
    assert batch.patches.shape == (pictures, 96, 1536)
    pads = batch.tokens.flatten()[batch.place]
    assert set(pads.tolist()) == {tokenizer.token("<|image_pad|>")}
    assert len(batch.place) == 24 * pictures
    for where, mask in batch.guided:
        assert len(where) == len(mask) > 0
        assert mask.any(1).all()


def test_patches_are_the_encoders() -> None:
    frames = torch.from_numpy(
        np.random.default_rng(0).integers(0, 256, (1, 2, 64, 96, 3), dtype=np.uint8)
    )
    pixels = (frames[0].permute(0, 3, 1, 2).float() - 127.5) / 127.5
    assert torch.equal(patchify(frames)[0], engine_patchify(pixels, DIMS))


def test_labels_tell_what_is_under_a_token() -> None:
    for seed in range(12):
        rng = random.Random(seed)
        scene = draw_scene(rng)
        picture = PictureMaker(rng, 5, 5).image(scene)
        assert picture.frames.shape == (2, 160, 160, 3)
        for thing, places in zip(scene.things, picture.cover, strict=True):
            assert len(places) > 0
            if thing.is_shape:
                assert picture.token_labels[places, AT_CELLS + thing.cell].all()
        shapes = {(t.colour, t.kind) for t in scene.shapes}
        assert (picture.token_labels[:, :AT_WORDS].any(0)).sum() == len(shapes)
        letters = {c for t in scene.things for c in t.text.lower()}
        found = {LETTERS[i] for i in np.flatnonzero(picture.patch_labels[:, : len(LETTERS)].any(0))}
        assert found == letters


def test_sizes_are_those_the_limits_lead_to() -> None:
    def rules(tokens: tuple[int, int]) -> PixelRules:
        grey = (0.5, 0.5, 0.5)
        return PixelRules(32, 2, tokens[0] * 1024, tokens[1] * 1024, grey, grey)

    rng = random.Random(0)
    for _ in range(200):
        height, width = image_grid(rng)
        assert rules(IMAGE_TOKENS).image_size((32 * height, 32 * width)) == (
            32 * height,
            32 * width,
        )
        height, width, frames = clip_grid(rng)
        assert rules(VIDEO_TOKENS).video_size((32 * height, 32 * width), frames) == (
            32 * height,
            32 * width,
        )
        height, width = live_grid(rng)
        assert height * width <= LIVE_FRAME_TOKENS + 5
