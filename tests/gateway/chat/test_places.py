"""More questions at once than an engine answers: they wait."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from lookhear.engine.messages import Message
from lookhear.gateway.chat.places import AnswerPlaces
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.fetching.pictures import Pictures
from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.slots import Claim
from tests.gateway.chatting import URL, ask, client, image, png, user
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

AT_ONCE = 2


class FewAnswers(FakeEngine):
    """peak: answers that were under way at once."""

    def __init__(self) -> None:
        super().__init__(sees=True)
        self.models[-1] = dataclasses.replace(VISION, max_answers=AT_ONCE)
        self.peak = 0

    def send(self, message: Message) -> None:
        super().send(message)
        self.peak = max(self.peak, len(self.chat.answers))


@pytest_asyncio.fixture(loop_scope="module")
async def few() -> AsyncIterator[Running]:
    async with running(GatewayConfig(port=0), FewAnswers()) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def http(few: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with client(few) as it:
        yield it


async def read_none(http: httpx.AsyncClient) -> None:
    """A stream whose client goes away behind the first word."""
    async with http.stream("POST", URL, json={"messages": [user("a")], "stream": True}) as answer:
        async for _ in answer.aiter_lines():
            break


async def test_all_are_answered_and_never_too_many_at_once(
    http: httpx.AsyncClient, few: Running
) -> None:
    asked = [ask(http, user(f"a {n}"), n=1 + n % AT_ONCE) for n in range(20)]
    refused = [ask(http, user("a"), temperature=9) for _ in range(3)]
    gone = [read_none(http) for _ in range(3)]
    answers, others, _ = await asyncio.gather(
        asyncio.gather(*asked), asyncio.gather(*refused), asyncio.gather(*gone)
    )
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.status_code for answer in others} == {400}
    assert isinstance(few.engine, FewAnswers) and few.engine.peak == AT_ONCE
    metrics = (await http.get("/metrics")).text
    assert f"lookhear_answer_wait_seconds_count {len(asked) + len(gone):.1f}" in metrics


async def test_more_choices_than_there_are_places_are_tried(http: httpx.AsyncClient) -> None:
    """The engine says what it thinks of them."""
    answer = await asyncio.wait_for(ask(http, user("a"), n=AT_ONCE + 1), 60)
    assert answer.status_code == 200


async def test_who_hangs_up_or_is_failed_leaves_the_place_to_others(
    http: httpx.AsyncClient, few: Running
) -> None:
    engine, requests = few.engine, few.services.requests
    for fails in (False, True):
        engine.chat.hold = True
        held = [asyncio.create_task(ask(http, user("a"))) for _ in range(AT_ONCE)]
        await engine.wait_for(lambda: len(engine.chat.answers) == AT_ONCE)
        waiting = [asyncio.create_task(ask(http, user("a"))) for _ in range(3)]
        while requests.count < AT_ONCE + 3:
            await asyncio.sleep(0)
        for task in waiting[:2]:
            task.cancel()
        if fails:
            restarted = engine.restarted = asyncio.Event()
            engine.die()
            assert {answer.status_code for answer in await asyncio.gather(*held)} == {503}
            engine.be_well()
            restarted.set()
        else:
            held[0].cancel()
            await engine.wait_for(lambda: engine.chat.cancelled == ["answer_0"])
            engine.chat.release()
        assert (await waiting[2]).status_code == 200
        await asyncio.gather(*held, *waiting, return_exceptions=True)
        engine.be_well()
    assert (await ask(http, user("a"))).status_code == 200


async def test_while_an_engine_is_started_again_nobody_keeps_a_place(
    http: httpx.AsyncClient, few: Running
) -> None:
    """Else those who wait would be told one after the other that it does not come back."""
    engine, requests = few.engine, few.services.requests
    engine.chat.hold = True
    held = [asyncio.create_task(ask(http, user("a"))) for _ in range(AT_ONCE)]
    await engine.wait_for(lambda: len(engine.chat.answers) == AT_ONCE)
    waiting = [asyncio.create_task(ask(http, user("a"))) for _ in range(AT_ONCE + 3)]
    while requests.count < len(held) + len(waiting):
        await asyncio.sleep(0)
    engine.restarted = asyncio.Event()
    engine.die()
    await asyncio.gather(*held)
    await engine.wait_for(lambda: engine.waiting == len(waiting))
    engine.restarted.set()
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {503}


async def test_a_few_places_are_left_to_conversations() -> None:
    engine = FakeEngine(sees=True)
    for most, over_http in ((64, 56), (8, 7), (7, 7), (1, 1)):
        card = dataclasses.replace(VISION, max_answers=most)
        places = AnswerPlaces(engine)
        queued = [places.queue(card, Claim("a", str(n)), 1) for n in range(most + 1)]
        assert [place.is_taken for place in queued].count(True) == over_http
    any_number = AnswerPlaces(engine)
    assert all(any_number.queue(VISION, Claim("a", str(n)), 8).is_taken for n in range(99))


async def test_who_loads_media_leaves_places_to_others() -> None:
    card = dataclasses.replace(VISION, max_answers=64)
    places = AnswerPlaces(FakeEngine(sees=True))
    queued = [places.queue(card, Claim("a", str(n)), 1, loads=True) for n in range(100)]
    waiting = [asyncio.create_task(place.taken()) for place in queued]
    other = places.queue(card, Claim("b", "0"), 1, loads=True)
    await asyncio.gather(other.taken(), *waiting[:25])
    assert [place.is_taken for place in queued].count(True) == 25
    texts = [places.queue(card, Claim("a", str(n)), 1) for n in range(100, 130)]
    assert all(place.is_taken for place in texts)
    # Whose media are there may load no more, and keep their places.
    queued[0].loaded()
    texts[0].leave()
    await waiting[25]
    assert queued[0].is_taken and [place.is_taken for place in queued].count(True) == 26
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for place in (*queued, *texts, other):
        place.leave()
        place.leave()
    left = [places.queue(card, Claim("c", str(n)), 1) for n in range(57)]
    assert [place.is_taken for place in left].count(True) == 56


async def test_a_place_to_load_is_as_many_as_there_are_answers() -> None:
    card = dataclasses.replace(VISION, max_answers=64)
    places = AnswerPlaces(FakeEngine(sees=True))
    queued = [places.queue(card, Claim("a", str(n)), 8, loads=True) for n in range(7)]
    waiting = [asyncio.create_task(place.taken()) for place in queued]
    await asyncio.gather(*waiting[:3])
    texts = [places.queue(card, Claim("b", str(n)), 1) for n in range(24)]
    assert all(place.is_taken for place in texts)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize("said", ["a", image(png())], ids=["a text", "a picture"])
async def test_slow_addresses_stop_no_other_question(
    http: httpx.AsyncClient,
    few: Running,
    monkeypatch: pytest.MonkeyPatch,
    said: dict[str, Any] | str,
) -> None:
    """A picture that comes with its question is there at once."""
    arrived, gate = asyncio.Event(), asyncio.Event()
    load = Pictures.image

    async def slow(media: Pictures, url: str, path: str, claim: Claim) -> Picture:
        if not url.startswith("http:"):
            return await load(media, url, path, claim)
        arrived.set()
        await gate.wait()
        raise ApiError(400, "it never came")

    monkeypatch.setattr(Pictures, "image", slow)
    requests = few.services.requests
    slowly = [
        asyncio.create_task(ask(http, user(image(f"http://slow.test/{n}")))) for n in range(5)
    ]
    await arrived.wait()
    while requests.count < len(slowly):
        await asyncio.sleep(0)
    assert (await asyncio.wait_for(ask(http, user(said)), 60)).status_code == 200
    gate.set()
    assert {answer.status_code for answer in await asyncio.gather(*slowly)} == {400}
