"""Embeddings in questions: they reach a model that takes them as they were sent, and what is no
such thing is an error of its part."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
import torch
from safetensors.torch import save
from torch import Tensor

from lookhear.engine.messages import EmbeddingsPart, HoldEmbeddings, TextPart
from lookhear.gateway.config import GatewayConfig
from tests.gateway.chatting import ask, client, image, png, text, user
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import CARDS, FakeEngine
from tests.gateway.running import Running, running
from tests.gateway.strict import check_completion

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPEN = replace(VISION, id="fake/open", abilities=[*VISION.abilities, "embed", "prompt_embeds"])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def taking() -> AsyncIterator[Running]:
    engine = FakeEngine(sees=True)
    engine.models = [*CARDS, VISION, OPEN]
    config = GatewayConfig(max_media_bytes=100_000)
    async with running(engine=engine, config=config) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def http(taking: Running) -> AsyncIterator[httpx.AsyncClient]:
    taking.engine.be_well()
    taking.engine.messages.clear()
    async with client(taking) as it:
        yield it


def part(data: Any) -> dict[str, Any]:
    told = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    return {"type": "prompt_embeds", "data": told}


def torch_file(tensor: Tensor) -> bytes:
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getvalue()


async def test_embeddings_reach_the_engine(http: httpx.AsyncClient, taking: Running) -> None:
    first, second = torch.randn(5, 16), torch.randn(3, 16).bfloat16()
    question = user(
        text("look"), part(torch_file(first)), image(png()), part(save({"e": second})), text("so")
    )
    answer = await ask(http, question, model=OPEN.id)
    said = check_completion(answer.json()).choices[0].message.content
    assert said == "embeddings 16x5, picture 40x30, embeddings 16x3, you said so"
    held = [m for m in taking.engine.messages if isinstance(m, HoldEmbeddings)]
    assert [m.model for m in held] == [OPEN.id] * 2 and len({m.embeddings for m in held}) == 2
    assert np.array_equal(held[0].rows, first.numpy())
    assert np.array_equal(held[1].rows, second.float().numpy())
    await taking.engine.wait_for(lambda: not taking.engine.sessions)
    assert not taking.engine.chat.embeddings


async def test_any_role_may_have_them(http: httpx.AsyncClient, taking: Running) -> None:
    given = part(torch_file(torch.ones(2, 4)))
    system = {"role": "system", "content": [given]}
    assistant = {"role": "assistant", "content": [text("well"), given]}
    answer = await ask(http, system, user("a"), assistant, user("b"), model=OPEN.id)
    assert answer.status_code == 200
    (start,) = taking.engine.chat.started
    kinds = [[type(part) for part in message.parts] for message in start.messages]
    assert kinds == [[EmbeddingsPart], [TextPart], [TextPart, EmbeddingsPart], [TextPart]]


async def test_a_model_that_takes_them_is_asked_where_none_is_named(
    http: httpx.AsyncClient, taking: Running
) -> None:
    answer = await ask(http, user(part(torch_file(torch.ones(2, 4)))), model=...)
    assert answer.status_code == 200 and answer.json()["model"] == OPEN.id


GOOD = torch_file(torch.ones(2, 4))
NAN = torch_file(torch.tensor([[1.0, float("nan")]]))
WRONG: dict[str, tuple[Any, str, str]] = {
    "nothing": (..., "data: expected a string", "invalid_value"),
    "a number": (3, "data: expected a string, got", "invalid_value"),
    "no base64": ("%%%", "as base64", "invalid_prompt_embeds"),
    "empty": ("", "expected embeddings", "invalid_prompt_embeds"),
    "a picture": (png(), "got a PNG image", "invalid_prompt_embeds"),
    "a shape": (torch_file(torch.ones(4)), "[tokens, width]", "invalid_prompt_embeds"),
    "numbers": (torch_file(torch.ones(2, 4).int()), "got int", "invalid_prompt_embeds"),
    "not finite": (NAN, "got nan at [0, 1]", "invalid_prompt_embeds"),
    "cut off": (GOOD[:-40], "damaged archive", "invalid_prompt_embeds"),
    "large": (torch_file(torch.ones(4, 8000)), "at most 100", "invalid_prompt_embeds"),
    "long": (torch_file(torch.ones(4097, 2)), "4096 tokens together", "context_length_exceeded"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_none_is_named(http: httpx.AsyncClient, name: str) -> None:
    data, expected, code = WRONG[name]
    given = {"type": "prompt_embeds"} if data is ... else part(data)
    answer = await ask(http, user(text("a"), given), model=OPEN.id)
    error = answer.json()["error"]
    path = "messages[0].content[1].data"
    assert (answer.status_code, error["param"], error["code"]) == (400, path, code)
    assert error["message"].startswith(path) and expected in error["message"]


async def test_all_of_a_request_are_bounded_together(http: httpx.AsyncClient) -> None:
    half = part(torch_file(torch.ones(2500, 2)))
    answer = await ask(http, user(half, text("and"), half), model=OPEN.id)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
    assert "got 5000" in error["message"]


async def test_who_takes_none_says_so(http: httpx.AsyncClient) -> None:
    answer = await ask(http, user(part(GOOD)), model=VISION.id)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "unsupported_content")
    assert error["param"] == "messages[0].content[0]"
    assert "--enable-prompt-embeds" in error["message"]


async def test_they_are_no_field_of_the_body(http: httpx.AsyncClient) -> None:
    answer = await ask(http, user("a"), model=OPEN.id, prompt_embeds="AAAA")
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "prompt_embeds")
    assert "parts of messages" in error["message"]


@pytest.mark.parametrize("field", ["input", "messages"])
async def test_vectors_are_made_of_them_too(
    http: httpx.AsyncClient, taking: Running, field: str
) -> None:
    taking.engine.pooling.given.clear()
    told = user(text("a word"), part(GOOD))
    given = {"input": {"content": told["content"]}} if field == "input" else {field: [told]}
    answer = await http.post("/v1/embeddings", json={"model": OPEN.id, **given})
    assert answer.status_code == 200, answer.text
    (held,) = taking.engine.pooling.given
    assert np.array_equal(held.rows, np.ones((2, 4)))
    (parts,) = [m.parts for m in taking.engine.pooling.asked[-1].documents[0].messages]
    assert [type(part) for part in parts] == [TextPart, EmbeddingsPart]
    bad = user(part(NAN))
    answer = await http.post("/v1/embeddings", json={"model": OPEN.id, "messages": [bad]})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "messages[0].content[0].data")
