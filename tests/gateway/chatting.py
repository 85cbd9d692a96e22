"""What chat tests share: requests over HTTP, and pictures to send."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
from PIL import Image as pillow

from tests.gateway.running import Running

URL = "/v1/chat/completions"


def png(width: int = 40, height: int = 30, color: tuple[int, int, int] = (200, 30, 30)) -> bytes:
    file = io.BytesIO()
    pillow.new("RGB", (width, height), color).save(file, "png")
    return file.getvalue()


def jpeg(width: int = 40, height: int = 30) -> bytes:
    file = io.BytesIO()
    pillow.new("RGB", (width, height)).save(file, "jpeg")
    return file.getvalue()


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image(data: bytes | str, **fields: Any) -> dict[str, Any]:
    url = data if isinstance(data, str) else data_url(data)
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    if len(parts) == 1 and isinstance(parts[0], str):
        return {"role": "user", "content": parts[0]}
    return {"role": "user", "content": list(parts)}


async def ask(http: httpx.AsyncClient, *messages: dict[str, Any], **fields: Any) -> httpx.Response:
    body = {"model": "fake/vision", "messages": list(messages), **fields}
    # Not httpx's own JSON: it cannot send what is no text.
    content = json.dumps({key: value for key, value in body.items() if value != ...})
    return await http.post(URL, content=content, headers={"content-type": "application/json"})


def frames(answer: httpx.Response) -> list[str]:
    """The data of all events of a stream that has ended."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.split("\n\n")
    assert events.pop() == ""
    assert all(event.startswith("data: ") for event in events)
    return [event.removeprefix("data: ") for event in events]


def client(running: Running) -> httpx.AsyncClient:
    """It loads no certificates (`verify`), which takes longer than most questions."""
    return httpx.AsyncClient(base_url=running.http, trust_env=False, verify=False, timeout=60)


async def each(http: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with client(http) as it:
        http.engine.be_well()
        yield it
