"""`lookhear bench overload`: when sessions come, what is counted, what is missed."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from lookhear.bench.generator import Target
from lookhear.bench.measures.trace import SpokenWord
from lookhear.bench.overload import arrivals, numbers, offer, reasons
from lookhear.bench.recordings.session import Session

GOOD: dict[str, Any] = {
    "inside": {"commit_lag_s": {"n": 10, "p95": 2.0}, "drops": 0},
    "refusal_s": {"n": 4, "p95": 0.05},
    "refusals": 4,
    "refused_with_retry_after": 4,
}


@given(count=st.integers(1, 500), rate=st.floats(0.1, 50), seed=st.integers(0, 2**32))
def test_sessions_come_one_after_another(count: int, rate: float, seed: int) -> None:
    times = arrivals(count, rate, random.Random(seed))
    assert len(times) == count and times == sorted(times) and times[0] >= 0


def test_they_come_as_often_as_wanted() -> None:
    assert arrivals(10_000, 4.0, random.Random(1))[-1] == pytest.approx(2500, rel=0.05)


def test_just_within_the_bounds_nothing_is_missed() -> None:
    assert reasons(GOOD) == []


@pytest.mark.parametrize(
    "change",
    [
        {"inside": {"commit_lag_s": {"n": 10, "p95": 2.01}, "drops": 0}},
        {"inside": {"commit_lag_s": {"n": 10, "p95": 1.0}, "drops": 1}},
        {"inside": {}},
        {"refusal_s": {"n": 4, "p95": 0.06}},
        {"refused_with_retry_after": 3},
        {"refusals": 0, "refused_with_retry_after": 0, "refusal_s": {"n": 0}},
    ],
    ids=str,
)
def test_each_bound_is_told(change: dict[str, Any]) -> None:
    assert len(reasons(GOOD | change)) == 1


@pytest.fixture
async def one_at_a_time() -> AsyncIterator[int]:
    """A server that holds one session, and refuses the next two, one of them in words."""
    inside = asyncio.Semaphore(1)
    refused = 0

    def let_in(connection: ServerConnection, _: Request) -> Response | None:
        nonlocal refused
        if not inside.locked():
            return None
        refused += 1
        response = connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "")
        if refused > 1:
            response.headers["retry-after"] = "0"
        return response

    async def listen(connection: ServerConnection) -> None:
        async with inside:
            async for message in connection:
                event = json.loads(message)
                if event["type"] == "session.update":
                    await connection.send('{"type": "session.updated"}')
                elif event["type"] == "input_audio_buffer.clear":
                    await connection.send('{"type": "input_audio_buffer.cleared"}')

    async with serve(listen, "127.0.0.1", 0, process_request=let_in) as server:
        yield next(iter(server.sockets)).getsockname()[1]


async def test_who_is_turned_away_comes_back(one_at_a_time: int) -> None:
    sessions = [
        Session(f"s{n}", np.zeros(2400, "<i2"), "yes", (SpokenWord("yes", 0.0, 0.1),), "en")
        for n in range(2)
    ]
    subject = Target(f"ws://127.0.0.1:{one_at_a_time}", address="")
    crowd = await offer(subject, sessions, [0.0, 0.5])
    result = numbers(crowd)
    assert result["came"] == result["let_in"] + result["gone"] == 2
    assert result["refusals"] == sum(result["reasons"].values()) >= 1
    assert set(result["reasons"]) == {"503"}
    assert result["refused_with_retry_after"] == result["refusals"] - 1
