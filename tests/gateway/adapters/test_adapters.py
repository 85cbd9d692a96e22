"""Adapters over HTTP: loaded, asked for by name, replaced, unloaded; and who may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from lookhear.engine.client.client import EngineRequestError
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.siblings import Siblings
from tests.gateway.chatting import ask, client, user
from tests.gateway.conversing import said
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.running import MANUAL, Running, running, tone

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"


def spoken_to(model: str) -> dict[str, Any]:
    input = {**MANUAL["audio"]["input"], "transcription": {"model": model}}
    return {"audio": {"input": input}}


def engine() -> FakeEngine:
    fake = FakeEngine(sees=True)
    able = replace(VISION, abilities=[*VISION.abilities, "adapters"])
    fake.models = [able if card is VISION else card for card in fake.models]
    return fake


@pytest_asyncio.fixture
async def adapting(tmp_path: Path) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    for name in ("shop", "legal/v2"):
        (tmp_path / "adapters" / name).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "adapters" / "link").symlink_to(tmp_path / "elsewhere")
    config = GatewayConfig(port=0, adapter_folder=tmp_path / "adapters")
    async with running(config, engine()) as it, client(it) as http:
        yield it, http


async def post(http: httpx.AsyncClient, path: str, **body: Any) -> httpx.Response:
    return await http.post(path, json=body)


async def models(http: httpx.AsyncClient) -> dict[str, Any]:
    return {one["id"]: one for one in (await http.get("/v1/models")).json()["data"]}


async def test_one_is_loaded_asked_for_and_unloaded(
    adapting: tuple[Running, httpx.AsyncClient],
) -> None:
    gateway, http = adapting
    answer = await post(http, LOAD, lora_name="shop")
    assert answer.status_code == 200
    assert answer.json() == {
        "id": "fake/vision:shop",
        "object": "adapter",
        "parent": "fake/vision",
        "rank": 8,
        "version": "v1",
    }
    assert (await models(http))["fake/vision:shop"]["parent"] == "fake/vision"
    answer = await ask(http, user("hello"), model="fake/vision:shop")
    assert answer.headers["x-lookhear-model"] == "fake/vision:shop"
    assert gateway.engine.chat.started[-1].settings.model == "fake/vision:shop"
    # As vLLM's clients call it.
    assert (await models(http))["shop"]["parent"] == "fake/vision"
    answer = await ask(http, user("hello"), model="shop")
    assert answer.headers["x-lookhear-model"] == "fake/vision:shop"
    # A name that nobody has gets the base, not an adapter.
    answer = await ask(http, user("hello"), model="gpt-5")
    assert answer.headers["x-lookhear-model"] == "fake/vision"
    answer = await post(http, UNLOAD, lora_name="shop")
    assert answer.json()["deleted"] is True
    assert "fake/vision:shop" not in await models(http)
    assert (await post(http, UNLOAD, lora_name="shop")).status_code == 400
    # Nor does the base answer in the place of an adapter that is not loaded.
    before = len(gateway.engine.chat.started)
    body = {"messages": [user("hello")], "model": "fake/vision:shop"}
    answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert len(gateway.engine.chat.started) == before


async def test_a_session_goes_on_when_its_adapter_is_unloaded(
    adapting: tuple[Running, httpx.AsyncClient],
) -> None:
    """And has what is loaded while it lasts."""
    _, http = adapting
    async with adapting[0].client("model=fake/vision") as socket:
        await socket.until("session.created")
        assert (await post(http, LOAD, lora_name="shop")).status_code == 200
        updated = await socket.update({"type": "realtime", "model": "fake/vision:shop"})
        assert updated["model"] == "fake/vision:shop"
        await socket.send("conversation.item.create", item=said("hello"))
        await socket.send("response.create")
        assert (await socket.until("response.done"))["response"]["status"] == "completed"
        assert (await post(http, UNLOAD, lora_name="shop")).status_code == 200
        await socket.send("response.create")
        response = (await socket.until("response.done"))["response"]
        assert response["status"] == "failed"
        assert response["status_details"]["error"]["code"] == "model_not_found"
        await socket.update({"type": "realtime", "model": "fake/vision"})
        await socket.send("response.create")
        assert (await socket.until("response.done"))["response"]["status"] == "completed"


async def test_a_turn_fails_alone_when_its_adapter_is_unloaded(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    fake = FakeEngine()
    fake.models = [replace(card, abilities=[*card.abilities, "adapters"]) for card in fake.models]
    config = GatewayConfig(port=0, adapter_folder=tmp_path)
    async with running(config, fake) as gateway, client(gateway) as http:
        assert (await post(http, LOAD, lora_name="shop")).status_code == 200
        async with gateway.client() as socket:
            await socket.update(spoken_to("fake/whisper:shop"))
            assert (await post(http, UNLOAD, lora_name="shop")).status_code == 200
            await socket.append(tone(0.5))
            await socket.send("input_audio_buffer.commit")
            failed = await socket.until(".failed")
            assert failed["error"]["code"] == "model_not_found"
            await socket.update(spoken_to("fake/whisper"))
            await socket.append(tone(0.5))
            await socket.send("input_audio_buffer.commit")
            assert (await socket.until(".completed"))["transcript"] == transcript(8_000)


async def test_one_is_replaced_only_if_that_is_said(
    adapting: tuple[Running, httpx.AsyncClient],
) -> None:
    gateway, http = adapting
    assert (await post(http, LOAD, lora_name="a", lora_path="shop")).status_code == 200
    answer = await post(http, LOAD, lora_name="a", lora_path="legal/v2")
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "duplicate_adapter"
    answer = await post(http, LOAD, lora_name="a", lora_path="legal/v2", load_inplace=True)
    assert answer.status_code == 200
    assert gateway.engine.adapters[-1].folder.endswith("adapters/legal/v2")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "lora_name"),
        ({"lora_name": ""}, "lora_name"),
        ({"lora_name": "a:b"}, "lora_name"),
        ({"lora_name": "../x"}, "lora_name"),
        ({"lora_name": "a", "lora_path": "none"}, "lora_path"),
        ({"lora_name": "a", "lora_path": "../elsewhere"}, "lora_path"),
        ({"lora_name": "a", "lora_path": "/etc"}, "lora_path"),
        ({"lora_name": "link"}, "lora_path"),
        ({"lora_name": "a", "lora_path": "a\0b"}, "lora_path"),
        ({"lora_name": "a", "lora_path": "x" * 1000}, "lora_path"),
        ({"lora_name": "a", "lora_path": 5}, "lora_path"),
        ({"lora_name": "shop", "model": "fake/whisper"}, "model"),
    ],
)
async def test_what_cannot_be_loaded_is_named(
    adapting: tuple[Running, httpx.AsyncClient], body: dict[str, Any], param: str
) -> None:
    gateway, http = adapting
    answer = await http.post(LOAD, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert not gateway.engine.adapters


async def test_the_model_that_is_named_is_meant(
    adapting: tuple[Running, httpx.AsyncClient],
) -> None:
    _, http = adapting
    for path in (LOAD, UNLOAD):
        answer = await post(http, path, lora_name="shop", model="gpt-5")
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "model_not_found"


async def test_what_the_engine_refuses_is_about_the_folder(
    adapting: tuple[Running, httpx.AsyncClient],
) -> None:
    gateway, http = adapting
    gateway.engine.adapter_error = EngineRequestError("invalid_adapter", "use_dora: no")
    error = (await post(http, LOAD, lora_name="shop")).json()["error"]
    assert (error["param"], error["message"]) == (
        "lora_path",
        "lora_path: use_dora: no",
    )
    # Of several models that take adapters the first was asked.
    gateway.engine.models.append(replace(VISION, id="other", abilities=["chat", "adapters"]))
    error = (await post(http, LOAD, lora_name="shop")).json()["error"]
    assert "use_dora: no (fake/vision was asked, no model was named)" in error["message"]


async def test_none_is_called_as_another_model_is(tmp_path: Path) -> None:
    for name in ("shop", "ear", "free"):
        (tmp_path / name).mkdir()
    fake = engine()
    fake.models = [*fake.models, replace(VISION, id="fake/vision:shop")]
    aliases = (("fake/vision:ear", "fake/whisper"),)
    config = GatewayConfig(port=0, adapter_folder=tmp_path, aliases=aliases)
    async with running(config, fake) as gateway, client(gateway) as http:
        before = (await http.get("/v1/models")).json()["data"]
        for name in ("shop", "ear"):
            answer = await post(http, LOAD, lora_name=name, model="fake/vision")
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert (error["code"], error["param"]) == ("duplicate_adapter", "lora_name")
            assert f'"fake/vision:{name}" is a model of its own here' in error["message"]
        assert (await http.get("/v1/models")).json()["data"] == before
        answer = await post(http, LOAD, lora_name="free", model="fake/vision")
        assert answer.status_code == 200


async def test_nobody_loads_anything_where_no_folder_was_named(tmp_path: Path) -> None:
    async with running(GatewayConfig(port=0), engine()) as it, client(it) as http:
        answer = await post(http, LOAD, lora_name="shop", lora_path=str(tmp_path))
        assert answer.status_code == 403 and "--adapters" in answer.json()["error"]["message"]
    config = GatewayConfig(port=0, adapter_folder=tmp_path)
    several = Siblings(number=1)
    async with running(config, engine(), siblings=several) as it, client(it) as http:
        answer = await post(http, UNLOAD, lora_name="shop")
        assert answer.status_code == 403 and "--workers" in answer.json()["error"]["message"]


async def test_without_a_key_nobody_does(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    config = GatewayConfig(port=0, adapter_folder=tmp_path, api_keys=("sesame-open",))
    async with running(config, engine()) as it, client(it) as http:
        assert (await post(http, LOAD, lora_name="shop")).status_code == 401
        told = {"authorization": "Bearer sesame-open"}
        answer = await http.post(LOAD, json={"lora_name": "shop"}, headers=told)
        assert answer.status_code == 200
