"""The whole way of a question against transformers' `generate`: the same greedy tokens, whatever
the steps, the company and the caches."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from lookhear.engine.messages import AnswerCompleted, ChatMessage, TextPart, VideoPart
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.paged.request import PagedSequence
from tests.engine.chat.asking import ask, hold, image, outcome, rest, user
from tests.engine.chat.watching import Watched, answered_alone, answered_together
from tools.random_checkpoints.qwen3 import EXPERTS
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl

NEW = 12
SIZES = {"small": (20, 24), "wide": (24, 70), "tall": (60, 20)}
FRAMES = [f"f{i}" for i in range(5)]
QUESTIONS: dict[str, list[ChatMessage]] = {
    "text": [user("Tell me a story")],
    "one image": [user(image("small"), "What is it?")],
    "several sizes": [user(image("small"), "and", image("wide"), image("tall"), "Which?")],
    "video": [user("See", VideoPart(FRAMES, [0.0, 0.5, 1.0, 1.5, 2.0]), "Which way?")],
    "all, later on": [
        ChatMessage("system", [TextPart("Be brief.")]),
        user(image("wide"), "What?"),
        ChatMessage("assistant", [TextPart("A thing.")]),
        user(VideoPart(FRAMES, [0.0, 0.5, 1.0, 1.5, 2.0]), image("tall"), "And now?"),
    ],
}


@pytest.fixture(scope="module", params=[{}, EXPERTS], ids=["dense", "experts"])
def pair(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("vl")
    return folder, build_served_qwen3_vl(folder, seed=3, text=request.param)


HELD = [
    *(hold(name, i, height=h, width=w) for i, (name, (h, w)) in enumerate(SIZES.items())),
    *(hold(name, 10 + i, height=24, width=32) for i, name in enumerate(FRAMES)),
]


def theirs(pair: tuple[Path, Any], sequence: PagedSequence) -> list[int]:
    """What transformers generates from the same prompt."""
    model = pair[1]
    dims = model.config.vision_config
    tokens = list(sequence.request.tokens)
    kinds = torch.zeros(1, len(tokens), dtype=torch.int64)
    inputs: dict[str, Any] = {"mm_token_type_ids": kinds}
    for kind, pad, pixels, grid in (
        (1, model.config.image_token_id, "pixel_values", "image_grid_thw"),
        (2, model.config.video_token_id, "pixel_values_videos", "video_grid_thw"),
    ):
        media = [(s, m) for s, m in sequence.request.media if tokens[s] == pad]
        if not media:
            continue
        for start, medium in media:
            kinds[0, start : start + medium.num_tokens] = kind
        held = [torch.from_numpy(m.features) for _, m in media]
        shapes = [[p.shape[2] // dims.patch_size, p.shape[3] // dims.patch_size] for p in held]
        inputs[pixels] = torch.cat([patchify(p, _dims(dims)) for p in held])
        # The slices of a video are one entry of their number; all have one size.
        inputs[grid] = torch.tensor(
            [[1, *shape] for shape in shapes] if kind == 1 else [[len(shapes), *shapes[0]]]
        )
    with torch.inference_mode():
        whole = model.generate(
            torch.tensor([tokens]), max_new_tokens=NEW, do_sample=False, **inputs
        )
    answer: list[int] = whole[0, len(tokens) :].tolist()
    ends = model.generation_config.eos_token_id
    return answer[:-1] if answer[-1] in ends else answer


def _dims(config: Any) -> Any:
    from lookhear.engine.models.vision_weights import VisionDims

    return VisionDims.from_config(config.to_dict(), Path("config.json"))


@pytest.mark.parametrize("name", QUESTIONS)
def test_greedy_tokens_are_those_of_generate(pair: tuple[Path, Any], name: str) -> None:
    ours = Watched(pair[0], HELD)
    ours.core.submit(ask(*QUESTIONS[name], max_tokens=NEW))
    assert isinstance(done := outcome(rest(ours.core)), AnswerCompleted), done
    assert ours.tokens("a") == theirs(pair, ours.sequences["s/a"])


@pytest.mark.parametrize("budget", [17, 23, 40])
def test_steps_company_and_caches_change_nothing(pair: tuple[Path, Any], budget: int) -> None:
    make = partial(Watched, pair[0], HELD)
    together = answered_together(make, QUESTIONS, NEW, budget)
    assert together == answered_alone(make, QUESTIONS, NEW)
