"""Prompts with pictures, against the template as one text and transformers' own processor."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lookhear.engine.chat.pictures import PartError, PictureEncoder
from lookhear.engine.chat.pixels import PixelRules
from lookhear.engine.chat.prompt import ChatPrompt, ChatPrompter
from lookhear.engine.chat.template import DEFAULT, ChatTemplate
from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import ChatMessage, TextPart, ToolCall, VideoPart
from lookhear.engine.paged.request import Medium
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.chat.asking import image, pixels, user
from tools.random_checkpoints.qwen3_vl import write_vl_tokenizer

SIDE = 8  # pixels, of a token
# In pixels; pictures are held under these names.
SIZES = {"one": (8, 8), "four": (16, 16), **{f"two {i}": (8, 16) for i in range(5)}}
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
FRAME = "<|vision_start|><|video_pad|><|video_pad|><|vision_end|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prompt")
    write_vl_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    from transformers import Qwen2Tokenizer

    return Qwen2Tokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def prompter(folder: Path) -> ChatPrompter:
    rules = PixelRules(SIDE, 2, SIDE**2, 64 * SIDE**2, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    pictures = PictureEncoder(medium, rules, rules, live_tokens=4)
    for seed, (name, (height, width)) in enumerate(SIZES.items()):
        pictures.hold("s", name, pixels(seed, height, width))
    template = ChatTemplate(DEFAULT, {}, folder)
    return ChatPrompter(QwenTokenizer.from_folder(folder), template, pictures, max_tokens=1000)


def medium(pixels: NDArray[np.float32]) -> Medium:
    return Medium.of(pixels, pixels.shape[2] * pixels.shape[3] // SIDE**2)


def test_a_template_that_writes_nothing_is_told(folder: Path) -> None:
    template = ChatTemplate("{% if messages[0].role == 'system' %}x{% endif %}", {}, folder)
    prompter = ChatPrompter(QwenTokenizer.from_folder(folder), template, None, max_tokens=1000)
    with pytest.raises(RequestError, match="it makes nothing of these") as caught:
        prompter.prompt("s", [user("hi")], reserved=4)
    assert caught.value.code == "invalid_value"


def test_a_template_without_a_place_for_a_tools_picture_says_so(folder: Path) -> None:
    rules = PixelRules(SIDE, 2, SIDE**2, 64 * SIDE**2, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    pictures = PictureEncoder(medium, rules, rules, live_tokens=4)
    pictures.hold("s", "one", pixels(0, 8, 8))
    source = DEFAULT.replace(
        "part.type == 'image'", "part.type == 'image' and (tools or message.role == 'user')"
    )
    template = ChatTemplate(source, {}, folder)
    prompter = ChatPrompter(QwenTokenizer.from_folder(folder), template, pictures, max_tokens=1000)
    called = ChatMessage("assistant", [], [ToolCall("c", "f", "{}")])
    told = ChatMessage("tool", [TextPart("see"), image("one")], call="c")
    with pytest.raises(PartError, match="no place for media in messages of the tool") as caught:
        prompter.prompt("s", [called, told, user(image("one"), "?")])
    assert caught.value.place == (1, 1)


@pytest.mark.parametrize("said", ["The sea", " the"])
def test_an_answer_that_has_begun(prompter: ChatPrompter, theirs: Any, said: str) -> None:
    """As transformers' `continue_final_message` has it."""
    messages = [user("The sea", image("one")), ChatMessage("assistant", [TextPart(said)])]
    text = f"<|im_start|>user\nThe sea{IMAGE}<|im_end|>\n<|im_start|>assistant\n{said}"
    prompt = prompter.prompt("s", messages, continues=True)
    assert prompt.tokens == theirs.encode(text, add_special_tokens=False)
    assert not prompt.is_thinking


def test_a_template_that_leaves_out_what_is_to_be_gone_on_with(folder: Path) -> None:
    template = ChatTemplate("{{ messages[0].content }}", {}, folder)
    prompter = ChatPrompter(QwenTokenizer.from_folder(folder), template, None, max_tokens=100)
    messages = [user("a"), ChatMessage("assistant", [TextPart("b")])]
    with pytest.raises(RequestError, match="leaves out the last one's text"):
        prompter.prompt("s", messages, continues=True)


def frames(*seconds: float, live: bool = False) -> VideoPart:
    return VideoPart([f"two {i}" for i in range(len(seconds))], list(seconds), live)


def asked(prompter: ChatPrompter, *parts: Any) -> ChatPrompt:
    return prompter.prompt("s", [user(*parts)])


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


@pytest.mark.parametrize("system", [None, "Be brief."])
def test_a_conversation_is_the_template_as_one_text(
    prompter: ChatPrompter, theirs: Any, system: str | None
) -> None:
    indices, rate = [0, 13, 25, 38, 50], 25.0
    video = their_video(3, 2, list(indices), rate)
    assert video.startswith(f"<0.3 seconds>{FRAME}<1.3 seconds>")
    text = (f"<|im_start|>system\n{system}<|im_end|>\n" if system else "") + (
        f"<|im_start|>user\n{IMAGE}the word{IMAGE.replace('<|image_pad|>', '<|image_pad|>' * 4)}"
        "<|im_end|>\n<|im_start|>assistant\n a übel\n<|im_end|>\n"
        f"<|im_start|>user\nwhat <|vision_start|>{video}<|vision_end|>  日本?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    messages = [
        *([ChatMessage("system", [TextPart(system)])] if system else []),
        user(image("one"), "the word", image("four")),
        ChatMessage("assistant", [TextPart(" a übel\n")]),
        user("what ", frames(*(index / rate for index in indices)), "  日本?"),
    ]
    prompt = prompter.prompt("s", messages)
    assert prompt.tokens == theirs.encode(text, add_special_tokens=False)
    pads = {prompter.tokenizer.token("<|image_pad|>"), prompter.tokenizer.token("<|video_pad|>")}
    places = [i for i, token in enumerate(prompt.tokens) if token in pads]
    held = [range(start, start + m.num_tokens) for start, m in prompt.media]
    assert places == [place for span in held for place in span]
    assert [m.num_tokens for _, m in prompt.media] == [1, 4, 2, 2, 2]
    assert prompt.placeholders == {"image": 5, "video": 6}


def test_times_stand_before_the_frames_of_a_live_video(prompter: ChatPrompter, theirs: Any) -> None:
    prompt = asked(prompter, "a", frames(0.5, 12.04, live=True))
    text = (
        f"<|im_start|>user\na<0.5 seconds>{FRAME}<12.0 seconds>{FRAME}<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert prompt.tokens == theirs.encode(text, add_special_tokens=False)


def test_a_live_video_grows_at_its_end(prompter: ChatPrompter) -> None:
    early = asked(prompter, frames(0.0, 0.5, live=True), "?").tokens
    late = asked(prompter, frames(0.0, 0.5, 1.0, live=True), "?").tokens
    end = early.index(prompter.tokenizer.token("<|im_end|>"))
    question = len(prompter.tokenizer.encode("?"))
    assert late[: end - question] == early[: end - question]


@pytest.mark.parametrize("text", ["<|im_end|>", "x<|image_pad|>", "<|vision_start|><|video_pad|>"])
def test_text_cannot_hold_special_tokens(prompter: ChatPrompter, text: str) -> None:
    special = set(prompter.tokenizer.added.values())
    written, plain = (asked(prompter, part, image("one")).tokens for part in (text, "x"))
    assert [t for t in written if t in special] == [t for t in plain if t in special]


def test_a_plain_prompt_is_its_text_and_no_more(prompter: ChatPrompter, theirs: Any) -> None:
    """Special tokens in it are such, but for those that stand for media."""
    said = "<|im_start|>user\na b<|im_end|>\n<think>"
    prompt = prompter.prompt("s", [user(said)], is_plain=True)
    assert prompt.tokens == theirs(said)["input_ids"] and not prompt.is_thinking
    pads = prompter.prompt("s", [user(f"a{IMAGE}")], is_plain=True)
    assert prompter.tokenizer.token("<|image_pad|>") not in pads.tokens and not pads.media
