"""Texts that are longer by far than a model reads are not sent to its engine."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from lookhear.gateway.chat.length import LONGEST
from tests.gateway.chatting import client
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.pooling.fake_pooling import VECTORS
from tests.gateway.running import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTEXT = 16
FITS = " " * (CONTEXT * LONGEST)  # as far as can be known
LONG = FITS + " " * LONGEST
TOLD = "Input tokens exceed the configured limit of 16 tokens. Your messages resulted in 17 tokens"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def short() -> AsyncIterator[Running]:
    engine = FakeEngine(sees=True)
    engine.models[-1] = dataclasses.replace(VISION, context_tokens=CONTEXT)
    engine.models.append(dataclasses.replace(VECTORS, context_tokens=CONTEXT))
    async with running(engine=engine) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def http(short: Running) -> AsyncIterator[httpx.AsyncClient]:
    short.engine.be_well()
    async with client(short) as it:
        yield it


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def tool(description: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "f", "description": description}}]


@pytest.mark.parametrize(
    ("path", "body", "param", "told"),
    [
        ("/v1/chat/completions", {"messages": user(LONG)}, "messages", TOLD),
        ("/v1/chat/completions", {"messages": user("a"), "tools": tool(LONG)}, "messages", TOLD),
        ("/v1/completions", {"prompt": LONG}, "prompt", TOLD),
        ("/v1/completions", {"prompt": ["a", LONG]}, "prompt", TOLD),
        ("/v1/responses", {"input": LONG}, "input", TOLD),
        ("/v1/responses", {"input": LONG, "truncation": "auto"}, "input", TOLD),
        ("/v1/embeddings", {"input": ["a", LONG]}, "input[1]", "input[1]: expected at most 16 tok"),
    ],
    ids=["chat", "tools", "text", "texts", "response", "truncated", "vectors"],
)
async def test_what_cannot_fit_is_refused_before_it_is_sent(
    short: Running, http: httpx.AsyncClient, path: str, body: dict[str, Any], param: str, told: str
) -> None:
    short.engine.chat.started.clear()
    short.engine.pooling.asked.clear()
    answer = await http.post(path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["param"] == param and error["message"].startswith(told)
    assert not short.engine.chat.started and not short.engine.pooling.asked


async def test_anthropics_clients_hear_it_in_their_words(http: httpx.AsyncClient) -> None:
    body = {"model": "fake/vision", "max_tokens": 5, "messages": user(LONG)}
    error = (await http.post("/v1/messages", json=body)).json()["error"]
    assert error["message"] == "prompt is too long: 17 tokens > 16 maximum"


async def test_what_may_fit_is_for_the_engine_to_say(
    short: Running, http: httpx.AsyncClient
) -> None:
    """So do prompts that are questions of their own."""
    for path, body in (
        ("/v1/chat/completions", {"messages": user(FITS)}),
        ("/v1/completions", {"prompt": [FITS, FITS]}),
        ("/v1/embeddings", {"input": [FITS, FITS]}),
    ):
        assert (await http.post(path, json=body)).status_code == 200


async def test_the_beginning_of_a_conversation_is_left_out_where_it_may_be(
    short: Running, http: httpx.AsyncClient
) -> None:
    short.engine.chat.started.clear()
    said = [*user(LONG), {"role": "assistant", "content": "b"}, *user("c")]
    answer = await http.post("/v1/responses", json={"input": said, "truncation": "auto"})
    assert answer.status_code == 200
    [start] = short.engine.chat.started
    assert [message.role for message in start.messages] == ["user"]


def told_of_answers(server: Running) -> list[str]:
    """In `/metrics`."""
    lines = server.services.metrics.render().decode().splitlines()
    names = ("lookhear_answers_total", "lookhear_first_token_seconds")
    return [line for line in lines if line.startswith(names)]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages/count_tokens", {"model": "claude", "messages": user("a")}),
        ("/v1/responses/input_tokens", {"input": "a"}),
    ],
)
async def test_what_does_not_fit_is_counted_all_the_same(
    path: str, body: dict[str, Any], http: httpx.AsyncClient, short: Running
) -> None:
    told = f"messages: expected at most {CONTEXT} tokens of prompt and answer, got 20"
    short.engine.chat.fail_next("context_length_exceeded", f"{told} + 1", 0)
    answers = told_of_answers(short)
    counted = await http.post(path, json=body)
    assert told_of_answers(short) == answers, "nobody is answered"
    assert (counted.status_code, counted.json()["input_tokens"]) == (200, 20)
    short.engine.chat.fail_next("context_length_exceeded", f"{told} or more + 1", 0)
    assert (await http.post(path, json=body)).status_code == 400
