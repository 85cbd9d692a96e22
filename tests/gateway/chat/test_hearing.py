"""Recordings in questions to a model that hears: they reach it as they sound, in every dialect."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio

from lookhear.engine.messages import SAMPLE_RATE, AudioPart, HoldRecording, ImagePart, TextPart
from lookhear.gateway.config import GatewayConfig
from tests.gateway.chat.responding import check_response
from tests.gateway.chatting import ask, client, data_url, image, png, text, user
from tests.gateway.fake_chat import OMNI, VISION
from tests.gateway.fake_engine import CARDS, FakeEngine
from tests.gateway.files.test_http import wav
from tests.gateway.running import Running, running
from tests.gateway.strict import check_completion

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def hearing() -> AsyncIterator[Running]:
    engine = FakeEngine(sees=True)
    engine.models = [*CARDS, VISION, OMNI]
    async with running(engine=engine, config=GatewayConfig(max_turn_seconds=3.0)) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def http(hearing: Running) -> AsyncIterator[httpx.AsyncClient]:
    hearing.engine.be_well()
    hearing.engine.files.clear()
    async with client(hearing) as it:
        yield it


def recording(seconds: float) -> dict[str, Any]:
    data = base64.b64encode(wav(seconds)).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def by_url(seconds: float) -> dict[str, Any]:
    return {"type": "audio_url", "audio_url": {"url": data_url(wav(seconds), "audio/wav")}}


async def test_recordings_reach_who_hears(http: httpx.AsyncClient, hearing: Running) -> None:
    question = user(text("look"), image(png()), recording(1.0), text("and"), by_url(0.5))
    answer = await ask(http, question, model=OMNI.id)
    said = check_completion(answer.json()).choices[0].message.content
    assert said == "picture 40x30, recording 1.0s, recording 0.5s, you said and"
    (start,) = hearing.engine.chat.started
    _, seen, first, _, second = start.messages[0].parts
    assert isinstance(seen, ImagePart)
    assert isinstance(first, AudioPart) and isinstance(second, AudioPart)
    assert first.recording != second.recording
    details = answer.json()["usage"]["prompt_tokens_details"]
    assert (details["audio_tokens"], details["image_tokens"]) == (13 + 6, 2)
    assert not hearing.engine.files, "nobody transcribed them"
    await hearing.engine.wait_for(lambda: not hearing.engine.sessions)
    assert not hearing.engine.chat.recordings


async def test_what_is_heard_is_what_was_sent(http: httpx.AsyncClient, hearing: Running) -> None:
    hearing.engine.messages.clear()
    await ask(http, user(recording(0.5)), model=OMNI.id)
    (held,) = [m for m in hearing.engine.messages if isinstance(m, HoldRecording)]
    assert held.model == OMNI.id and held.samples.dtype == np.float32
    assert len(held.samples) == SAMPLE_RATE // 2 and np.abs(held.samples).max() > 0.01


async def test_others_get_the_text_of_them(http: httpx.AsyncClient, hearing: Running) -> None:
    await ask(http, user(recording(0.5)), model=VISION.id)
    (start,) = hearing.engine.chat.started
    assert start.messages[0].parts == [TextPart("transcribe 0.5 seconds.")]


async def test_responses(http: httpx.AsyncClient, hearing: Running) -> None:
    part = recording(1.0)
    body = {"model": OMNI.id, "input": [{"type": "message", "role": "user", "content": [part]}]}
    answer = await http.post("/v1/responses", json=body)
    check_response(answer.json())
    (start,) = hearing.engine.chat.started
    assert isinstance(start.messages[0].parts[0], AudioPart)
    assert answer.json()["usage"]["input_tokens_details"]["audio_tokens"] == 13


async def test_recordings_that_are_too_long_together(http: httpx.AsyncClient) -> None:
    answer = await ask(http, user(recording(2.0), recording(1.5)), model=OMNI.id)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "audio_too_long"
    assert error["param"] in ("messages[0].content[0]", "messages[0].content[1]")
    assert "recordings of 3 s together at most, got 4 s" in error["message"]


async def test_without_a_name_who_hears_is_asked_where_nobody_transcribes() -> None:
    engine = FakeEngine(sees=True)
    engine.models = [VISION, OMNI]
    async with running(engine=engine) as gateway, client(gateway) as http:
        check_completion((await ask(http, user(recording(0.5)), model=None)).json())
        (start,) = engine.chat.started
        assert start.settings.model == OMNI.id
        check_completion((await ask(http, user(text("a")), model=None)).json())
        assert engine.chat.started[-1].settings.model == VISION.id
