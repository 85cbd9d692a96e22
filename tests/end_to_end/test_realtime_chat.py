"""Realtime sessions of a real engine: a Qwen3-VL with random weights, in a process of its own."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.gateway.chatting import data_url, png
from tests.gateway.conversing import said
from tests.gateway.running import Client, Running

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHORT = {"type": "realtime", "max_output_tokens": 4, "lookhear": {"temperature": 0.0}}


@pytest_asyncio.fixture(loop_scope="module")
async def talk(seeing: Running) -> AsyncIterator[Client]:
    async with seeing.client("model=vl") as client:
        await client.send("session.update", session=SHORT)
        await client.until("session.updated")
        yield client


async def ask(client: Client, item: dict[str, Any]) -> dict[str, Any]:
    """-> the details of the tokens that the question had."""
    await client.send("conversation.item.create", item=item)
    await client.send("response.create")
    response = (await client.until("response.done"))["response"]
    assert response["status"] in ("completed", "incomplete"), response
    usage: dict[str, Any] = response["usage"]
    assert usage["input_tokens"] + usage["output_tokens"] == usage["total_tokens"]
    return {**usage["input_token_details"], "all": usage["input_tokens"]}


async def test_the_next_question_about_a_picture_reads_only_what_is_new(talk: Client) -> None:
    image = {"type": "input_image", "image_url": data_url(png(64, 48))}
    text = {"type": "input_text", "text": "what is it"}
    first = await ask(talk, {"type": "message", "role": "user", "content": [image, text]})
    second = await ask(talk, said("and what else"))
    assert first["image_tokens"] == second["image_tokens"] == 48
    assert second["cached_tokens"] >= first["all"] - 16  # whole blocks are found
    fresh = second["all"] - second["cached_tokens"]
    assert fresh <= second["all"] - first["all"] + 16


async def test_a_camera_costs_the_same_later_on(talk: Client) -> None:
    camera = {"max_frames": 3, "report": True}
    await talk.send("session.update", session={**SHORT, "lookhear": {"camera": camera}})
    await talk.until("session.updated")
    sizes, fresh = [], []
    for number in range(60):
        shade = 60 * (number % 4), 255 - number, number
        frame = base64.b64encode(png(64, 48, shade)).decode()
        event = "lookhear.input_video_frame.append"
        await talk.send(event, image=frame, timestamp_ms=500 * number)
        assert (await talk.until("frame.kept"))["frames"] <= 6
        if number % 15 == 14:
            first = await ask(talk, said("what now"))
            again = await ask(talk, said("and what else"))
            sizes.append(first["all"])
            fresh.append(again["all"] - again["cached_tokens"])
            for item in [f for f in talk.seen if f["type"] == "conversation.item.done"]:
                await talk.send("conversation.item.delete", item_id=item["item"]["id"])
            talk.seen.clear()
    assert max(sizes) - min(sizes) < 3 * 64
    assert max(fresh) < 60  # no frame is read again
