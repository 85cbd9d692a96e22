"""What the SDKs of the chat path's dialects send, as it was recorded, against the real thing.

`RECORD=1 pytest` on this file records what the installed ones send; `record_sdks.mjs` what those
for JavaScript do, the AI SDK's default model among them.
"""

from __future__ import annotations

import asyncio
import json
import os
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.gateway.chat.responding import check_events, check_response
from tests.gateway.chat.test_messages import check_stream, text, user
from tests.gateway.running import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILE = Path(__file__).parent / "http_sdks.json"
RECORDED: dict[str, Any] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
    "required": ["city"],
}
# 64 x 48, red; as bytes that no other version of a library makes.
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAAAwCAIAAAAuKetIAAAAUklEQVR4nO3PMQ0AIADAMEAI/qUg"
    "CxEcDcmqYJtn7/GzpQNeNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWgNaA1oDWg"
    "NaA1oF2vFwFk2XER3gAAAABJRU5ErkJggg=="
)
# Of what machine and which Python it runs on.
VARYING = ("host", "x-stainless-", "user-agent", "content-length", "connection", "accept-encoding")
Client = Callable[[str], Awaitable[None]]


async def ask_responses(server: str) -> None:
    """A picture, a stream, a function that has to be called."""
    async with AsyncOpenAI(api_key="none", base_url=f"{server}/v1", max_retries=0) as sdk:
        picture: Any = {
            "type": "input_image",
            "image_url": f"data:image/png;base64,{PICTURE}",
            "detail": "auto",
        }
        question: Any = {"type": "input_text", "text": "what"}
        asked: Any = [{"role": "user", "content": [picture, question]}]
        await sdk.responses.create(model="gpt-5", input=asked, max_output_tokens=12)
        async with sdk.responses.stream(model="gpt-5", input="so", max_output_tokens=12) as stream:
            assert [event async for event in stream]
        tool: Any = {"type": "function", "name": "weather", "parameters": CITY, "strict": True}
        await sdk.responses.create(
            model="gpt-5",
            input="weather",
            tools=[tool],
            tool_choice="required",
            parallel_tool_calls=False,
        )


async def ask_messages(server: str) -> None:
    """The same, and the tokens of a message."""
    async with AsyncAnthropic(api_key="none", base_url=server, max_retries=0) as sdk:
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        asked = user({"type": "image", "source": source}, text("what"))
        model: Any = "claude"
        await sdk.messages.create(model=model, max_tokens=12, messages=asked)
        async with sdk.messages.stream(model=model, max_tokens=12, messages=asked) as stream:
            await stream.get_final_message()
        tool: Any = {"name": "weather", "input_schema": CITY}
        choice: Any = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
        asked = user(text("weather"))
        await sdk.messages.create(
            model=model, max_tokens=64, messages=asked, tools=[tool], tool_choice=choice
        )
        await sdk.messages.count_tokens(model=model, messages=asked, tools=[tool])


CLIENTS: dict[str, Client] = {
    f"openai {openai.__version__}": ask_responses,
    f"anthropic {anthropic.__version__}": ask_messages,
}


@pytest_asyncio.fixture(loop_scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
        yield client


@asynccontextmanager
async def overheard(port: int, said: bytearray) -> AsyncIterator[str]:
    """-> the address of a relay to that port, of whose clients all is kept."""

    async def pass_on(source: StreamReader, target: StreamWriter, kept: bytearray | None) -> None:
        while data := await source.read(1 << 16):
            if kept is not None:
                kept += data
            target.write(data)
        target.close()

    async def relay(reader: StreamReader, writer: StreamWriter) -> None:
        inward, outward = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.TaskGroup() as group:
            group.create_task(pass_on(reader, outward, said))
            group.create_task(pass_on(inward, writer, None))

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def requests_in(said: bytes) -> Iterator[dict[str, Any]]:
    """One after another, on one connection."""
    while said:
        head, _, said = said.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        pairs = [line.split(": ", 1) for line in lines]
        headers = {name.lower(): value for name, value in pairs}
        size = int(headers["content-length"])
        body, said = json.loads(said[:size]), said[size:]
        kept = {name: value for name, value in headers.items() if not name.startswith(VARYING)}
        yield {"path": first.split()[1], "headers": kept, "body": body}


@pytest.mark.parametrize("client", CLIENTS)
async def test_what_the_sdks_send_today(seeing: Running, client: str) -> None:
    """Is taken, and is what was recorded, if it was of this version."""
    said = bytearray()
    async with overheard(seeing.port, said) as address:
        await CLIENTS[client](address)
    sent = list(requests_in(bytes(said)))
    if os.environ.get("RECORD"):
        RECORDED[client] = sent
        FILE.write_text(json.dumps(RECORDED, indent=1) + "\n", "utf-8")
    assert RECORDED.get(client, sent) == sent


@pytest.mark.parametrize("client", RECORDED)
async def test_what_they_sent_is_answered(
    seeing: Running, http: httpx.AsyncClient, client: str
) -> None:
    for asked in RECORDED[client]:
        answer = await http.post(
            f"{seeing.http}{asked['path']}", json=asked["body"], headers=asked["headers"]
        )
        assert answer.status_code == 200, answer.text
        is_streamed = asked["body"].get("stream", False)
        match asked["path"]:
            case "/v1/responses" if is_streamed:
                check_events(answer.text)
            case "/v1/responses":
                check_response(answer.json())
            case "/v1/messages" if is_streamed:
                check_stream(answer)
            case "/v1/messages":
                message = anthropic.types.Message.model_validate(answer.json(), strict=True)
                assert message.stop_reason in ("end_turn", "max_tokens", "tool_use")
                if "tools" in asked["body"]:
                    [call] = [block for block in message.content if block.type == "tool_use"]
                    assert call.input["city"] in ("Rome", "Oslo")
            case _:
                assert answer.json()["input_tokens"] > 1
