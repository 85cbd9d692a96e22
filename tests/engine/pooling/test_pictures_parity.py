"""Vectors and scores of pictures among words against transformers, as the scripts of
Qwen3-VL-Embedding and Qwen3-VL-Reranker ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from lookhear.engine.chat.template import DEFAULT
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import ChatMessage, Part, PoolingInput, TextPart
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.models.vision_weights import VisionDims
from lookhear.engine.paged.request import PagedRequest
from tests.engine.chat.asking import hold, image, make_core
from tests.engine.pooling.reading import Given, pool, refusal, scores, start, vectors
from tools.random_checkpoints.pooling import WORDS
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl

TOLERANCE = 1e-4
SIZES = {"small": (20, 24), "wide": (24, 70), "tall": (60, 20)}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("vl")
    return folder, build_served_qwen3_vl(folder, seed=3, merges=WORDS)


def text(text: str) -> TextPart:
    return TextPart(text)


INPUTS: dict[str, list[Part]] = {
    "words": [text("A red circle")],
    "a picture": [image("small")],
    "both": [image("tall"), text("a tall one")],
    "several": [text("first"), image("wide"), text("then"), image("small")],
}


class Reading:
    """A core, its pictures, and the requests that it was asked to make."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.core: EngineCore = make_core(folder, **changes)
        self.requests: dict[str, PagedRequest] = {}
        place = self.core._runner.place

        def watched(request: Any) -> Any:
            self.requests[request.key] = request
            return place(request)

        self.core._runner.place = watched  # type: ignore[method-assign]

    def hold(self, session: str = "p") -> None:
        for i, (name, (height, width)) in enumerate(SIZES.items()):
            self.core.submit(hold(name, i, session=session, height=height, width=width))


def last_hidden(model: Any, request: PagedRequest) -> torch.Tensor:
    """What transformers makes of the last token of the same prompt: [width]."""
    tokens = list(request.tokens)
    kinds = torch.zeros(1, len(tokens), dtype=torch.int64)
    inputs: dict[str, Any] = {"mm_token_type_ids": kinds}
    if request.media:
        dims = VisionDims.from_config(model.config.vision_config.to_dict(), Path("config.json"))
        for start_, medium in request.media:
            kinds[0, start_ : start_ + medium.num_tokens] = 1
        held = [torch.from_numpy(medium.features) for _, medium in request.media]
        size = dims.patch
        inputs["pixel_values"] = torch.cat([patchify(pixels, dims) for pixels in held])
        inputs["image_grid_thw"] = torch.tensor(
            [[1, pixels.shape[2] // size, pixels.shape[3] // size] for pixels in held]
        )
    with torch.inference_mode():
        found: torch.Tensor = model.model(torch.tensor([tokens]), **inputs).last_hidden_state[0, -1]
    return found


def rendered(folder: Path, system: str, *parts: Part) -> list[int]:
    """By transformers' tokenizer and the template, a placeholder for each picture."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    content = [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else {"type": "image"}
        for part in parts
    ]
    said = [
        {"role": "system", "content": [{"type": "text", "text": system}]},
        {"role": "user", "content": content},
    ]
    told = tokenizer.apply_chat_template(
        said, chat_template=DEFAULT, add_generation_prompt=True, tokenize=False
    )
    ids: list[int] = tokenizer(told)["input_ids"]
    return ids


def collapsed(request: PagedRequest, pad: int) -> list[int]:
    """A run of placeholders is one."""
    tokens = list(request.tokens)
    return [t for i, t in enumerate(tokens) if t != pad or i == 0 or tokens[i - 1] != pad]


@pytest.mark.parametrize("name", INPUTS)
def test_vectors_are_those_of_transformers(pair: tuple[Path, Any], name: str) -> None:
    folder, model = pair
    reading = Reading(folder)
    reading.hold()
    ours = vectors(reading.core, INPUTS[name])[0]
    request = reading.requests["p/document0"]
    pad = model.config.image_token_id
    assert collapsed(request, pad) == rendered(folder, "Represent the user's input.", *INPUTS[name])
    theirs = torch.nn.functional.normalize(last_hidden(model, request), dim=-1).numpy()
    assert np.abs(ours - theirs).max() <= TOLERANCE


def test_an_instruction_is_the_system_and_ends_with_a_mark(pair: tuple[Path, Any]) -> None:
    folder, model = pair
    blank = "Represent the user's input."  # which asks for nothing else
    for told, said in (("Find it", "Find it."), ("Find it!", "Find it!"), (" ", blank)):
        reading = Reading(folder)
        reading.hold()
        vectors(reading.core, INPUTS["both"], instruction=told)
        mine = collapsed(reading.requests["p/document0"], model.config.image_token_id)
        assert mine == rendered(folder, said, *INPUTS["both"])


def test_a_conversation_is_read_as_it_is(pair: tuple[Path, Any]) -> None:
    folder, model = pair
    reading = Reading(folder)
    reading.hold()
    said = [
        ChatMessage("system", [text("Be brief.")]),
        ChatMessage("user", [image("small"), text("what?")]),
    ]
    vectors(reading.core, PoolingInput(said, is_conversation=True))
    mine = collapsed(reading.requests["p/document0"], model.config.image_token_id)
    assert mine == rendered(folder, "Be brief.", image("small"), text("what?"))


def test_scores_are_those_of_transformers(pair: tuple[Path, Any]) -> None:
    folder, model = pair
    reading = Reading(folder)
    documents: list[Given] = list(INPUTS.values())
    query: list[Part] = [image("wide"), text("which?")]
    for _ in range(2):  # the second time from the cache
        reading.hold()
        ours = scores(reading.core, *documents, queries=[query])
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no"))
        row = (model.lm_head.weight[yes] - model.lm_head.weight[no]).detach()
        for i, score in enumerate(ours):
            request = reading.requests[f"p/pair{i}"]
            theirs = torch.sigmoid(last_hidden(model, request) @ row)
            assert abs(float(theirs) - score) <= TOLERANCE
    judge = (
        "Judge whether the Document meets the requirements based on the Query and the Instruct "
        'provided. Note that the answer can only be "yes" or "no".'
    )
    asked = "Given a search query, retrieve relevant candidates that answer the query."
    parts = [
        text(f"<Instruct>: {asked}"),
        text("<Query>:"),
        *query,
        text("\n<Document>:"),
        *INPUTS["both"],
    ]
    mine = collapsed(reading.requests["p/pair2"], model.config.image_token_id)
    assert mine == rendered(folder, judge, *parts)


@pytest.mark.parametrize("changes", [{"token_budget": 19}, {"overlap": 1}, {"draft": "ngram"}])
def test_company_pieces_and_caches_change_nothing(
    pair: tuple[Path, Any], changes: dict[str, Any]
) -> None:
    """Prompts that are cut inside pictures, steps that overlap, and all of it again, cached."""
    alone = Reading(pair[0])
    documents: list[Given] = list(INPUTS.values())
    expected = []
    for one in documents:
        alone.hold()
        expected.append(vectors(alone.core, one)[0])
    together = Reading(pair[0], **changes)
    for again in range(2):
        together.hold()
        found = pool(together.core, *documents, *documents[::-1])
        ours = np.concatenate([one.vectors for one in found])
        assert np.abs(ours - np.stack([*expected, *expected[::-1]])).max() <= 1e-5
        assert not again or sum(one.cached for one in found) > 0


def test_pictures_that_nobody_holds_are_refused_by_their_place(pair: tuple[Path, Any]) -> None:
    reading = Reading(pair[0])
    failed = refusal(reading.core, "a text", [image("none")])
    assert (failed.code, failed.side, failed.index) == ("invalid_value", "document", 1)
    assert "got 'none'" in failed.message
    # And nothing of it is left.
    assert reading.core.stats()["pooled_prompts"] == 0
    reading.core.submit(start(["a text"]))
    assert reading.core.has_work
