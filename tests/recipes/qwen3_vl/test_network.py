"""The network as it is trained is the one that transformers and our engine load."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_vl.batches import collate
from tools.recipes.qwen3_vl.examples import ConversationMaker, Mix
from tools.recipes.qwen3_vl.export import write_folder
from tools.recipes.qwen3_vl.network import Network, Size
from tools.recipes.qwen3_vl.tokenizer import write_tokenizer
from tools.recipes.qwen3_vl.train import label_losses, losses
from tools.recipes.scenes import labels as under

SMALL = Size(width=32, heads=2, inner=48, layers=4, side=5)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Network, Path]:
    """A network with random weights, also those that begin as ones and zeros; and its folder."""
    folder: Path = tmp_path_factory.mktemp("network")
    write_tokenizer(folder / "tokenizer", 0, scenes=200)
    tokenizer = QwenTokenizer.from_folder(folder / "tokenizer")
    torch.manual_seed(0)
    vocabulary = max(tokenizer.added.values()) + 1
    net = Network(SMALL, vocabulary, under.TOKEN_LABELS, under.PATCH_LABELS)
    with torch.no_grad():
        for weight in net.model.parameters():
            if weight.ndim == 1:
                weight.add_(0.1 * torch.randn_like(weight))
            else:
                weight.mul_(1.5)
            weight.copy_(weight.half())  # as the folder will hold it
    write_folder(net, folder / "tokenizer", folder / "checkpoint")
    return net, folder / "checkpoint"


@pytest.mark.parametrize("kind", ["images", "clip", "live"])
def test_transformers_and_our_engine_compute_the_same(
    made: tuple[Network, Path], kind: str
) -> None:
    from transformers import Qwen3VLForConditionalGeneration

    net, folder = made
    tokenizer = QwenTokenizer.from_folder(folder)
    maker = ConversationMaker(tokenizer, random.Random(3), Mix())
    height, width = (5, 4) if kind == "images" else (3, 5)
    example = {
        "images": lambda: maker.images(height, width, 5),
        "clip": lambda: maker.clip(height, width, 7, 3),
        "live": lambda: maker.live(height, width, 6, 4),
    }[kind]()
    batch = collate([example], height, width, tokenizer)
    with torch.no_grad():
        seen = net(batch.patches, batch.grid, batch.tokens, batch.positions, batch.place)
        mine = net.logits(seen.hidden)[0]
    pads = [tokenizer.token(f"<|{name}_pad|>") for name in ("image", "video")]
    kinds = sum((batch.tokens == pad) * (i + 1) for i, pad in enumerate(pads))
    grid = torch.tensor([[1, *batch.grid]] * len(example.pictures))
    names = (
        ("pixel_values", "image_grid_thw")
        if kind == "images"
        else ("pixel_values_videos", "video_grid_thw")
    )
    reader: Any = Qwen3VLForConditionalGeneration
    theirs = reader.from_pretrained(str(folder), dtype=torch.float32).eval()
    with torch.no_grad():
        logits = theirs(
            input_ids=batch.tokens,
            attention_mask=torch.ones_like(batch.tokens),
            mm_token_type_ids=kinds,
            **dict(zip(names, (batch.patches.flatten(0, 1), grid), strict=True)),
        ).logits[0]
    torch.testing.assert_close(mine, logits, atol=2e-4, rtol=1e-4)
    ours = Qwen3VLModel.from_folder(folder)
    frames = [picture.frames.transpose(0, 3, 1, 2) for picture in example.pictures]
    media = [ours.medium(((f.astype(np.float32) - 127.5) / 127.5).copy()) for f in frames]
    with torch.no_grad():
        rows, _ = net.model.visual(batch.patches, *batch.grid)
    expected = torch.cat([part.flatten(0, 1) for part in rows], 1)
    torch.testing.assert_close(torch.cat(ours.encode(media)), expected, atol=2e-4, rtol=1e-4)
    starts = list(zip(example.starts, media, strict=True))
    axes = ours.positions(len(example.tokens), starts).axes
    assert np.array_equal(axes, batch.positions[:, 0].numpy())


def test_losses_have_gradients_everywhere(made: tuple[Network, Path]) -> None:
    net, folder = made
    tokenizer = QwenTokenizer.from_folder(folder)
    maker = ConversationMaker(tokenizer, random.Random(1), Mix())
    batch = collate([maker.images(4, 4, 6) for _ in range(4)], 4, 4, tokenizer)
    parts, right, keep = losses(net, batch, 0.0)
    parts.sum().backward()  # type: ignore[no-untyped-call]
    assert parts.isfinite().all() and (parts > 0).all()
    assert right[~keep].sum() == 0 and keep.any()
    missing = [name for name, weight in net.named_parameters() if weight.grad is None]
    assert missing == []
    alone = collate([maker.pictures(4, 4) for _ in range(2)], 4, 4, tokenizer)
    assert alone.tokens.shape == (2, 0)
    assert (label_losses(net, alone)[1:3] > 0).all()
