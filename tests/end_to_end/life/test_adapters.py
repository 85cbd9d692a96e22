"""Adapters over HTTP with a real engine in a process of its own: loaded, asked for by the openai
package, replaced while an answer is written, and there again when the engine was killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, cast

import httpx
from openai import AsyncOpenAI

from lookhear.engine.client.client import EngineClient
from lookhear.engine.config import EngineConfig
from lookhear.gateway.config import GatewayConfig
from tests.engine.client.listening import until
from tests.gateway.chatting import client
from tests.gateway.running import Running, running
from tools.random_checkpoints.adapters import build_random_adapter
from tools.random_checkpoints.pooling import build_reranker

ASKED: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Tell me about the red circle."}],
    "max_tokens": 48,
    "extra_body": {"ignore_eos": True},
}


async def said(sdk: AsyncOpenAI, model: str) -> str:
    answer = await sdk.chat.completions.create(model=model, **ASKED)
    return answer.choices[0].message.content or ""


async def load(http: httpx.AsyncClient, path: str, **fields: Any) -> dict[str, Any]:
    body = {"lora_name": "shop", "lora_path": path, **fields}
    answer = await http.post("/v1/load_lora_adapter", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def all_of_it(gateway: Running, engine: EngineClient) -> None:
    url = f"{gateway.http}/v1"
    async with (
        AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as sdk,
        client(gateway) as http,
    ):
        plain = await said(sdk, "m")
        first = await load(http, "one")
        one = await said(sdk, "m:shop")
        assert one != plain and await said(sdk, "m") == plain
        assert "m:shop" in [model.id for model in (await sdk.models.list()).data]
        # It is replaced while an answer is written, which does not notice.
        stream = await sdk.chat.completions.create(model="m:shop", stream=True, **ASKED)
        text, replaced = "", None
        async for chunk in stream:
            text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
            if text and replaced is None:
                replaced = await load(http, "two", load_inplace=True)
        assert text == one and replaced is not None
        assert replaced["version"] != first["version"]
        two = await said(sdk, "m:shop")
        assert two not in (one, plain)
        # The engine dies, and comes back with it.
        pid = engine.pids["m"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        # Nobody new is let in from when its death is noticed until another one answers.
        await until(lambda: engine.pids["m"] not in (None, pid) and engine.is_ready("m"))
        assert await said(sdk, "m:shop") == two
        found = await sdk.embeddings.create(model="m:shop", input="a text")
        other = await sdk.embeddings.create(model="m", input="a text")
        assert found.data[0].embedding != other.data[0].embedding


async def test_an_adapter_from_its_loading_to_the_death_of_its_engine(tmp_path: Path) -> None:
    model = build_reranker(tmp_path / "model", seed=3)
    for seed, name in enumerate(("one", "two")):
        build_random_adapter(tmp_path / "adapters" / name, model, seed=seed)
    config = EngineConfig(
        model=str(tmp_path / "model"),
        served_name="m",
        device="cpu",
        dtype="float32",
        threads=1,
        kv_cache_gigabytes=0.05,
        recover_seconds=60.0,
    )
    engine = EngineClient([config])
    await engine.load()
    try:
        limits = GatewayConfig(port=0, adapter_folder=tmp_path / "adapters")
        async with running(limits, engine=cast(Any, engine)) as gateway:
            await all_of_it(gateway, engine)
    finally:
        await engine.close()
