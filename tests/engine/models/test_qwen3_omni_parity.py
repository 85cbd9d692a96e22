"""Our Qwen3-Omni thinker and transformers' on the same random checkpoints, float32: the same
numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.models.qwen3_omni import Qwen3OmniModel, is_picture
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.digests import MediaSpan, block_digests
from lookhear.engine.paged.request import Medium
from tests.engine.models.test_qwen3_vl_parity import SceneDecoder, close
from tools.random_checkpoints.qwen3_omni import (
    AUDIO_END,
    AUDIO_START,
    AUDIO_TOKEN,
    IMAGE_TOKEN,
    RATE,
    VIDEO_TOKEN,
    VISION_END,
    VISION_START,
    build_random_qwen3_omni,
    make_whole,
)

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "other_geometry": {
        "tied_head": True,
        "text": {"hidden_size": 40, "num_key_value_heads": 1, "mlp_only_layers": [1]},
        "vision": {
            "depth": 2, "hidden_size": 48, "num_heads": 3, "patch_size": 2, "spatial_merge_size": 3,
            "out_hidden_size": 40, "num_position_embeddings": 49, "deepstack_visual_indexes": [1],
        },
        "audio": {"output_dim": 40, "n_window_infer": 100, "num_mel_bins": 32},
        "seed": 1,
    },
    "no_deepstack": {"vision": {"deepstack_visual_indexes": []}, "seed": 2},
}  # fmt: skip

# Numbers are text tokens; others begin with their kind: sides of pictures are in tokens, a video's
# first number is its slices and its last one their distance in seconds, a sound's are its frames.
Piece = int | tuple[str, int] | tuple[str, int, int] | tuple[str, int, int, int, float]
SCENES: dict[str, tuple[Piece, ...]] = {
    "text": (9,),
    "sound": (4, ("sound", 230), 5),
    "sounds": (1, ("sound", 40), 2, ("sound", 333), 3),
    "image": (4, ("image", 3, 2), 5),
    "video": (3, ("video", 3, 2, 3, 1.0), 4),
    "quick_video": (3, ("video", 2, 3, 5, 1 / RATE), 4),
    "all_kinds": (
        1, ("image", 2, 2), 2, ("sound", 130), 1, ("video", 2, 1, 4, 2.0), 1, ("sound", 90),
        ("image", 1, 3), 2,
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Scene:
    """A prompt with media in it."""

    tokens: list[int]
    media: list[tuple[int, Medium]]
    inputs: dict[str, Any]  # transformers', but for the tokens

    def spans(self) -> list[MediaSpan]:
        return [medium.span(start) for start, medium in self.media]


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: Qwen3OmniModel
    theirs: Any

    def scene(self, *pieces: Piece, seed: int = 0) -> Scene:
        generator = torch.Generator().manual_seed(seed)
        dims, ears = self.ours.sight.encoder.dims, self.ours.ears
        tokens: list[int] = []
        media: list[tuple[int, Medium]] = []
        grids: dict[str, list[tuple[int, int, int]]] = {"image": [], "video": []}
        patches: dict[str, list[Tensor]] = {"image": [], "video": []}
        mels, apart = list[Tensor](), list[float]()

        def add(medium: Medium, pad: int) -> None:
            media.append((len(tokens), medium))
            tokens.extend([pad] * medium.num_tokens)

        for piece in pieces:
            if isinstance(piece, int):
                tokens += torch.randint(140, (piece,), generator=generator).tolist()
                continue
            kind, first, *rest = piece
            if kind == "sound":
                mels.append(torch.randn(ears.dims.num_mels, first, generator=generator))
                tokens.append(AUDIO_START)
                for window in ears.split(mels[-1]):
                    count = ears.dims.num_tokens(window.shape[1])
                    add(Medium.of(window.numpy(), count), AUDIO_TOKEN)
                tokens.append(AUDIO_END)
                continue
            slices, down, across = (1, first, int(rest[0]))
            seconds = 0.0
            if kind == "video":
                slices, (down, across, seconds) = first, (int(rest[0]), int(rest[1]), rest[2])
                apart.append(seconds)
            tokens.append(VISION_START)
            for index in range(slices):
                frames = dims.frames if kind == "video" else 1
                size = (frames, 3, down * dims.factor, across * dims.factor)
                pixels = torch.randn(*size, generator=generator)
                patches[kind].append(patchify(pixels, dims))
                medium = self.ours.sight.medium(pixels.numpy())
                time = round(index * seconds * self.ours.rate)
                add(medium._replace(time=time), IMAGE_TOKEN if kind == "image" else VIDEO_TOKEN)
            tokens.append(VISION_END)
            grids[kind].append((slices, down * dims.merge, across * dims.merge))
        inputs: dict[str, Any] = {}
        for kind, name in (("image", ""), ("video", "_videos")):
            if grids[kind]:
                inputs[f"pixel_values{name}"] = torch.cat(patches[kind])
                inputs[f"{kind}_grid_thw"] = torch.tensor(grids[kind])
        if apart:
            inputs["video_second_per_grid"] = torch.tensor(apart)
        if mels:
            longest = max(mel.shape[1] for mel in mels)
            padded = [torch.nn.functional.pad(m, (0, longest - m.shape[1])) for m in mels]
            inputs["input_features"] = torch.stack(padded)
            inputs["feature_attention_mask"] = torch.stack(
                [(torch.arange(longest) < mel.shape[1]).long() for mel in mels]
            )
        return Scene(tokens, media, inputs)

    def their_logits(self, scene: Scene, more: list[int] | None = None) -> Tensor:
        """[prompt and more, vocab], no cache."""
        tokens = torch.tensor([scene.tokens + (more or [])])
        self.theirs.model.rope_deltas = None
        with torch.inference_mode():
            logits: Tensor = self.theirs(
                input_ids=tokens,
                attention_mask=torch.ones_like(tokens),
                **scene.inputs,
                use_cache=False,
            ).logits[0]
        return logits

    def decoder(self, scenes: dict[str, Scene], *, shuffle: int = 0) -> SceneDecoder:
        decoder = SceneDecoder(self.ours.sight, {}, shuffle=shuffle)
        for name, scene in scenes.items():
            decoder.scenes[name] = scene  # type: ignore[assignment]
            decoder.texts[name] = list(scene.tokens)
            decoder.rows[name] = self.ours.encode([medium for _, medium in scene.media])
            decoder.places[name] = self.ours.positions(len(scene.tokens), scene.media)
        return decoder


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_qwen3_omni(folder, **SHAPES[request.param])
    return Pair(Qwen3OmniModel.from_folder(folder), theirs)


@pytest.mark.parametrize("name", SCENES)
def test_whole_prompt_at_once(pair: Pair, name: str) -> None:
    scene = pair.scene(*SCENES[name], seed=3)
    close(pair.decoder({"a": scene}).feed({"a": len(scene.tokens)})["a"], pair.their_logits(scene))


@pytest.mark.parametrize("name", SCENES)
def test_positions_of_prompt_and_answer(pair: Pair, name: str) -> None:
    scene = pair.scene(*SCENES[name])
    total = len(scene.tokens) + 3
    tokens = torch.tensor([[*scene.tokens, 1, 2, 3]])
    mask = scene.inputs.get("feature_attention_mask")
    expected, delta = pair.theirs.get_rope_index(
        tokens,
        scene.inputs.get("image_grid_thw"),
        scene.inputs.get("video_grid_thw"),
        torch.ones_like(tokens),
        audio_seqlens=None if mask is None else mask.sum(-1),
        second_per_grids=scene.inputs.get("video_second_per_grid"),
    )
    ours = pair.ours.positions(len(scene.tokens), scene.media)
    assert torch.equal(torch.from_numpy(ours.read(0, total)), expected[:, 0].round().long())
    assert ours.delta == delta.item()


def test_prefill_cut_at_every_place_also_inside_media(pair: Pair) -> None:
    scene = pair.scene(*SCENES["all_kinds"], seed=1)
    total = len(scene.tokens)
    theirs = pair.their_logits(scene)
    for cut in range(1, total):
        decoder = pair.decoder({"a": scene}, shuffle=cut)
        parts = [decoder.feed({"a": count})["a"] for count in (cut, total - cut)]
        close(torch.cat(parts), theirs)


def test_greedy_tokens_batched_and_alone(pair: Pair) -> None:
    scenes = {name: pair.scene(*pieces, seed=4) for name, pieces in SCENES.items()}
    texts: dict[str, list[int]] = {}
    for names in (list(scenes), *([name] for name in scenes)):
        decoder = pair.decoder({name: scenes[name] for name in names}, shuffle=1)
        counts = {name: len(scenes[name].tokens) for name in names}
        if len(names) > 1:  # some are read to somewhere inside a medium first
            decoder.feed({"image": 6, "video": 13, "sound": 20, "text": 2}, padding=2)
            counts = {n: count - decoder.lengths.get(n, 0) for n, count in counts.items()}
        answers: dict[str, list[int]] = {name: [] for name in names}
        for _ in range(8):
            for name, logits in decoder.feed(counts, padding=3).items():
                answers[name].append(int(logits[-1].argmax()))
                decoder.texts[name].append(answers[name][-1])
            counts = dict.fromkeys(names, 1)
        for name in names:
            assert texts.setdefault(name, answers[name]) == answers[name]
    special = set(range(AUDIO_START, VISION_END + 1))
    compared = [name for name, text in texts.items() if not special & set(text)]
    assert compared  # of others, transformers would look for the media
    for name in compared:
        text = texts[name]
        theirs = pair.their_logits(scenes[name], text[:-1])[len(scenes[name].tokens) - 1 :]
        assert theirs.argmax(-1).tolist() == text


def test_cached_and_uncached(pair: Pair) -> None:
    """A second question about the same media finds their blocks."""
    first = pair.scene(5, ("sound", 130), 1, ("video", 3, 2, 3, 1.0), 2, ("image", 2, 2), 6, seed=5)
    changed = dataclasses.replace(first, tokens=[*first.tokens[:-4], 9, 8, 7, 6])
    decoder = pair.decoder({"first": first, "second": changed}, shuffle=3)
    decoder.feed({"first": len(first.tokens)})
    decoder.commit("first", block_digests(first.tokens, first.spans()))
    digests = block_digests(changed.tokens, changed.spans())
    cached = decoder.start("second", digests, len(changed.tokens))
    assert cached == (len(changed.tokens) - 4) // BLOCK_TOKENS * BLOCK_TOKENS
    got = decoder.feed({"second": len(changed.tokens) - cached})["second"]
    close(got, pair.their_logits(changed)[cached:])
    decoder.finish()


def test_blocks_of_the_same_frames_at_other_times_are_others(pair: Pair) -> None:
    slow, fast = (pair.scene(3, ("video", 4, 2, 3, s), 20, seed=6) for s in (1.0, 2.0))
    assert slow.tokens == fast.tokens
    assert [m.digest for _, m in slow.media] == [m.digest for _, m in fast.media]
    one, other = (block_digests(s.tokens, s.spans()) for s in (slow, fast))
    assert all(a != b for a, b in zip(one, other, strict=True))


def test_media_of_many_prompts_in_one_batch_are_as_alone(pair: Pair) -> None:
    scene = pair.scene(*SCENES["all_kinds"], seed=7)
    media = [medium for _, medium in scene.media]
    together = pair.ours.encode(media)
    for medium, rows in zip(media, together, strict=True):
        alone = pair.ours.encode([medium])[0]
        assert rows.shape == alone.shape == (medium.num_tokens, together[0].shape[1])
        assert torch.allclose(rows, alone, atol=1e-5)
        width = pair.ours.decoder.dims.width
        assert is_picture(medium) or not rows[:, width:].any()


def test_the_whole_model_is_served_by_its_thinker(tmp_path: Path) -> None:
    build_random_qwen3_omni(tmp_path)
    alone = Qwen3OmniModel.from_folder(tmp_path)
    make_whole(tmp_path)
    whole = Qwen3OmniModel.from_folder(tmp_path)
    assert whole.num_parameters == alone.num_parameters
    assert (whole.audio_token, whole.rate, whole.end_tokens) == (AUDIO_TOKEN, RATE, (150, 151))
    scene = Pair(alone, None).scene(*SCENES["all_kinds"])
    logits = [
        Pair(model, None).decoder({"a": scene}).feed({"a": len(scene.tokens)})["a"]
        for model in (alone, whole)
    ]
    assert torch.equal(*logits)


def test_bfloat16_stays_close(tmp_path: Path) -> None:
    theirs = build_random_qwen3_omni(tmp_path)
    exact = Qwen3OmniModel.from_folder(tmp_path)
    short = Qwen3OmniModel.from_folder(tmp_path, dtype=torch.bfloat16)
    assert exact.num_parameters == sum(p.numel() for p in theirs.parameters())
    scene = Pair(exact, None).scene(*SCENES["all_kinds"])
    media = [medium for _, medium in scene.media]
    for one, other in zip(exact.encode(media), short.encode(media), strict=True):
        assert other.dtype == torch.bfloat16
        assert (other.float() - one).norm() <= 0.05 * one.norm()


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        (None, {"audio_config": None}, "audio_config: expected an object"),
        (None, {"audio_token_id": 160}, "audio_token_id: expected less than vocab_size"),
        (None, {"image_token_id": 160}, "image_token_id: expected less than vocab_size"),
        (None, {"position_id_per_seconds": 0}, "position_id_per_seconds: expected a whole number"),
        ("audio_config", {"output_dim": 31}, "output_dim: expected the decoder's hidden_size"),
        ("audio_config", {"encoder_layers": 3}, "expected a tensor audio_tower.layers.2"),
        ("vision_config", {"deepstack_visual_indexes": [0]}, "unexpected tensors"),
        ("text_config", {"num_experts": 2}, "num_experts_per_tok: expected at most num_experts"),
    ],
)
def test_checkpoints_that_cannot_be_served(
    tmp_path: Path, section: str | None, change: dict[str, Any], message: str
) -> None:
    build_random_qwen3_omni(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (config if section is None else config[section]).update(change)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=message):
        Qwen3OmniModel.from_folder(tmp_path)
