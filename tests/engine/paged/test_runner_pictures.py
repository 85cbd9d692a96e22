"""The paged runner with pictures: positions and DeepStack rows arrive, however prompts are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.core.request import Priority, Result
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.paged.runner import PagedRunner
from tests.engine.runners import finish
from tools.random_checkpoints.qwen3_vl import IMAGE_TOKEN, build_random_qwen3_vl

Sizes = tuple[tuple[int, int], ...]
SIZES: dict[str, Sizes] = {"a": ((3, 4),), "b": ((5, 2), (2, 6)), "text": (), "c": ((1, 7),)}
NEW = 10


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Qwen3VLModel, Any]:
    folder: Path = tmp_path_factory.mktemp("vl")
    theirs = build_random_qwen3_vl(folder, seed=5)
    return Qwen3VLModel.from_folder(folder), theirs


def make_runner(model: Qwen3VLModel) -> PagedRunner:
    runner = PagedRunner(model, max_rows=6, num_blocks=60, max_context=200, encoder_bytes=2**20)
    for layer in runner.cache.layers:  # nothing unwritten may be read
        layer.fill_(torch.nan)
    return runner


def make_request(model: Qwen3VLModel, key: str, sizes: Sizes, question: int = 0) -> PagedRequest:
    rng = np.random.default_rng(len(key) + sum(map(sum, sizes)))
    tokens: list[int] = rng.integers(0, 140, 13).tolist()
    media = []
    for size in sizes:
        factor = model.encoder.dims.factor
        shape = (1, 3, size[0] * factor, size[1] * factor)
        medium = model.medium(rng.normal(size=shape).astype(np.float32))
        media.append((len(tokens), medium))
        tokens += [IMAGE_TOKEN] * medium.num_tokens + [7]
    tokens += np.random.default_rng(question).integers(0, 140, 6).tolist()
    return PagedRequest(
        key, Priority.LIVE, tuple(tokens), tuple(media), max_new_tokens=NEW, loop_room=None
    )


def expected(pair: tuple[Qwen3VLModel, Any], request: PagedRequest, answer: Result) -> list[int]:
    """What transformers says at every token of the answer, given those before."""
    model, theirs = pair
    tokens = [*request.tokens, *answer.tokens]
    kinds = torch.zeros(1, len(tokens), dtype=torch.int64)
    inputs: dict[str, Any] = {"mm_token_type_ids": kinds}
    dims = model.encoder.dims
    if request.media:
        pixels = [torch.from_numpy(m.features) for _, m in request.media]
        inputs["pixel_values"] = torch.cat([patchify(p, dims) for p in pixels])
        inputs["image_grid_thw"] = torch.tensor(
            [[1, p.shape[2] // dims.patch, p.shape[3] // dims.patch] for p in pixels]
        )
        for start, medium in request.media:
            kinds[0, start : start + medium.num_tokens] = 1
    with torch.inference_mode():
        logits = theirs(input_ids=torch.tensor([tokens]), use_cache=False, **inputs).logits[0]
    chosen: list[int] = logits[len(request.tokens) - 1 :].argmax(-1).tolist()
    return chosen


@pytest.mark.parametrize("chunk", [10_000, 5, 1])
def test_answers_are_those_of_transformers(pair: tuple[Qwen3VLModel, Any], chunk: int) -> None:
    requests = {key: make_request(pair[0], key, sizes) for key, sizes in SIZES.items()}
    runner = make_runner(pair[0])
    results = finish(runner, [runner.place(r) for r in requests.values()], chunk)
    for key, request in requests.items():
        answer = results[key]
        if IMAGE_TOKEN in answer.tokens:  # transformers would look for the picture
            continue
        chosen = expected(pair, request, answer)
        assert list(answer.tokens) == chosen[: len(answer.tokens)]
        assert answer.stop != "end" or chosen[len(answer.tokens)] in pair[0].end_tokens


def test_a_second_question_finds_the_picture(pair: tuple[Qwen3VLModel, Any]) -> None:
    first, second = (make_request(pair[0], "b", SIZES["b"], question) for question in (1, 2))
    runner = make_runner(pair[0])
    finish(runner, [runner.place(first)])
    read, encoded = runner.num_read, runner.stats()["media_tokens_encoded"]
    cached = finish(runner, [runner.place(second)])["b"]
    assert (
        runner.num_read - read < BLOCK_TOKENS + 6
        and runner.stats()["media_tokens_encoded"] == encoded
    )
    fresh = make_runner(pair[0])
    assert finish(fresh, [fresh.place(second)])["b"].tokens == cached.tokens
