"""Sizes, pixels and patches of pictures: those of transformers' processors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookhear.engine.chat.pixels import (
    LOW_TOKENS,
    PixelRules,
    Size,
    share_tokens,
    share_video_tokens,
    temporal_slices,
)
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.request import RequestError
from lookhear.engine.families.qwen3_omni import FRAME_TOKENS
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.models.vision_weights import VisionDims

MEAN, STD = (0.48, 0.5, 0.4), (0.25, 0.5, 0.3)
RULES = PixelRules(32, 2, 65_536, 16_777_216, (0.5,) * 3, (0.5,) * 3)  # Qwen3-VL's own, of images
VIDEO = PixelRules(32, 2, 4_096, 25_165_824, (0.5,) * 3, (0.5,) * 3)
OMNI = VIDEO.of_each_frame(*FRAME_TOKENS)
SMALL = PixelRules(8, 2, 256, 4_096, MEAN, STD)
DIMS = VisionDims(
    width=32, layers=1, heads=2, ffn=8, channels=3, patch=4, frames=2, merge=2, out_width=8,
    side=4, rope_theta=1e4, deepstack=(),
)  # fmt: skip
CONFIG: dict[str, Any] = {
    "patch_size": 4,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "image_mean": list(MEAN),
    "image_std": list(STD),
    "size": {"shortest_edge": 256, "longest_edge": 4_096},
}


def picture(height: int, width: int, frames: int = 1, seed: int = 0) -> NDArray[np.uint8]:
    """Shades and edges, like a photograph: [frames, height, width, 3]."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    angles = generator.uniform(0, 12, (frames, 3, 2))
    shades = [[np.sin(a * x + b * y) for a, b in frame] for frame in angles]
    values = np.moveaxis(np.array(shades), 1, 3) * 100 + 120
    values[:, : height // 3, : width // 4] += 60
    return values.clip(0, 255).astype(np.uint8)


def their_size(size: Size, rules: PixelRules) -> Size:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    height, width = smart_resize(
        *size, factor=rules.factor, min_pixels=rules.min_pixels, max_pixels=rules.max_pixels
    )
    return height, width


def their_video_size(size: Size, num_frames: int, rules: PixelRules) -> Size:
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize

    height, width = smart_resize(
        num_frames, *size, temporal_factor=rules.frames, factor=rules.factor,
        min_pixels=rules.min_pixels, max_pixels=rules.max_pixels,
    )  # fmt: skip
    return height, width


SIDES = st.integers(1, 5_000)


@settings(deadline=None)
@given(SIDES, SIDES, st.sampled_from([RULES, SMALL, RULES.limited(300), RULES.limited(20)]))
def test_image_sizes(height: int, width: int, rules: PixelRules) -> None:
    if max(height, width) > 200 * min(height, width):
        with pytest.raises(RequestError, match="sides differ at most 200 times"):
            rules.image_size((height, width))
        return
    size = rules.image_size((height, width))
    assert size == their_size((height, width), rules)
    assert all(side % rules.factor == 0 < side for side in size)


@settings(deadline=None)
@given(SIDES, SIDES, st.integers(2, 900), st.sampled_from([VIDEO, SMALL]))
def test_video_sizes(height: int, width: int, num_frames: int, rules: PixelRules) -> None:
    try:
        expected = their_video_size((height, width), num_frames, rules)
    except ValueError:
        with pytest.raises(RequestError, match="sides differ at most 200 times"):
            rules.video_size((height, width), num_frames)
        return
    assert rules.video_size((height, width), num_frames) == expected


@settings(deadline=None)
@given(st.integers(20, 5_000), st.integers(30, 4_000), st.integers(2, 900))
def test_frames_may_be_capped(height: int, width: int, num_frames: int) -> None:
    """By the formula of transformers' Qwen3VLVideoProcessor."""
    share = max(min(768 * 32 * 32, VIDEO.max_pixels // num_frames), int(VIDEO.min_pixels * 1.05))
    capped = replace(VIDEO, frame_tokens=768)
    expected = their_video_size(
        (height, width), num_frames, replace(VIDEO, max_pixels=share * num_frames)
    )
    assert capped.video_size((height, width), num_frames) == expected


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"cap_pixels_per_frame": True}, 768),
        ({"cap_pixels_per_frame": True, "max_video_tokens": 20}, 20),
        ({"cap_pixels_per_frame": None, "max_video_tokens": 20}, None),
    ],
    ids=["capped", "capped at 20", "not capped"],
)
def test_a_video_processor_says_whether_frames_are_capped(
    tmp_path: Path, fields: dict[str, Any], tokens: int | None
) -> None:
    for name in ("preprocessor_config.json", "video_preprocessor_config.json"):
        (tmp_path / name).write_text(json.dumps({**CONFIG, **fields}))
    assert PixelRules.from_folder(tmp_path, DIMS) == SMALL
    videos = PixelRules.from_folder(tmp_path, DIMS, video=True)
    assert videos == replace(SMALL, frame_tokens=tokens)
    assert videos.of_each_frame(1, 2).frame_tokens is None


def test_each_frame_of_an_omni_has_the_limits_of_its_processor() -> None:
    from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import Qwen3OmniMoeProcessor

    assert Qwen3OmniMoeProcessor.videos_kwargs["size"] == {
        "shortest_edge": OMNI.min_pixels,
        "longest_edge": OMNI.max_pixels,
    }
    for size in ((720, 1_280), (1_080, 1_920), (240, 320), (20, 300)):
        for num_frames in (1, 2, 20, 120):
            assert OMNI.video_size(size, num_frames) == their_size(size, OMNI)


def test_a_single_frame_is_seen_as_if_it_were_there_twice() -> None:
    assert VIDEO.video_size((640, 480), 1) == VIDEO.video_size((640, 480), 2)


@pytest.mark.parametrize("size", [(100, 75), (64, 96), (33, 47), (20, 300), (9, 9), (240, 180)])
def test_pixels_and_patches_of_the_checkpoints_processor(size: Size, tmp_path: Path) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    processor = Qwen2VLImageProcessorPil(**CONFIG)
    processor.save_pretrained(tmp_path)
    rules = PixelRules.from_folder(tmp_path, DIMS)
    assert rules == SMALL
    frames = picture(*size)
    theirs = processor(images=[frames[0]], return_tensors="pt")
    seen = rules.image_size(size)
    pixels = rules.prepare(frames, seen)
    assert pixels.shape == (1, 3, *seen) and pixels.dtype == np.float32
    ours = patchify(torch.from_numpy(pixels), DIMS)
    assert [1, seen[0] // 4, seen[1] // 4] == theirs["image_grid_thw"][0].tolist()
    assert ours.shape == theirs["pixel_values"].shape
    # Normalised values: one step of a byte is 1 / (255 std). This is their processor on Pillow,
    # which differs from that on torchvision (below) by two steps here and there.
    steps = (ours - theirs["pixel_values"]).view(len(ours), 3, -1).abs()
    steps *= torch.tensor(STD).view(3, 1) * 255
    assert steps.max() <= 2.01 and (steps > 1.01).float().mean() <= 0.002


# The first 6 red, green and blue bytes of row 5, of a 24 x 40 picture seen at 48 x 32 and at
# 16 x 24, as transformers 5.23 makes them with torchvision 0.28: the default, where there is one.
RECORDED: dict[Size, list[list[int]]] = {
    (48, 32): [
        [241, 253, 255, 255, 255, 255],
        [240, 243, 247, 250, 253, 255],
        [209, 220, 230, 240, 249, 254],
    ],
    (16, 24): [
        [212, 198, 176, 151, 126, 99],
        [215, 211, 207, 204, 200, 192],
        [222, 227, 230, 231, 231, 228],
    ],
}


@pytest.mark.parametrize("seen", RECORDED)
def test_bytes_of_the_default_processor_with_torchvision(seen: Size) -> None:
    rules = PixelRules(8, 2, 64, 4_096, (0.0,) * 3, (1.0,) * 3)
    values = rules.prepare(picture(24, 40, seed=1), seen)[0, :, 5, :6] * 255
    assert np.abs(values - np.array(RECORDED[seen])).max() <= 1.01


def test_patches_of_a_video(tmp_path: Path) -> None:
    """Two frames interleaved in a patch, channel by channel, and the last frame repeated."""
    frames = picture(16, 24, frames=3)
    pixels = SMALL.prepare(frames, (16, 24))
    slices = temporal_slices(pixels, [0.0, 0.5, 1.0], 2)
    assert [seconds for seconds, _ in slices] == [0.25, 1.0]
    assert (slices[1][1] == pixels[[2, 2]]).all()
    patches = torch.cat([patchify(torch.from_numpy(part), DIMS) for _, part in slices])
    assert patches.shape == (2 * 4 * 6, 3 * 2 * 4 * 4)
    # Patch 7 is the last of the second token: down 1, across 3.
    expected = pixels[0:2, :, 4:8, 12:16].transpose(1, 0, 2, 3).ravel()
    assert torch.equal(patches[7], torch.from_numpy(expected))
    single = patchify(torch.from_numpy(pixels[2:]), DIMS)
    assert torch.equal(single, patches[24:])


def test_detail() -> None:
    assert RULES.for_detail("high") == RULES.for_detail("auto") == RULES
    low = RULES.for_detail("low")
    assert low.num_tokens(low.image_size((4_000, 3_000))) <= LOW_TOKENS
    assert low.image_size((400, 300)) == RULES.image_size((400, 300))
    with pytest.raises(RequestError, match="detail: expected 'low', 'high' or 'auto', got 'hi'"):
        RULES.for_detail("hi")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(20, 3_000), st.integers(20, 3_000)), min_size=1, max_size=5),
    st.integers(1, 20_000),
)
def test_a_request_stays_within_its_tokens(sizes: list[Size], max_tokens: int) -> None:
    try:
        seen = share_tokens(RULES, sizes, max_tokens)
    except RequestError:
        least = [RULES.limited(1).image_size(size) for size in sizes]
        assert sum(map(RULES.num_tokens, least)) > max_tokens
        return
    costs = [RULES.num_tokens(size) for size in seen]
    assert len(seen) == len(sizes) and sum(costs) <= max_tokens
    alone = [RULES.image_size(size) for size in sizes]
    if sum(map(RULES.num_tokens, alone)) <= max_tokens:
        assert seen == alone


def test_the_largest_image_gives_way_first() -> None:
    small, large = share_tokens(RULES, [(320, 320), (3_000, 3_000)], 1_000)
    assert small == RULES.image_size((320, 320))
    assert 700 <= RULES.num_tokens(large) <= 900


@pytest.mark.parametrize("rules", [VIDEO, OMNI], ids=["VIDEO", "OMNI"])
def test_a_video_stays_within_its_tokens(rules: PixelRules) -> None:
    size = share_video_tokens(rules, (1_080, 1_920), 20, 2_000)
    assert 1_200 <= 10 * rules.num_tokens(size) <= 2_000
    with pytest.raises(RequestError, match="at most 3 tokens together"):
        share_video_tokens(rules, (1_080, 1_920), 20, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patch_size": 16}, "patch_size: expected the vision encoder's 4, got 16"),
        ({"size": {"longest_edge": 5}}, "size.shortest_edge: expected pixels >= 1, got None"),
        ({"image_mean": [0.5]}, "image_mean: expected three numbers"),
        ({"image_std": [0.5, 0, 1]}, "image_std: expected positive numbers"),
        ({"do_normalize": False}, "do_normalize: expected true, got False"),
        ({"do_rescale": False}, "do_rescale: expected true, got False"),
        ({"rescale_factor": 1 / 127.5}, "rescale_factor: expected 1 / 255, got 0.0078"),
    ],
)
def test_processors_that_do_not_fit(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**CONFIG, **change}))
    with pytest.raises(CheckpointError, match=message):
        PixelRules.from_folder(tmp_path, DIMS)


def test_pixels_of_an_image_count_more_than_its_edges(tmp_path: Path) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    config = {**CONFIG, "min_pixels": 512, "max_pixels": 2_048}
    for name in ("preprocessor_config.json", "video_preprocessor_config.json"):
        (tmp_path / name).write_text(json.dumps(config))
    theirs: Any = Qwen2VLImageProcessorPil.from_pretrained(tmp_path).size
    ours = PixelRules.from_folder(tmp_path, DIMS)
    assert (ours.min_pixels, ours.max_pixels) == (512, 2_048)
    assert (theirs["shortest_edge"], theirs["longest_edge"]) == (512, 2_048)
    assert PixelRules.from_folder(tmp_path, DIMS, video=True) == SMALL


def test_where_the_rules_are_kept(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"processor_config.json: patch_size"):
        PixelRules.from_folder(tmp_path, DIMS)
    old = {key: value for key, value in CONFIG.items() if key != "size"}
    old |= {"min_pixels": 256, "max_pixels": 4_096}
    video = {**CONFIG, "size": {"shortest_edge": 1, "longest_edge": 2_000}}
    joint = {"image_processor": old, "video_processor": CONFIG}
    (tmp_path / "processor_config.json").write_text(json.dumps(joint))
    assert PixelRules.from_folder(tmp_path, DIMS) == SMALL
    assert PixelRules.from_folder(tmp_path, DIMS, video=True) == SMALL
    (tmp_path / "video_preprocessor_config.json").write_text(json.dumps(video))
    assert PixelRules.from_folder(tmp_path, DIMS, video=True).max_pixels == 2_000
