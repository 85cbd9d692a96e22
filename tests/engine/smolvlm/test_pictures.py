"""Questions about pictures to a SmolVLM, the whole way: crops and prompts as its processor makes
them, and the same greedy tokens as transformers' `generate`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    ChatMessage,
    TextPart,
    VideoPart,
)
from lookhear.engine.smolvlm.crops import CropRules
from tests.engine.chat.asking import ask, hold, image, outcome, pixels, rest, user
from tests.engine.chat.watching import Watched, answered_alone, answered_together
from tools.random_checkpoints.smolvlm import build_served_smolvlm

NEW = 12
RULES = CropRules(32, 96, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
SIZES = {"square": (40, 40), "wide": (24, 96), "tall": (70, 20), "small": (9, 12)}
QUESTIONS: dict[str, list[ChatMessage]] = {
    "text": [user("Tell me a story")],
    "picture": [user(image("wide"), "What is it?")],
    "whole alone": [user("See", image("square", "low"), "?")],
    "several, later on": [
        ChatMessage("system", [TextPart("Be brief.")]),
        user(image("tall"), "and", image("small", "low"), "Which?"),
        ChatMessage("assistant", [TextPart("This.")]),
        user(image("square"), "And now?"),
    ],
}


@pytest.fixture(scope="module", params=["SmolVLM", "Idefics3"])
def pair(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("smol")
    return folder, build_served_smolvlm(folder, seed=3, kind=request.param)


HELD = [hold(name, i, height=h, width=w) for i, (name, (h, w)) in enumerate(SIZES.items())]


def theirs(model: Any, sequence: Any) -> list[int]:
    """What transformers generates from the same prompt."""
    crops = [torch.from_numpy(medium.features) for _, medium in sequence.request.media]
    inputs = {"pixel_values": torch.stack(crops)[None]} if crops else {}
    ids = torch.tensor([sequence.request.tokens])
    with torch.inference_mode():
        whole = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NEW,
            do_sample=False,
            pad_token_id=0,
            **inputs,
        )
    answer: list[int] = whole[0, ids.shape[1] :].tolist()
    end = model.config.text_config.eos_token_id
    return answer[:-1] if answer[-1] == end else answer


@pytest.mark.parametrize("name", QUESTIONS)
def test_greedy_tokens_are_those_of_generate(pair: tuple[Path, Any], name: str) -> None:
    ours = Watched(pair[0], HELD)
    ours.core.submit(ask(*QUESTIONS[name], max_tokens=NEW))
    assert isinstance(done := outcome(rest(ours.core)), AnswerCompleted), done
    assert ours.tokens("a") == theirs(pair[1], ours.sequences["s/a"])


@pytest.mark.parametrize("budget", [17, 40])
def test_steps_company_and_caches_change_nothing(pair: tuple[Path, Any], budget: int) -> None:
    make = partial(Watched, pair[0], HELD)
    together = answered_together(make, QUESTIONS, NEW, budget, found=50)
    assert together == answered_alone(make, QUESTIONS, NEW)


def test_the_prompt_is_the_processors(pair: tuple[Path, Any]) -> None:
    from transformers import Qwen2Tokenizer
    from transformers.models.smolvlm.processing_smolvlm import get_image_prompt_string

    def told(rows: int, columns: int) -> str:
        names = ("<fake_token_around_image>", "<image>", "<global-img>")
        text: str = get_image_prompt_string(rows, columns, 4, *names)
        return text

    ours = Watched(pair[0], HELD)
    ours.core.submit(ask(*QUESTIONS["several, later on"], max_tokens=NEW))
    events = rest(ours.core)
    expected = (
        "<|im_start|>System: Be brief.<end_of_utterance>\n"
        f"User:{told(3, 1)}and{told(0, 0)}Which?<end_of_utterance>\n"
        "Assistant: This.<end_of_utterance>\n"
        f"User:{told(3, 3)}And now?<end_of_utterance>\nAssistant:"
    )
    tokenizer: Any = Qwen2Tokenizer.from_pretrained(pair[0])
    tokens = list(ours.sequences["s/a"].request.tokens)
    assert tokens == tokenizer.encode(expected, add_special_tokens=False)
    (started,) = [event for event in events if isinstance(event, AnswerStarted)]
    assert started.usage.image == 4 * (4 + 1 + 10)


@pytest.mark.parametrize("size", [*SIZES.values(), (33, 100), (200, 31), (1, 60)])
def test_crops_are_the_processors(size: tuple[int, int]) -> None:
    from PIL import Image
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

    picture = pixels(1, *size)
    processor: Any = SmolVLMImageProcessorPil(
        size={"longest_edge": 96},
        max_image_size={"longest_edge": 32},
        resample=3,  # bicubic
        return_row_col_info=True,
    )
    found = processor(images=[Image.fromarray(picture)], return_tensors="np")
    assert RULES.grid(size, 96) == (found["rows"][0][0], found["cols"][0][0])
    crops = RULES.prepare(picture, 96)
    expected = found["pixel_values"][0]
    assert np.stack(crops).shape == expected.shape
    # Bytes are rounded between the three resizes; a unit is 2 / 255.
    apart = np.abs(np.stack(crops) - expected) * 255 / 2
    assert apart.max() <= 4.5 and apart.mean() <= 0.5


def test_a_small_budget_leaves_fewer_crops(pair: tuple[Path, Any]) -> None:
    counts = []
    for most in (1000, 25, 12, 4):
        ours = Watched(pair[0], HELD, max_picture_tokens=most)
        ours.core.submit(ask(user(image("square"), "?")))
        rest(ours.core)
        counts.append(len(ours.sequences["s/a"].request.media))
    assert counts == [10, 5, 1, 1]
    ours = Watched(pair[0], HELD, max_picture_tokens=4)
    ours.core.submit(ask(user(image("square", "high"), "?")))
    rest(ours.core)
    assert len(ours.sequences["s/a"].request.media) == 10


def test_pictures_share_the_context(pair: tuple[Path, Any]) -> None:
    ours = Watched(pair[0], HELD, max_context_tokens=256)
    ours.core.submit(ask(user(*[image("square")] * 5, "?"), max_tokens=8))
    assert isinstance(outcome(rest(ours.core)), AnswerCompleted)
    assert len(ours.sequences["s/a"].request.media) == 5 * 5
    ours.core.submit(ask(user(*[image("square")] * 60, "?"), answer="b", max_tokens=8))
    failed = outcome(rest(ours.core), "b")
    assert isinstance(failed, AnswerFailed) and failed.code == "context_length_exceeded"


def test_a_text_that_is_too_long_by_itself_is_nobodys_picture(pair: tuple[Path, Any]) -> None:
    core = Watched(pair[0], HELD, max_context_tokens=256).core
    core.submit(ask(user("x" * 600), max_tokens=8))
    failed = outcome(rest(core))
    assert isinstance(failed, AnswerFailed), failed
    assert (failed.code, failed.message_index) == ("context_length_exceeded", None)


def test_it_sees_no_videos(pair: tuple[Path, Any]) -> None:
    core = Watched(pair[0], HELD).core
    core.submit(ask(user(VideoPart(["square"], [0.0]), "?")))
    failed = outcome(rest(core))
    assert isinstance(failed, AnswerFailed) and failed.code == "invalid_value"
