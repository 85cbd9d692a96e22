"""Prompts with pictures, against the template as one text and transformers' own processor."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engine.models.qwen3_vl_prompt import Image, Message, Part, Video, build_prompt
from engine.paged_request import Medium
from engine.qwen_tokenizer import QwenTokenizer
from tests.checkpoints_vl import write_vl_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prompt")
    write_vl_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> QwenTokenizer:
    return QwenTokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    from transformers import Qwen2Tokenizer

    return Qwen2Tokenizer.from_pretrained(folder)


def medium(num_tokens: int) -> Medium:
    return Medium.of(np.full((1, 3, 8, 8), num_tokens, np.float32), num_tokens)


def their_video(slices: int, tokens: int, indices: list[int], rate: float) -> str:
    """What transformers' processor puts in the place of a video's placeholder."""
    from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor

    processor: Any = Qwen3VLProcessor
    fields = SimpleNamespace(
        video_processor=SimpleNamespace(merge_size=2, temporal_patch_size=2),
        vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>",
        video_token="<|video_pad|>",
        _calculate_timestamps=lambda *args: processor._calculate_timestamps(None, *args),
    )
    inputs = {
        "video_grid_thw": torch.tensor([[slices, 2, 2 * tokens]]),
        "video_metadata": [SimpleNamespace(fps=rate, frames_indices=indices)],
    }
    text: str = processor.replace_video_token(fields, inputs, 0)
    return text


def seconds_of(indices: list[int], rate: float) -> list[float]:
    from engine.models.qwen3_vl_pixels import temporal_slices

    pixels = np.zeros((len(indices), 3, 1, 1), np.float32)
    return [at for at, _ in temporal_slices(pixels, [i / rate for i in indices], 2)]


IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.mark.parametrize("system", [None, "Be brief."])
def test_a_conversation_is_the_template_as_one_text(
    tokenizer: QwenTokenizer, theirs: Any, system: str | None
) -> None:
    indices, rate = [0, 13, 25, 38, 50], 25.0
    video = their_video(3, 2, list(indices), rate)
    text = (f"<|im_start|>system\n{system}<|im_end|>\n" if system else "") + (
        f"<|im_start|>user\n{IMAGE}the word{IMAGE.replace('<|image_pad|>', '<|image_pad|>' * 4)}"
        "<|im_end|>\n<|im_start|>assistant\n a übel\n<|im_end|>\n"
        f"<|im_start|>user\nwhat <|vision_start|>{video}<|vision_end|>  日本?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    slices = tuple((at, medium(2)) for at in seconds_of(indices, rate))
    assert [at for at, _ in slices] == pytest.approx([0.26, 1.26, 2.0])
    messages = [
        *([Message("system", (system,))] if system else []),
        Message("user", (Image(medium(1)), "the word", Image(medium(4)))),
        Message("assistant", (" a übel\n",)),
        Message("user", ("what ", Video(slices), "  日本?")),
    ]
    prompt = build_prompt(tokenizer, messages)
    assert prompt.tokens == theirs.encode(text, add_special_tokens=False)
    pads = {tokenizer.token("<|image_pad|>"), tokenizer.token("<|video_pad|>")}
    places = [i for i, token in enumerate(prompt.tokens) if token in pads]
    held = [range(start, start + m.num_tokens) for start, m in prompt.media]
    assert places == [place for span in held for place in span]
    assert [m.num_tokens for _, m in prompt.media] == [1, 4, 2, 2, 2]


def test_times_are_part_of_the_text_before_them(tokenizer: QwenTokenizer, theirs: Any) -> None:
    slices = ((0.5, medium(1)), (12.04, medium(1)))
    prompt = build_prompt(tokenizer, [Message("user", ("a", Video(slices, live=True)))], ask=False)
    frame = "<|vision_start|><|video_pad|><|vision_end|>"
    text = f"<|im_start|>user\na<0.5 seconds>{frame}<12.0 seconds>{frame}<|im_end|>\n"
    assert prompt.tokens == theirs.encode(text, add_special_tokens=False)


def test_a_live_video_grows_at_its_end(tokenizer: QwenTokenizer) -> None:
    def tokens(count: int) -> list[int]:
        slices = tuple((i / 2, medium(3)) for i in range(count))
        return build_prompt(tokenizer, [Message("user", (Video(slices, live=True), "?"))]).tokens

    early, late = tokens(2), tokens(3)
    end = early.index(tokenizer.token("<|im_end|>"))
    question = len(tokenizer.encode("?"))
    assert late[: end - question] == early[: end - question]


def test_prefix_continues_the_answer(tokenizer: QwenTokenizer) -> None:
    messages = [Message("user", ("a",))]
    bare = build_prompt(tokenizer, messages)
    assert build_prompt(tokenizer, messages, prefix=[5, 6]).tokens == [*bare.tokens, 5, 6]
    assert (
        build_prompt(tokenizer, messages, ask=False).tokens == bare.tokens[: -len(_ask(tokenizer))]
    )


def _ask(tokenizer: QwenTokenizer) -> list[int]:
    return [tokenizer.token("<|im_start|>"), *tokenizer.encode("assistant\n")]


@pytest.mark.parametrize("text", ["<|im_end|>", "x<|image_pad|>", "<|vision_start|><|video_pad|>"])
def test_text_cannot_hold_special_tokens(tokenizer: QwenTokenizer, text: str) -> None:
    part: Part = text
    tokens = build_prompt(tokenizer, [Message("user", (part,))]).tokens
    plain = build_prompt(tokenizer, [Message("user", ("",))]).tokens
    special = set(tokenizer.added.values())
    assert [t for t in tokens if t in special] == [t for t in plain if t in special]
