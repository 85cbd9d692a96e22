"""Our Qwen3-VL and transformers' on the same random checkpoints, float32: the same numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear.engine.chat.pictures import PictureEncoder
from lookhear.engine.chat.pixels import PixelRules
from lookhear.engine.chat.prompt import ChatPrompter
from lookhear.engine.chat.template import ChatTemplate
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.messages import VideoPart
from lookhear.engine.models import vision_encoder
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.digests import MediaSpan, block_digests
from lookhear.engine.paged.mrope import PromptPositions
from lookhear.engine.paged.request import Medium
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.batches import paged_batch
from tests.engine.chat.asking import image, pixels, user
from tests.engine.models.driving import Decoder
from tools.random_checkpoints.qwen3 import END_TOKENS, EXPERTS
from tools.random_checkpoints.qwen3_vl import (
    IMAGE_TOKEN,
    VIDEO_TOKEN,
    build_random_qwen3_vl,
    build_served_qwen3_vl,
)

TOLERANCE = 1e-4

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "other_geometry": {
        "tied_head": False,
        "text": {"hidden_size": 40, "num_key_value_heads": 1, "num_hidden_layers": 2},
        "vision": {
            "depth": 2, "hidden_size": 48, "num_heads": 3, "patch_size": 2, "spatial_merge_size": 3,
            "out_hidden_size": 40, "num_position_embeddings": 49, "deepstack_visual_indexes": [1],
        },
        "seed": 1,
    },
    "no_deepstack": {"vision": {"deepstack_visual_indexes": []}, "seed": 2},
    "experts": {"text": {**EXPERTS, "norm_topk_prob": False, "mlp_only_layers": [2]}, "seed": 3},
}  # fmt: skip

# Numbers are text tokens; sides of pictures are in tokens; a video's first number is its slices.
Piece = int | tuple[int, int] | tuple[int, int, int]
SCENES: dict[str, tuple[Piece, ...]] = {
    "text": (9,),
    "one_image": (4, (3, 2), 5),
    "several_sizes": (2, (1, 1), 1, (2, 5), 3, (4, 3), 2),
    "video": (3, (3, 2, 3), 4),
    "all_kinds": (1, (2, 2), 2, (2, 1, 4), 1, (1, 3), 2),
}


@dataclasses.dataclass(frozen=True)
class Scene:
    """A prompt with pictures in it."""

    tokens: list[int]
    media: list[tuple[int, Medium]]
    grids: list[tuple[int, int, int]]  # as transformers counts: slices, patches down, across
    kinds: list[int]  # of tokens: 0 text, 1 image, 2 video

    def spans(self) -> list[MediaSpan]:
        return [MediaSpan(m.digest, start, m.num_tokens) for start, m in self.media]


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: Qwen3VLModel
    theirs: Any

    def pixels(self, frames: int, size: tuple[int, int], seed: int) -> Tensor:
        height, width = (side * self.ours.encoder.dims.factor for side in size)
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(frames, 3, height, width, generator=generator)

    def scene(self, *pieces: Piece, seed: int = 0) -> Scene:
        generator = torch.Generator().manual_seed(seed)
        scene = Scene([], [], [], [])
        merge = self.ours.encoder.dims.merge

        def text(count: int) -> None:
            scene.tokens.extend(torch.randint(140, (count,), generator=generator).tolist())
            scene.kinds.extend([0] * count)

        def picture(kind: int, size: tuple[int, int]) -> None:
            seed_here = seed * 100 + len(scene.media)
            medium = self.ours.medium(self.pixels(kind, size, seed_here).numpy())
            scene.media.append((len(scene.tokens), medium))
            scene.tokens.extend([(IMAGE_TOKEN, VIDEO_TOKEN)[kind - 1]] * medium.num_tokens)
            scene.kinds.extend([kind] * medium.num_tokens)

        for piece in pieces:
            if isinstance(piece, int):
                text(piece)
            elif len(piece) == 2:
                picture(1, piece)
                scene.grids.append((1, piece[0] * merge, piece[1] * merge))
            else:
                for _ in range(piece[0]):
                    picture(2, piece[1:])
                    text(1)
                scene.grids.append((piece[0], piece[1] * merge, piece[2] * merge))
        return scene

    def their_inputs(self, scene: Scene, more: list[int]) -> dict[str, Any]:
        kinds = torch.tensor([scene.kinds + [0] * len(more)])
        inputs: dict[str, Any] = {
            "input_ids": torch.tensor([scene.tokens + more]),
            "mm_token_type_ids": kinds,
        }
        kind_of = [scene.kinds[start] for start, _ in scene.media]
        for kind, name in ((1, ""), (2, "_videos")):
            media = [m for (_, m), k in zip(scene.media, kind_of, strict=True) if k == kind]
            if media:
                dims = self.ours.encoder.dims
                inputs[f"pixel_values{name}"] = torch.cat(
                    [patchify(torch.from_numpy(m.features), dims) for m in media]
                )
        firsts = [start for start, _ in scene.media]
        grids: dict[int, list[tuple[int, int, int]]] = {1: [], 2: []}
        at = 0
        for grid in scene.grids:
            grids[scene.kinds[firsts[at]]].append(grid)
            at += grid[0]
        for kind, name in ((1, "image"), (2, "video")):
            if grids[kind]:
                inputs[f"{name}_grid_thw"] = torch.tensor(grids[kind])
        return inputs

    def their_logits(self, scene: Scene, more: list[int] | None = None) -> Tensor:
        """[prompt and more, vocab], no cache."""
        with torch.inference_mode():
            logits: Tensor = self.theirs(
                **self.their_inputs(scene, more or []), use_cache=False
            ).logits[0]
        return logits


class SceneDecoder(Decoder):
    """Scenes by name, fed like an engine does: with their positions and DeepStack rows."""

    def __init__(self, model: Qwen3VLModel, scenes: dict[str, Scene], *, shuffle: int = 0) -> None:
        super().__init__(model.decoder, shuffle=shuffle)
        self.vl = model
        self.scenes = scenes
        self.texts = {name: list(scene.tokens) for name, scene in scenes.items()}
        self.rows = {n: model.encode([m for _, m in s.media]) for n, s in scenes.items()}
        self.places: dict[str, PromptPositions] = {
            n: model.positions(len(s.tokens), s.media) for n, s in scenes.items()
        }

    def feed(self, counts: dict[str, int], *, padding: int = 0) -> dict[str, Tensor]:
        """The next tokens of some scenes: logits of each."""
        tokens: list[int] = []
        axes, places, visual = [], list[Tensor](), list[Tensor]()
        for name, count in counts.items():
            if name not in self.lengths:
                self.start(name)
            low = self.lengths[name]
            high = low + count
            assert len(self.texts[name]) >= high
            wanted = -(-high // BLOCK_TOKENS) - len(self.tables[name])
            self.tables[name] += self.pool.allocate(wanted) or []
            axes.append(torch.from_numpy(self.places[name].read(low, high)))
            media = self.scenes[name].media
            for (start, medium), rows in zip(media, self.rows[name], strict=True):
                first, last = max(low, start), min(high, start + medium.num_tokens)
                if first < last:
                    places.append(torch.arange(first, last) - low + len(tokens))
                    visual.append(rows[first - start : last - start])
            tokens += self.texts[name][low:high]
        total = len(tokens)
        batch = paged_batch(
            [self.tables[name] for name in counts],
            [self.lengths[name] for name in counts],
            list(counts.values()),
            num_tokens=total + padding,
            positions=torch.cat([*axes, torch.zeros(3, padding, dtype=torch.int64)], dim=1),
        )
        inputs: Tensor = torch.tensor(tokens + [0] * padding)
        added = None
        if places:
            inputs, added = self.vl.embed(inputs, torch.cat(places), torch.cat(visual))
        hidden = self.model.forward(inputs, batch, self.cache, added)[:total]
        for name, count in counts.items():
            self.lengths[name] += count
        parts = torch.split(self.model.logits(hidden), list(counts.values()))
        return dict(zip(counts, parts, strict=True))


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_qwen3_vl(folder, **SHAPES[request.param])
    return Pair(Qwen3VLModel.from_folder(folder), theirs)


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def read(pair: Pair, scene: Scene) -> Tensor:
    return SceneDecoder(pair.ours, {"a": scene}).feed({"a": len(scene.tokens)})["a"]


def test_the_encoder_alone_and_batched(pair: Pair) -> None:
    sizes = [(1, 1), (3, 2), (1, 6), (5, 4), (3, 2)]
    frames = [1, 1, 2, 1, 2]
    media = [pair.pixels(f, s, i) for i, (f, s) in enumerate(zip(frames, sizes, strict=True))]
    dims = pair.ours.encoder.dims
    grid = torch.tensor([(1, height * dims.merge, width * dims.merge) for height, width in sizes])
    with torch.inference_mode():
        patches = torch.cat([patchify(medium, dims) for medium in media])
        output = pair.theirs.model.get_image_features(patches, grid)
    parts = zip(output.pooler_output, *output.deepstack_features, strict=True)
    theirs = [torch.cat(part, dim=1) for part in parts]
    for ours, expected in zip(pair.ours.encoder.encode(media), theirs, strict=True):
        assert ours.shape == expected.shape
        assert (ours - expected).abs().max().item() <= TOLERANCE
    for medium, expected in zip(media, theirs, strict=True):
        alone = pair.ours.encoder.encode([medium])[0]
        assert (alone - expected).abs().max().item() <= TOLERANCE


def test_more_patches_than_one_pass_takes(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    media = [pair.pixels(1, size, 7) for size in [(2, 2), (3, 3), (1, 1), (1, 2)]]
    whole = pair.ours.encoder.encode(media)
    monkeypatch.setattr(vision_encoder, "MAX_PATCHES", 4 * pair.ours.encoder.dims.merge**2)
    for part, rows in zip(pair.ours.encoder.encode(media), whole, strict=True):
        assert torch.allclose(part, rows, atol=TOLERANCE)
    assert pair.ours.encoder.encode([]) == []


@pytest.mark.parametrize("name", SCENES)
def test_whole_prompt_at_once(pair: Pair, name: str) -> None:
    scene = pair.scene(*SCENES[name], seed=3)
    close(read(pair, scene), pair.their_logits(scene))


@pytest.mark.parametrize("name", SCENES)
def test_positions_of_prompt_and_answer(pair: Pair, name: str) -> None:
    scene = pair.scene(*SCENES[name])
    inputs = pair.their_inputs(scene, [1, 2, 3])
    inputs.pop("pixel_values", None), inputs.pop("pixel_values_videos", None)
    expected, delta = pair.theirs.model.get_rope_index(**inputs)
    ours = pair.ours.positions(len(scene.tokens), scene.media)
    total = len(scene.tokens) + 3
    assert torch.equal(torch.from_numpy(ours.read(0, total)), expected[:, 0])
    assert ours.delta == delta.item()


@pytest.mark.parametrize("name", ["one_image", "all_kinds"])
def test_prefill_cut_at_every_place_also_inside_pictures(pair: Pair, name: str) -> None:
    scene = pair.scene(*SCENES[name], seed=1)
    total = len(scene.tokens)
    theirs = pair.their_logits(scene)
    for cut in range(1, total):
        decoder = SceneDecoder(pair.ours, {"a": scene}, shuffle=cut)
        parts = [decoder.feed({"a": count})["a"] for count in (cut, total - cut)]
        close(torch.cat(parts), theirs)


def test_token_by_token(pair: Pair) -> None:
    scene = pair.scene(*SCENES["several_sizes"], seed=2)
    decoder = SceneDecoder(pair.ours, {"a": scene})
    parts = [decoder.feed({"a": 1})["a"] for _ in scene.tokens]
    close(torch.cat(parts), pair.their_logits(scene))


def test_greedy_tokens_batched_and_alone(pair: Pair) -> None:
    scenes = {name: pair.scene(*pieces, seed=4) for name, pieces in SCENES.items()}
    texts: dict[str, list[int]] = {}
    for names in (list(scenes), *([name] for name in scenes)):
        decoder = SceneDecoder(pair.ours, {name: scenes[name] for name in names}, shuffle=1)
        # In the first step some are read whole and others to somewhere inside a picture.
        counts = {name: len(scenes[name].tokens) for name in names}
        if len(names) > 1:
            decoder.feed({"one_image": 6, "video": 5, "text": 2}, padding=2)
            counts = {n: count - decoder.lengths.get(n, 0) for n, count in counts.items()}
        answers: dict[str, list[int]] = {name: [] for name in names}
        for _ in range(8):
            for name, logits in decoder.feed(counts, padding=3).items():
                answers[name].append(int(logits[-1].argmax()))
                decoder.texts[name].append(answers[name][-1])
            counts = dict.fromkeys(names, 1)
        for name in names:
            assert texts.setdefault(name, answers[name]) == answers[name]
    for name, text in texts.items():
        if not {IMAGE_TOKEN, VIDEO_TOKEN} & set(text):  # transformers would look for the picture
            theirs = pair.their_logits(scenes[name], text[:-1])[len(scenes[name].tokens) - 1 :]
            assert theirs.argmax(-1).tolist() == text


def test_cached_and_uncached(pair: Pair) -> None:
    """A second question about the same picture finds its blocks, and ends inside it or not."""
    first = pair.scene(7, (4, 5), 3, (2, 2), 6, seed=5)
    changed = dataclasses.replace(first, tokens=[*first.tokens[:-4], 9, 8, 7, 6])
    decoder = SceneDecoder(pair.ours, {"first": first, "second": changed}, shuffle=3)
    decoder.feed({"first": len(first.tokens)})
    decoder.commit("first", block_digests(first.tokens, first.spans()))
    digests = block_digests(changed.tokens, changed.spans())
    cached = decoder.start("second", digests, len(changed.tokens))
    assert cached == (len(changed.tokens) - 4) // BLOCK_TOKENS * BLOCK_TOKENS
    got = decoder.feed({"second": len(changed.tokens) - cached})["second"]
    close(got, pair.their_logits(changed)[cached:])

    other = pair.scene(7, (4, 5), 3, (2, 2), 6, seed=6)  # same tokens around other pixels
    twin = dataclasses.replace(first, media=other.media)
    assert decoder.start("twin", block_digests(twin.tokens, twin.spans()), len(twin.tokens)) == 0
    decoder.finish()


def test_a_wide_picture_has_positions_beyond_its_tokens_end(pair: Pair) -> None:
    scene = pair.scene(2, (1, 6), 1, (6, 1), 2)
    positions = pair.ours.positions(len(scene.tokens), scene.media)
    assert positions.delta == 0 and positions.axes[:, -1].tolist() == [len(scene.tokens) - 1] * 3


def test_a_placeholder_id_that_was_generated_is_an_ordinary_token(pair: Pair) -> None:
    tokens = torch.tensor([3, IMAGE_TOKEN, 4])
    parts = 1 + len(pair.ours.encoder.dims.deepstack)
    none = torch.empty(0, parts * pair.ours.decoder.dims.width)
    inputs, (places, rows) = pair.ours.embed(tokens, torch.empty(0, dtype=torch.int64), none)
    assert torch.equal(inputs, pair.ours.decoder.weights.tokens[tokens])
    assert len(places) == len(rows) == 0
    with pytest.raises(AssertionError):
        pair.ours.embed(tokens, torch.tensor([1]), none)


def test_from_bytes_and_words_to_logits(tmp_path: Path) -> None:
    """The whole way: rules, pixels, prompt, positions, rows; an image and a video of three frames,
    at sizes that need no resizing, so that their processor's numbers are ours."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    theirs = build_served_qwen3_vl(tmp_path, seed=4)
    ours = Qwen3VLModel.from_folder(tmp_path)
    tokenizer = QwenTokenizer.from_folder(tmp_path)
    rules, video_rules = (
        PixelRules.from_folder(tmp_path, ours.encoder.dims, video=video) for video in (False, True)
    )
    assert rules.image_size((24, 40)) == (24, 40)
    assert video_rules.video_size((16, 24), 3) == (16, 24)
    pictures = PictureEncoder(ours.medium, rules, video_rules, live_tokens=64)
    photo, *frames = (pixels(seed, *size) for seed, size in enumerate([(24, 40)] + 3 * [(16, 24)]))
    for name, picture in zip(["photo", "0", "1", "2"], [photo, *frames], strict=True):
        pictures.hold("s", name, picture)
    video = VideoPart(["0", "1", "2"], [0.0, 0.5, 1.0])
    prompter = ChatPrompter(tokenizer, ChatTemplate.from_folder(tmp_path), pictures, max_tokens=200)
    prompt = prompter.prompt("s", [user("what is ", image("photo"), "or", video, "?")])
    kinds = [0] * len(prompt.tokens)
    for index, (start, medium) in enumerate(prompt.media):
        kinds[start : start + medium.num_tokens] = [1 if index == 0 else 2] * medium.num_tokens
    scene = Scene(prompt.tokens, prompt.media, [(1, 6, 10), (2, 4, 6)], kinds)

    pair = Pair(ours, theirs)
    processor = Qwen2VLImageProcessorPil.from_pretrained(tmp_path)
    inputs = pair.their_inputs(scene, [])
    expected = processor(images=[photo], return_tensors="pt")
    assert torch.equal(inputs["image_grid_thw"], expected["image_grid_thw"])
    inputs["pixel_values"] = expected["pixel_values"]
    with torch.inference_mode():
        logits = theirs(**inputs, use_cache=False).logits[0]
    close(read(pair, scene), logits)


def test_bfloat16_stays_close(tmp_path: Path) -> None:
    build_random_qwen3_vl(tmp_path)
    exact = Qwen3VLModel.from_folder(tmp_path)
    short = Qwen3VLModel.from_folder(tmp_path, dtype=torch.bfloat16)
    assert exact.end_tokens == END_TOKENS
    assert (exact.image_token, exact.video_token) == (IMAGE_TOKEN, VIDEO_TOKEN)
    assert exact.num_parameters == sum(p.numel() for p in _theirs(tmp_path).parameters())
    scene = Pair(exact, None).scene(*SCENES["several_sizes"])
    rows = [model.encode([m for _, m in scene.media])[1] for model in (exact, short)]
    assert rows[1].dtype == torch.bfloat16
    assert (rows[1].float() - rows[0]).norm() <= 0.05 * rows[0].norm()
    logits = [read(Pair(model, None), scene) for model in (exact, short)]
    assert logits[1].dtype == torch.float32
    assert (logits[1] - logits[0]).norm() <= 0.1 * logits[0].norm()


def _theirs(folder: Path) -> Any:
    from transformers import Qwen3VLForConditionalGeneration

    return Qwen3VLForConditionalGeneration.from_pretrained(folder)


@pytest.fixture(scope="module")
def plain_config(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("config")
    build_random_qwen3_vl(folder)
    return folder, json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        (None, {"vision_config": None}, "vision_config: expected an object"),
        (None, {"image_token_id": 160}, "image_token_id: expected less than vocab_size"),
        (None, {"video_token_id": "x"}, "video_token_id: expected a whole number"),
        (None, {"eos_token_id": "x"}, "eos_token_id: expected token ids"),
        ("vision_config", {"out_hidden_size": 31}, "out_hidden_size: expected the decoder's"),
        ("vision_config", {"hidden_act": "gelu"}, "hidden_act: expected 'gelu_pytorch_tanh'"),
        ("vision_config", {"num_heads": 3}, "hidden_size: expected a multiple of 4"),
        ("vision_config", {"num_position_embeddings": 35}, "expected a square number"),
        ("vision_config", {"depth": 4}, "expected a tensor"),
        ("vision_config", {"deepstack_visual_indexes": [1, 0]}, "expected ascending layers"),
        ("vision_config", {"deepstack_visual_indexes": [3]}, "expected ascending layers below 3"),
        ("vision_config", {"deepstack_visual_indexes": [0]}, "unexpected tensors"),
        ("vision_config", {"rope_parameters": {"rope_type": "yarn"}}, "expected 'axial'"),
        ("text_config", {"num_hidden_layers": 1}, "at most one for each"),
        ("text_config", {"rope_parameters": {"rope_theta": 1.0}}, "mrope_section: expected three"),
    ],
)
def test_checkpoints_that_cannot_be_served(
    plain_config: tuple[Path, dict[str, Any]],
    section: str | None,
    change: dict[str, Any],
    message: str,
) -> None:
    folder, original = plain_config
    config = json.loads(json.dumps(original))
    (config if section is None else config[section]).update(change)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=message):
        Qwen3VLModel.from_folder(folder)
