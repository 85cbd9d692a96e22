"""Our SmolVLM and transformers' on the same random checkpoints, float32: the same numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.digests import block_digests
from lookhear.engine.paged.request import Medium
from lookhear.engine.smolvlm.model import SmolVlmModel
from tests.engine.models.driving import Decoder
from tools.random_checkpoints.smolvlm import IMAGE_TOKEN, build_random_smolvlm

TOLERANCE = 1e-4

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "idefics3": {"kind": "Idefics3", "tied_head": True, "seed": 1},
    "other_geometry": {
        "text": {"hidden_size": 40, "num_key_value_heads": 1, "num_hidden_layers": 3},
        "vision": {
            "hidden_size": 48, "num_attention_heads": 3, "image_size": 55, "patch_size": 2,
            "layer_norm_eps": 1e-5,
        },
        "scale": 3,  # 27 patches on a side, and a pixel that none has, as in the largest of them
        "seed": 2,
    },
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Scene:
    """A prompt with crops in it."""

    tokens: list[int]
    media: list[tuple[int, Medium]]
    pixels: list[Tensor]


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: SmolVlmModel
    theirs: Any

    def crop(self, seed: int) -> Tensor:
        size = self.ours.encoder.dims.size
        return torch.randn(3, size, size, generator=torch.Generator().manual_seed(seed))

    def scene(self, *texts: int, seed: int = 0) -> Scene:
        """texts: so many tokens each, a crop between two of them."""
        generator = torch.Generator().manual_seed(seed)
        tokens: list[int] = []
        media, pixels = list[tuple[int, Medium]](), list[Tensor]()
        for index, count in enumerate(texts):
            if index:
                pixels.append(self.crop(100 * seed + index))
                medium = self.ours.medium(pixels[-1].numpy())
                media.append((len(tokens), medium))
                tokens += [IMAGE_TOKEN] * medium.num_tokens
            tokens += torch.randint(140, (count,), generator=generator).tolist()
        return Scene(tokens, media, pixels)

    def embeddings(self, scene: Scene, first: int, last: int) -> Tensor:
        """Of the prompt's tokens [first, last), as a chunk of it would be embedded."""
        inputs = self.ours.decoder.embed(torch.tensor(scene.tokens)).clone()
        rows = self.ours.encode([medium for _, medium in scene.media])
        for (start, medium), own in zip(scene.media, rows, strict=True):
            inputs[start : start + medium.num_tokens] = own
        return inputs[first:last]

    def their_logits(self, scene: Scene, more: list[int] | None = None) -> Tensor:
        """[prompt and more, vocab], no cache."""
        inputs = {"pixel_values": torch.stack(scene.pixels)[None]} if scene.pixels else {}
        with torch.inference_mode():
            logits: Tensor = self.theirs(
                input_ids=torch.tensor([scene.tokens + (more or [])]), **inputs, use_cache=False
            ).logits[0]
        return logits


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_smolvlm(folder, **SHAPES[request.param])
    return Pair(SmolVlmModel.from_folder(folder), theirs)


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def test_the_encoder_alone_and_batched(pair: Pair) -> None:
    crops = [pair.crop(seed) for seed in range(19)]  # more than one pass takes
    with torch.inference_mode():
        theirs = torch.cat(
            list(pair.theirs.model.get_image_features(torch.stack(crops)[None]).pooler_output)
        )
    together = pair.ours.encoder.encode(crops)
    assert (torch.cat(together) - theirs).abs().max().item() <= TOLERANCE
    alone = pair.ours.encoder.encode(crops[7:8])[0]
    assert torch.allclose(alone, together[7], atol=1e-5)
    assert pair.ours.encoder.encode([]) == []


@pytest.mark.parametrize("texts", [(9,), (3, 5), (2, 1, 0, 4)])
def test_whole_prompt_at_once(pair: Pair, texts: tuple[int, ...]) -> None:
    scene = pair.scene(*texts, seed=3)
    whole = pair.embeddings(scene, 0, len(scene.tokens))
    close(Decoder(pair.ours.decoder).step({"a": whole})["a"], pair.their_logits(scene))


def test_prefill_cut_at_every_place_also_inside_crops(pair: Pair) -> None:
    scene = pair.scene(3, 1, 4, seed=1)
    total = len(scene.tokens)
    theirs, whole = pair.their_logits(scene), pair.embeddings(scene, 0, total)
    for cut in range(1, total):
        decoder = Decoder(pair.ours.decoder, shuffle=cut)
        parts = [whole[:cut], whole[cut:]]
        close(torch.cat([decoder.step({"a": part})["a"] for part in parts]), theirs)


def test_greedy_tokens_batched_and_alone(pair: Pair) -> None:
    scenes = {"a": pair.scene(4, 3), "b": pair.scene(7, seed=1), "c": pair.scene(1, 0, 5, seed=2)}
    texts: dict[str, list[int]] = {}
    for names in (list(scenes), *([name] for name in scenes)):
        decoder = Decoder(pair.ours.decoder, shuffle=1)
        feed = {n: pair.embeddings(scenes[n], 0, len(scenes[n].tokens)) for n in names}
        mine: dict[str, list[int]] = {name: [] for name in names}
        for _ in range(10):
            for name, logits in decoder.step(feed, padding=3).items():
                mine[name].append(int(logits[-1].argmax()))
            feed = {n: pair.ours.decoder.embed(torch.tensor(t[-1:])) for n, t in mine.items()}
        for name in names:
            assert texts.setdefault(name, mine[name]) == mine[name]
    compared = [name for name, text in texts.items() if IMAGE_TOKEN not in text]
    assert compared  # of others, transformers would look for the picture
    for name in compared:
        scene, text = scenes[name], texts[name]
        theirs = pair.their_logits(scene, text[:-1])[len(scene.tokens) - 1 :]
        assert theirs.argmax(-1).tolist() == text


def test_cached_and_uncached(pair: Pair) -> None:
    first = pair.scene(5, 20, 6, seed=5)
    changed = dataclasses.replace(first, tokens=[*first.tokens[:-4], 9, 8, 7, 6])
    spans = [medium.span(start) for start, medium in first.media]
    decoder = Decoder(pair.ours.decoder, shuffle=3)
    decoder.step({"first": pair.embeddings(first, 0, len(first.tokens))})
    decoder.commit("first", block_digests(first.tokens, spans))
    total = len(changed.tokens)
    cached = decoder.start("second", block_digests(changed.tokens, spans), total)
    assert cached == (total - 4) // BLOCK_TOKENS * BLOCK_TOKENS > 0
    got = decoder.step({"second": pair.embeddings(changed, cached, total)})["second"]
    close(got, pair.their_logits(changed)[cached:])
    decoder.finish()


def test_bfloat16_stays_close(tmp_path: Path) -> None:
    theirs = build_random_smolvlm(tmp_path)
    exact = SmolVlmModel.from_folder(tmp_path)
    short = SmolVlmModel.from_folder(tmp_path, dtype=torch.bfloat16)
    assert exact.num_parameters == sum(p.numel() for p in theirs.parameters())
    assert (exact.image_token, exact.end_tokens) == (IMAGE_TOKEN, (150, 151))
    crop = Pair(exact, None).crop(1)
    one, other = (model.encoder.encode([crop])[0] for model in (exact, short))
    assert other.dtype == torch.bfloat16
    assert (other.float() - one).norm() <= 0.05 * one.norm()


def test_what_published_files_leave_out(tmp_path: Path) -> None:
    """The geometry of SigLIP's base, of which they name the width and the heads."""
    left_out = ("intermediate_size", "num_hidden_layers", "num_channels", "hidden_act")
    vision = {"hidden_size": 24, "intermediate_size": 3072, "num_hidden_layers": 12}
    theirs = build_random_smolvlm(tmp_path, vision=vision)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for name in left_out:
        config["vision_config"].pop(name, None)
    config["text_config"].pop("max_position_embeddings")
    path.write_text(json.dumps(config))
    ours = SmolVlmModel.from_folder(tmp_path)
    assert ours.decoder.dims.context == 2048
    assert ours.num_parameters == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        (None, {"vision_config": None}, "vision_config: expected an object"),
        (None, {"image_token_id": 160}, "image_token_id: expected less than vocab_size"),
        (None, {"scale_factor": 3}, "scale_factor: expected a divisor of the 8 patches"),
        ("vision_config", {"hidden_act": "gelu"}, "hidden_act: expected 'gelu_pytorch_tanh'"),
        ("vision_config", {"num_attention_heads": 3}, "expected a divisor of hidden_size"),
        ("vision_config", {"num_hidden_layers": "2"}, "expected a whole number"),
        ("vision_config", {"num_hidden_layers": 3}, "expected a tensor model.vision_model.enc"),
        ("vision_config", {"num_hidden_layers": 1}, "unexpected tensors"),
        ("text_config", {"model_type": "mistral"}, "model_type: expected 'llama'"),
        ("text_config", {"rope_parameters": {"rope_type": "llama3"}}, "rope_type: expected"),
    ],
)
def test_checkpoints_that_cannot_be_served(
    tmp_path: Path, section: str | None, change: dict[str, Any], message: str
) -> None:
    build_random_smolvlm(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (config if section is None else config[section]).update(change)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=message):
        SmolVlmModel.from_folder(tmp_path)
