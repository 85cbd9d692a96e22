"""The list of models in pages, as Anthropic's client asks for them, and whole, as OpenAI's does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic
from anthropic.types import ModelInfo
from openai import AsyncOpenAI

from lookhear.gateway.config import GatewayConfig
from tests.gateway.chatting import client
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

THEIRS = {"anthropic-version": "2023-06-01"}
SHOWN = ["fake/whisper", "fake-english", "fake/vision", "one", "two"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def many() -> AsyncIterator[Running]:
    aliases = (("one", "fake/whisper"), ("two", "fake-english"))
    config = GatewayConfig(port=0, aliases=aliases)
    async with running(config, FakeEngine(sees=True)) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def sdk(many: Running) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(api_key="none", base_url=many.http, max_retries=0) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def http(many: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with client(many) as it:
        yield it


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 1000])
async def test_pages_forwards_and_backwards_are_the_list(sdk: AsyncAnthropic, limit: int) -> None:
    assert [each.id async for each in sdk.models.list(limit=limit)] == SHOWN
    assert [each.id async for each in sdk.models.list(limit=limit, after_id=SHOWN[1])] == SHOWN[2:]
    page, found = await sdk.models.list(limit=limit, before_id=SHOWN[4]), list[str]()
    while True:
        assert len(page.data) <= limit
        assert (page.first_id, page.last_id) == (page.data[0].id, page.data[-1].id)
        found = [*(each.id for each in page.data), *found]
        if not page.has_next_page():
            break
        page = await page.get_next_page()
    assert found == SHOWN[:4]


async def test_models_are_those_of_the_sdk(sdk: AsyncAnthropic) -> None:
    raw = await sdk.models.with_raw_response.retrieve("fake/vision")
    told = json.loads(await raw.text())
    one = ModelInfo.model_validate(told)
    assert (one.id, one.lifecycle, one.max_input_tokens) == (told["id"], "active", 4096)
    for stages, found in ((["active"], SHOWN), (["deprecated", "retired"], [])):
        asked: list[Any] = stages
        assert [each.id async for each in sdk.models.list(lifecycle=asked)] == found


async def test_openais_client_gets_all_at_once(many: Running) -> None:
    async with AsyncOpenAI(api_key="none", base_url=f"{many.http}/v1") as openai:
        page = await openai.models.list()
        assert [each.id for each in page.data] == SHOWN and not page.has_next_page()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("limit=0001" + 5000 * "0", "limit"),
        ("after_id=nobody", "after_id"),
        ("before_id=nobody", "before_id"),
        ("after_id=one&before_id=two", "before_id"),
    ],
)
async def test_what_is_no_page_is_refused(http: httpx.AsyncClient, query: str, field: str) -> None:
    refused = await http.get(f"/v1/models?{query}")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, field)
    theirs = (await http.get(f"/v1/models?{query}", headers=THEIRS)).json()
    assert (theirs["type"], theirs["error"]["type"]) == ("error", "invalid_request_error")


async def test_errors_are_in_the_words_of_who_asks(
    sdk: AsyncAnthropic, http: httpx.AsyncClient
) -> None:
    with pytest.raises(anthropic.NotFoundError) as unknown:
        await sdk.models.retrieve("claude")
    assert unknown.value.type == "not_found_error"
    with pytest.raises(anthropic.NotFoundError) as elsewhere:
        await sdk.messages.batches.list()
    assert elsewhere.value.type == "not_found_error"
    assert (await http.get("/v1/models/claude")).json()["error"]["code"] == "model_not_found"
    for method, path, status in (
        ("GET", "/v1/messages/nothing", 404),
        ("GET", "/v1/messages/count_tokens", 405),
        ("DELETE", "/v1/messages", 405),
    ):
        told = await http.request(method, path)
        assert (told.status_code, told.json()["type"]) == (status, "error")
    # What Deepgram's paths answer is Deepgram's, whoever asks.
    assert "err_msg" in (await http.get("/v1/listen", headers=THEIRS)).json()


async def test_deepgrams_clients_get_deepgrams_list(many: Running, http: httpx.AsyncClient) -> None:
    """As its SDK reads it: `client.manage.v1.models.list()` and `.get(uuid)`."""
    theirs = {"authorization": "Token none"}
    told = (await http.get("/v1/models?include_outdated=true", headers=theirs)).json()
    assert told["tts"] == []  # nor are those listed that chat
    assert [each["canonical_name"] for each in told["stt"]] == ["fake/whisper", "fake-english"]
    one = told["stt"][1]
    assert one["languages"] == ["en"] and one["batch"] and one["streaming"]
    for id in (one["uuid"], one["name"]):
        assert (await http.get(f"/v1/models/{id}", headers=theirs)).json() == one
    for id in ("nova-3", "fake/vision"):
        unknown = await http.get(f"/v1/models/{id}", headers=theirs)
        assert (unknown.status_code, unknown.json()["err_code"]) == (404, "NOT_FOUND")
