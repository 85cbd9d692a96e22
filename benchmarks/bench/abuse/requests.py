"""Attacks by what requests hold: long uploads, videos, bombs, slow addresses, hostile schemas."""

from __future__ import annotations

import asyncio
import base64
import importlib
import io
import itertools
import json
from typing import Any

import numpy as np
import soundfile

from lookhear.bench.abuse.place import ATTACKER, Assault, multipart
from lookhear.bench.measures.trace import RATE
from lookhear.bench.recordings.speech import long_session
from lookhear.errors import NotInstalled

UPLOADS, HOUR = 2, 60  # at once, minutes
VIDEOS, FRAMES, SIZE = 4, 250, (1280, 720)
PIXELS = 7_000  # of a side: 49 million are allowed
SLOW_REQUESTS, SLOW_URLS = 8, 4
CHAT = "/v1/chat/completions"


def hour() -> bytes:
    """An hour of speech as mp3: a minute again and again, which is a stream as good as any."""
    minute = long_session("upload", 0, 60.0)
    file = io.BytesIO()
    soundfile.write(file, minute.pcm, RATE, format="MP3")
    return file.getvalue() * HOUR


async def uploads(assault: Assault) -> None:
    """Two recordings of an hour, at once."""
    body, kind = multipart([("model", assault.hears)], "hour.mp3", hour())
    await assault.repeat(lambda: assault.post("/v1/audio/transcriptions", body, kind), UPLOADS)


async def leavers(assault: Assault) -> None:
    """The same, and the clients have gone when they are sent."""
    body, kind = multipart([("model", assault.hears)], "hour.mp3", hour())
    path = "/v1/audio/transcriptions"
    await assault.repeat(lambda: assault.post(path, body, kind, leave=True), UPLOADS, pause=0.5)


async def videos(assault: Assault) -> None:
    """A small request of four videos."""
    url = "data:video/mp4;base64," + base64.b64encode(video()).decode()
    await _ask(assault, [{"type": "video_url", "video_url": {"url": url}}] * VIDEOS, workers=1)


def video(frames: int = FRAMES, size: tuple[int, int] = SIZE, shade: int = 0) -> bytes:
    """25 frames a second, in which little moves. size: (width, height). shade: of the first.
    NotInstalled."""
    av = _library("av")
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("h264", rate=25)
        stream.width, stream.height = size
        for number in range(frames):
            grey = (shade + number) % 256
            picture = np.full((size[1], size[0], 3), grey, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


async def bombs(assault: Assault) -> None:
    """Pictures and sounds that are a thousand times as large as they look."""
    image = _library("PIL.Image")
    file = io.BytesIO()
    image.new("L", (PIXELS, PIXELS)).save(file, "PNG")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(3600 * 8_000, "<i2"), 8_000, format="FLAC")
    body, kind = multipart([("model", assault.hears)], "hour.flac", silence.getvalue())

    async def work() -> None:
        await assault.post("/v1/audio/transcriptions", body, kind)

    await asyncio.gather(
        _ask(assault, [{"type": "image_url", "image_url": {"url": url}}], workers=4),
        assault.repeat(work, workers=2),
    )


async def slow_urls(assault: Assault) -> None:
    """Requests whose pictures come a byte a second."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            head = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 100000\r\n\r\n"
            writer.write(head)
            while not writer.is_closing():
                writer.write(b"\x89")
                await writer.drain()
                await asyncio.sleep(1.0)
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(trickle, ATTACKER, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        parts = [
            {"type": "image_url", "image_url": {"url": f"http://{ATTACKER}:{port}/{number}.png"}}
            for number in range(SLOW_URLS)
        ]
        await _ask(assault, parts, workers=SLOW_REQUESTS)


async def schemas(assault: Assault) -> None:
    """Answers that are to keep to schemas which no grammar can hold, or only at great cost."""
    deep: Any = {"type": "integer"}
    for _ in range(400):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    hostile: list[Any] = [
        deep,
        {"$ref": "#"},
        {"$ref": "#/$defs/missing"},
        {"enum": [f"value {number}" for number in range(50_000)]},
        {"type": "string", "pattern": "(a+)+$" * 50},
        {"type": "string", "pattern": "(((((x{1,500}){1,500}){1,500})))"},
        {"type": "string", "minLength": 10**9},
        {"type": "array", "items": {"type": "string"}, "minItems": 10**7},
        {"type": ["object", 7, None]},
        {"allOf": [{"type": "string"}, {"type": "integer"}] * 500},
        {"properties": {f"p{number}": {"type": "string"} for number in range(5_000)}},
    ]
    bodies = [
        _request(assault, [{"type": "text", "text": "what is there?"}], schema).encode()
        for schema in hostile
    ]
    turns = itertools.cycle(bodies)

    async def work() -> None:
        await assault.post(CHAT, next(turns), "application/json")

    await assault.repeat(work, workers=4)


async def _ask(assault: Assault, parts: list[Any], workers: int) -> None:
    body = _request(assault, parts).encode()
    await assault.repeat(lambda: assault.post(CHAT, body, "application/json"), workers)


def _request(assault: Assault, parts: list[Any], schema: Any = None) -> str:
    request: dict[str, Any] = {
        "model": assault.sees or assault.hears,
        "messages": [{"role": "user", "content": parts}],
        "max_tokens": 16,
    }
    if schema is not None:
        wanted = {"name": "hostile", "schema": schema}
        request["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return json.dumps(request)


def _library(name: str) -> Any:
    """NotInstalled."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise NotInstalled(
            f'this attack needs pip install "lookhear[server,bench]" ({error.name} is missing)'
        ) from None
