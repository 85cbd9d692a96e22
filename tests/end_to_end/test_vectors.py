"""Vectors and scores of a real engine, a Qwen3-VL with random weights in a process of its own: the
openai package unmodified, pictures, caches."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import numpy as np
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from tests.gateway.chatting import client, data_url, image, png, text
from tests.gateway.running import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXTS = ["a red circle", "two blue squares beside each other, " * 4, "nothing at all"]


@pytest_asyncio.fixture(loop_scope="module")
async def http(seeing: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with client(seeing) as it:
        yield it


async def test_the_openai_package_gets_vectors(seeing: Running) -> None:
    async with AsyncOpenAI(api_key="none", base_url=f"{seeing.http}/v1", max_retries=0) as sdk:
        found = await sdk.embeddings.create(model="vl", input=TEXTS)
        again = await sdk.embeddings.create(model="vl", input=TEXTS, encoding_format="float")
        short = await sdk.embeddings.create(model="vl", input=TEXTS[0], dimensions=8)
    first = np.array([one.embedding for one in found.data])
    assert first.shape == (3, 32) and np.allclose(np.linalg.norm(first, axis=1), 1.0, atol=1e-5)
    assert np.abs(first - np.array([one.embedding for one in again.data])).max() <= 1e-5
    cut = first[0, :8] / np.linalg.norm(first[0, :8])
    assert np.allclose(short.data[0].embedding, cut, atol=1e-5)
    assert again.usage.prompt_tokens == found.usage.prompt_tokens > 3


async def test_pictures_among_words_and_the_same_picture_again(http: httpx.AsyncClient) -> None:
    parts = [image(png(64, 48)), text("what is it")]
    body = {"model": "vl", "input": [{"content": parts}, {"text": "it", "image": data_url(png())}]}
    first, second = [(await http.post("/v1/embeddings", json=body)).json() for _ in range(2)]
    one, two = (np.array([d["embedding"] for d in told["data"]]) for told in (first, second))
    assert np.abs(one - two).max() <= 1e-5 and not np.allclose(one[0], one[1], atol=1e-2)
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= 48


async def test_documents_are_put_in_order(http: httpx.AsyncClient) -> None:
    body = {"model": "vl", "query": TEXTS[0], "documents": [TEXTS[2], TEXTS[0], TEXTS[1]]}
    ranked = (await http.post("/v1/rerank", json=body)).json()["results"]
    assert [one["relevance_score"] for one in ranked] == sorted(
        (one["relevance_score"] for one in ranked), reverse=True
    )
    asked = {"model": "vl", "queries": TEXTS[0], "documents": body["documents"]}
    scores = (await http.post("/v1/score", json=asked)).json()["data"]
    by_index = {one["index"]: one["relevance_score"] for one in ranked}
    for one in scores:
        assert abs(one["score"] - by_index[one["index"]]) <= 1e-5


async def test_what_is_too_long_is_named(http: httpx.AsyncClient) -> None:
    body = {"model": "vl", "input": ["a", "word " * 5000]}
    answer = await http.post("/v1/embeddings", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "input[1]")
    assert error["code"] == "context_length_exceeded"
