"""Vectors and scores over HTTP, by every name and in every form that clients have for them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from openai.types import CreateEmbeddingResponse

from lookhear.engine.client.client import InputRefused
from lookhear.gateway.chat.refusals import BEYOND
from tests.gateway.chatting import client, data_url, image, png, text
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.pooling.fake_pooling import VECTORS, FakePooling
from tests.gateway.running import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = VECTORS.id


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vectors() -> AsyncIterator[Running]:
    engine = FakeEngine(sees=True)
    engine.models.append(VECTORS)
    async with running(engine=engine) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def http(vectors: Running) -> AsyncIterator[httpx.AsyncClient]:
    vectors.engine.pooling = FakePooling()
    async with client(vectors) as it:
        yield it


async def asked(http: httpx.AsyncClient, path: str, **body: Any) -> Any:
    answer = await http.post(path, json={"model": MODEL, **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-lookhear-model"] == MODEL
    return answer.json()


async def refused(http: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    # Not httpx's own JSON: it cannot send what is no text.
    content = json.dumps({"model": MODEL, **body})
    answer = await http.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error


async def test_embeddings_are_openais(http: httpx.AsyncClient) -> None:
    body = await asked(http, "/v1/embeddings", input=["a few words", "one"])
    told = CreateEmbeddingResponse.model_validate(body, strict=True)
    assert [one.embedding for one in told.data] == [[9.0, 0.0, 1.0], [3.0, 0.0, 1.0]]
    assert [one.index for one in told.data] == [0, 1]
    assert (told.usage.prompt_tokens, told.usage.total_tokens) == (4, 4)
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert body["id"].startswith("embed-") and told.model == MODEL


async def test_the_openai_package_reads_them(vectors: Running, http: httpx.AsyncClient) -> None:
    async with AsyncOpenAI(api_key="none", base_url=f"{vectors.http}/v1", max_retries=0) as sdk:
        # It asks for base64, unless it is told not to, and makes numbers of that.
        asked: dict[str, Any] = {"model": MODEL, "input": ["a few words"], "dimensions": 2}
        for format in (None, "float"):
            told = {} if format is None else {"encoding_format": format}
            found = await sdk.embeddings.create(**{**asked, **told})
            assert found.data[0].embedding == [9.0, 0.0]


async def test_base64_is_little_endian_float32(http: httpx.AsyncClient) -> None:
    body = await asked(http, "/v1/embeddings", input="abc", encoding_format="base64")
    data = base64.b64decode(body["data"][0]["embedding"])
    assert np.frombuffer(data, "<f4").tolist() == [3.0, 0.0, 1.0]


PICTURE = png(40, 30)
FORMS: dict[str, tuple[Any, list[list[float]]]] = {
    "text": ("ab", [[2, 0, 1]]),
    "texts": (["ab", "abc"], [[2, 0, 1], [3, 0, 1]]),
    "tokens": ([7, 8, 9], [[3, 0, 1]]),
    "several of tokens": ([[7, 8], [9]], [[2, 0, 1], [1, 0, 1]]),
    "content": ([{"content": "ab"}], [[2, 0, 1]]),
    "parts": ([{"content": [text("ab"), image(PICTURE)]}], [[2, 1, 1]]),
    "an object": ({"content": [text("ab"), image(PICTURE)]}, [[2, 1, 1]]),
    "text and image": ([{"text": "ab", "image": data_url(PICTURE)}, "c"], [[2, 1, 1], [1, 0, 1]]),
    "plain base64": ([{"image": base64.b64encode(PICTURE).decode()}], [[0, 1, 1]]),
}


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_input(vectors: Running, http: httpx.AsyncClient, form: str) -> None:
    given, expected = FORMS[form]
    body = await asked(http, "/v1/embeddings", input=given)
    assert [one["embedding"] for one in body["data"]] == expected
    pictures = int(sum(row[1] for row in expected))
    assert vectors.engine.pooling.sizes[-1] == [(30, 40, 3)] * pictures


async def test_a_conversation_is_one_input(vectors: Running, http: httpx.AsyncClient) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [image(PICTURE), text("what?")]},
    ]
    body = await asked(http, "/v1/embeddings", messages=messages)
    assert len(body["data"]) == 1
    (document,) = vectors.engine.pooling.asked[-1].documents
    assert document.is_conversation
    assert [message.role for message in document.messages] == ["system", "user"]
    error = await refused(http, "/v1/embeddings", messages=messages, input="a")
    assert error["param"] == "messages"


async def test_settings_reach_the_engine(vectors: Running, http: httpx.AsyncClient) -> None:
    await asked(
        http,
        "/v1/embeddings",
        input="a",
        dimensions=2,
        normalize=False,
        instruction="Find it",
        input_type="search_query",
        cache_salt="mine",
        user="somebody",
    )
    settings = vectors.engine.pooling.asked[-1].settings
    assert (settings.model, settings.kind, settings.dimensions) == (MODEL, "vector", 2)
    assert (settings.normalise, settings.instruction) == (False, "Find it")
    assert (settings.role, settings.cache_salt) == ("query", "mine")


async def test_what_changes_nothing_is_named(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/embeddings", json={"model": MODEL, "input": "a", "colour": 1})
    assert answer.headers["x-lookhear-ignored"] == "colour"


async def test_a_vector_of_each_token(http: httpx.AsyncClient) -> None:
    body = await asked(http, "/pooling", input=["ab cd", "e"], task="token_embed")
    assert [one["object"] for one in body["data"]] == ["pooling", "pooling"]
    assert body["data"][0]["data"] == [[4.0, 0.0, 1.0]] * 2
    assert body["data"][1]["data"] == [[1.0, 0.0, 1.0]]  # a list of one, too
    body = await asked(http, "/pooling", input="ab cd")
    assert body["data"][0]["data"] == [4.0, 0.0, 1.0]


SCORED = [("queries", "documents"), ("text_1", "text_2"), ("data_1", "data_2")]


@pytest.mark.parametrize(("query", "document"), SCORED)
@pytest.mark.parametrize("path", ["/v1/score", "/score"])
async def test_scores(http: httpx.AsyncClient, path: str, query: str, document: str) -> None:
    body = await asked(http, path, **{query: "red car", document: ["red", "blue car", "sky"]})
    assert [one["score"] for one in body["data"]] == [1.0, 0.5, 0.0]
    assert [(one["index"], one["object"]) for one in body["data"]] == [
        (i, "score") for i in range(3)
    ]
    assert body["object"] == "list" and body["usage"]["total_tokens"] == 4
    pairs = await asked(http, path, **{query: ["red", "blue"], document: ["red", "red"]})
    assert [one["score"] for one in pairs["data"]] == [1.0, 0.0]
    error = await refused(http, path, **{query: ["a", "b"], document: ["c"]})
    assert error["param"] == query


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
async def test_reranked(http: httpx.AsyncClient, path: str) -> None:
    documents = ["sky", "red", {"text": "blue car"}, "red"]
    body = await asked(http, path, query="red car", documents=documents)
    best = [(one["index"], one["relevance_score"]) for one in body["results"]]
    assert best == [(1, 1.0), (3, 1.0), (2, 0.5), (0, 0.0)]
    assert body["results"][2]["document"] == {"text": "blue car"}
    two = await asked(
        http, path, query="red car", documents=documents, top_n=2, return_documents=False
    )
    assert [one["index"] for one in two["results"]] == [1, 3]
    assert "document" not in two["results"][0]


async def test_pictures_are_compared(vectors: Running, http: httpx.AsyncClient) -> None:
    await asked(
        http,
        "/v1/rerank",
        query={"content": [text("which?"), image(PICTURE)]},
        documents={"content": [image(png(8, 9)), text("words"), image(png(7, 5))]},
    )
    assert sorted(vectors.engine.pooling.sizes[-1]) == [(5, 7, 3), (9, 8, 3), (30, 40, 3)]
    assert len(vectors.engine.pooling.asked[-1].documents) == 3  # vLLM's form of several


EMBEDDINGS, RERANK = "/v1/embeddings", "/v1/rerank"


@pytest.mark.parametrize(
    ("path", "body", "param", "words"),
    [
        (EMBEDDINGS, {}, "input", "nothing"),
        (EMBEDDINGS, {"input": []}, "input", "empty list"),
        (EMBEDDINGS, {"input": ""}, "input", "not empty"),
        (EMBEDDINGS, {"input": ["a", ""]}, "input[1]", "not empty"),
        (EMBEDDINGS, {"input": {"text": ""}}, "input", "not empty"),
        (EMBEDDINGS, {"input": ["a", {"content": ""}]}, "input[1]", "not empty"),
        (EMBEDDINGS, {"input": 5}, "input", "a text"),
        (EMBEDDINGS, {"input": ["a", 5]}, "input[1]", "a text"),
        (EMBEDDINGS, {"input": ["\ud800"]}, "input[0]", "surrogate"),
        (EMBEDDINGS, {"input": [1, "a"]}, "input[1]", "a token id"),
        (EMBEDDINGS, {"input": [1, -1]}, "input[1]", "a token id"),
        (EMBEDDINGS, {"input": [[1], []]}, "input[1]", "one token"),
        (EMBEDDINGS, {"input": [[1], [True]]}, "input[1][0]", "a token id"),
        (EMBEDDINGS, {"input": ["a"] * 2049}, "input", "at most 2048"),
        (EMBEDDINGS, {"input": [{}]}, "input[0]", "content, text or image"),
        (EMBEDDINGS, {"input": [{"text": 5}]}, "input[0].text", "a string"),
        (EMBEDDINGS, {"input": [{"image": "ftp://a"}]}, "input[0].image", "base64"),
        (EMBEDDINGS, {"input": [{"image": "http://127.0.0.1/a"}]}, "input[0].image", "public"),
        (EMBEDDINGS, {"input": [{"content": [{}]}]}, "input[0].content[0].type", "one of"),
        (EMBEDDINGS, {"input": "a", "dimensions": 0}, "dimensions", "at least"),
        (EMBEDDINGS, {"input": "a", "dimensions": "2"}, "dimensions", "a whole number"),
        (EMBEDDINGS, {"input": "a", "encoding_format": "hex"}, "encoding_format", "float"),
        (EMBEDDINGS, {"input": "a", "input_type": "x"}, "input_type", "query"),
        (EMBEDDINGS, {"input": "a", "truncate_prompt_tokens": 5}, "truncate_prompt_tokens", "cut"),
        (EMBEDDINGS, {"input": "a", "prompt_embeds": "x"}, "prompt_embeds", "embeddings"),
        (EMBEDDINGS, {"messages": []}, "messages", "at least one"),
        ("/pooling", {"input": "a", "task": "classify"}, "task", "embed"),
        (RERANK, {"documents": ["a"]}, "query", "nothing"),
        (RERANK, {"query": "a"}, "documents", "nothing"),
        (RERANK, {"query": ["a", "b"], "documents": ["a"]}, "query", "one"),
        (RERANK, {"query": "a", "documents": [5]}, "documents[0]", "a text"),
        (RERANK, {"query": [1, 2], "documents": ["a"]}, "query[0]", "a text"),
        (RERANK, {"query": "a", "documents": ["a"], "top_n": -1}, "top_n", "at least"),
        ("/v1/score", {"documents": ["a"]}, "queries", "nothing"),
        ("/v1/score", {"text_1": "a"}, "documents", "nothing"),
    ],
)
async def test_what_cannot_be_used_is_named(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], param: str, words: str
) -> None:
    error = await refused(http, path, **body)
    assert error["param"] == param and words in error["message"], error


async def test_a_refusal_of_the_engine_is_about_its_input(
    vectors: Running, http: httpx.AsyncClient
) -> None:
    pooling = vectors.engine.pooling
    pooling.refusal = InputRefused("context_length_exceeded", "expected less", "document", 1)
    error = await refused(http, EMBEDDINGS, input=["a", "b"])
    assert (error["param"], error["code"]) == ("input[1]", "context_length_exceeded")
    assert error["message"] == f"input[1]: expected less. {BEYOND}"
    pooling.refusal = InputRefused("invalid_value", "expected less", "query", 0)
    assert (await refused(http, RERANK, query="a", documents=["b"]))["param"] == "query"
    pooling.refusal = InputRefused("invalid_value", "dimensions: expected 1 to 3, got 9", "", None)
    error = await refused(http, EMBEDDINGS, input="a", dimensions=9)
    assert (error["param"], error["message"]) == (
        "dimensions",
        "dimensions: expected 1 to 3, got 9",
    )
    for code, status in (("too_many_inputs", 503), ("server_error", 500)):
        pooling.refusal = InputRefused(code, "it is what it is", "", None)
        answer = await http.post(EMBEDDINGS, json={"model": MODEL, "input": "a"})
        assert answer.status_code == status


async def test_a_model_that_cannot_is_refused_by_name(http: httpx.AsyncClient) -> None:
    answer = await http.post(EMBEDDINGS, json={"model": "fake/vision", "input": "a"})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "model"
    # A name that nobody has gets the one that can.
    answer = await http.post(EMBEDDINGS, json={"model": "text-embedding-3-small", "input": "a"})
    assert answer.headers["x-lookhear-model"] == MODEL


async def test_who_hangs_up_is_read_for_no_more(vectors: Running, http: httpx.AsyncClient) -> None:
    pooling = vectors.engine.pooling
    pooling.gate = asyncio.Event()
    task = asyncio.create_task(http.post(EMBEDDINGS, json={"model": MODEL, "input": "a"}))
    while not pooling.asked:
        await asyncio.sleep(0)
    task.cancel()
    await vectors.engine.wait_for(lambda: bool(pooling.cancelled))
