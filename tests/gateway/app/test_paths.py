"""Paths of the API: with a slash too many, and as the metrics count them."""

from __future__ import annotations

import pytest

from lookhear.gateway.config import GatewayConfig
from tests.gateway.chatting import client
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import running


async def test_a_slash_too_many_is_no_redirect() -> None:
    """Behind a proxy with the certificate it would lead to http:."""
    async with running(GatewayConfig(port=0), FakeEngine(sees=True)) as it, client(it) as http:
        body = {"messages": [{"role": "user", "content": "hello"}]}
        answer = await http.post("/v1/chat/completions/", json=body)
        assert answer.status_code == 200 and answer.json()["object"] == "chat.completion"
        assert (await http.get("/v1/models/")).json()["object"] == "list"
        # Nor are errors in other words for it.
        error = (await http.post("/v1/messages/", json={})).json()
        assert error["type"] == "error" and error["error"]["type"] == "invalid_request_error"
        assert (await http.get("/nothing/")).status_code == 404


async def test_readiness_is_told_to_every_client_in_the_same_words() -> None:
    engine = FakeEngine()
    engine.down.add("fake-english")
    async with running(GatewayConfig(port=0), engine) as it, client(it) as http:
        told = await http.get("/ready")
        same = await http.get("/ready", headers={"anthropic-version": "2023-06-01"})
    assert (same.status_code, same.json()) == (told.status_code, told.json())
    assert (told.status_code, told.json()["status"]) == (503, "engine_down")


@pytest.mark.parametrize(
    ("asked", "status"), [("bytes=9999999-", 416), ("foo", 400), ("bytes=0-3", 206)]
)
async def test_ranges_of_a_recording_are_told_to_every_client_in_the_same_words(
    asked: str, status: int
) -> None:
    async with running(GatewayConfig(port=0)) as it, client(it) as http:
        path, headers = "/recordings/hello.opus", {"range": asked}
        told = await http.get(path, headers=headers)
        same = await http.get(path, headers={**headers, "anthropic-version": "2023-06-01"})
    assert (told.status_code, same.status_code, same.content) == (status, status, told.content)


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/v1/messages", "/v1/messages"),
        ("/v1/messages/count_tokens/", "/v1/messages/count_tokens"),
        ("/v1/embeddings", "/v1/embeddings"),
        ("/v1/rerank", "/v1/rerank"),
        ("/v1/responses/input_tokens", "/v1/responses/input_tokens"),
        ("/v1/responses/resp_1/input_items", "/v1/responses/{id}"),
        ("/v1/models/a/b", "/v1/models/{id}"),
        ("/v1/nothing", "other"),
    ],
)
async def test_metrics_count_requests_by_each_path_that_is_served(path: str, label: str) -> None:
    async with running(GatewayConfig(port=0), FakeEngine(sees=True)) as it, client(it) as http:
        await http.post(path, json={})
        lines = (await http.get("/metrics")).text.splitlines()
    counted = [line for line in lines if line.startswith("lookhear_http_requests_total{")]
    assert any(f'path="{label}"' in line for line in counted), counted
