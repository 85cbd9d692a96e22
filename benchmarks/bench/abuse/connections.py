"""Attacks by connections: half-sent, silent, flooding, deaf, gone."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import resource

import numpy as np

from lookhear.bench.abuse.place import Assault, until_closed

HEADS, SILENT, BODIES = 1_100, 100, 8
ROOM = 64  # descriptors that this process needs itself
BODY_BYTES = 99 << 20
FRAME_BYTES = 30 << 20
ANSWER_SECONDS = 0.2  # for a message that is wrong
PACKET = base64.b64encode(np.zeros(480, "<i2").tobytes()).decode()  # 20 ms

HOSTILE = (
    "",
    "{",
    "null",
    "[]",
    '"text"',
    "{}",
    '{"type": null}',
    '{"type": "no.such.event"}',
    '{"type": "session.update"}',
    '{"type": "session.update", "session": []}',
    '{"type": "session.update", "session": {"type": "transcription", "audio": 7}}',
    '{"type": "input_audio_buffer.append"}',
    '{"type": "input_audio_buffer.append", "audio": "***"}',
    '{"type": "input_audio_buffer.append", "audio": "AAA="}',
    '{"type": "input_audio_buffer.commit"}',
    '{"type": "conversation.item.retrieve", "item_id": "' + "x" * 10_000 + '"}',
    '{"type": "conversation.item.delete"}',
    '{"type": "response.create", "response": {"input": [{}]}}',
    '{"type": "response.cancel"}',
    '{"a":' * 5_000 + "1" + "}" * 5_000,
    "[" * 100_000,
    '{"type": "session.update", "session": {"x": 1e999, "y": -0, "z": "\\ud800"}}',
)


def lists(num_bytes: int) -> str:
    """JSON of empty lists, of about so many bytes."""
    return "[" + ",".join(["[]"] * (num_bytes // 3)) + "]"


async def heads(assault: Assault) -> None:
    """Heads of requests that never end."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def work() -> None:
        reader, writer = await assault.raw()
        try:
            writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\nx-")
            await until_closed(reader)
            assault.tally["closed"] += 1
        finally:
            writer.close()

    await assault.repeat(work, min(HEADS, soft - ROOM), pause=0.5)


async def silent(assault: Assault) -> None:
    """WebSockets that say nothing."""

    async def work() -> None:
        async with assault.session() as socket:
            async for _ in socket:
                pass
        assault.tally[f"closed {socket.close_code}"] += 1

    await assault.repeat(work, SILENT, pause=0.5)


async def bodies(assault: Assault) -> None:
    """Bodies that lack their last byte."""

    async def work() -> None:
        reader, writer = await assault.raw()
        try:
            path, kind = "/v1/chat/completions", "application/json"
            writer.write(assault.head(path, BODY_BYTES, kind))
            for _ in range(BODY_BYTES // (1 << 20) - 1):
                writer.write(b" " * (1 << 20))
                await writer.drain()
            await until_closed(reader)
            assault.tally["closed"] += 1
        finally:
            writer.close()

    await assault.repeat(work, BODIES)


async def json_bodies(assault: Assault) -> None:
    """Requests of a hundred million bytes of empty lists."""
    model = json.dumps(assault.sees or assault.hears)
    body = f'{{"model": {model}, "messages": {lists(BODY_BYTES)}}}'.encode()
    await assault.repeat(
        lambda: assault.post("/v1/chat/completions", body, "application/json"), workers=2
    )


async def json_frames(assault: Assault) -> None:
    """Messages of thirty million bytes of empty lists."""
    frame = f'{{"type": "session.update", "session": {lists(FRAME_BYTES)}}}'

    async def work() -> None:
        async with assault.session() as socket:
            while True:
                await socket.send(frame)
                async with asyncio.timeout(60):
                    await socket.recv()
                assault.tally["answered"] += 1

    await assault.repeat(work, workers=2)


async def garbage(assault: Assault) -> None:
    """Messages that are wrong in many ways, as fast as they are answered, if they rightly are."""

    async def work() -> None:
        async with assault.session() as socket:
            await socket.recv()  # the greeting
            for message in itertools.cycle(HOSTILE):
                await socket.send(message)
                try:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await socket.recv()
                    assault.tally["answered"] += 1
                except TimeoutError:
                    assault.tally["not answered"] += 1

    await assault.repeat(work, workers=4)


async def fragments(assault: Assault) -> None:
    """Pings, and messages of one byte a frame."""
    pieces = list('{"type": "input_audio_buffer.append", "audio": "' + PACKET + '"}')

    async def work() -> None:
        async with assault.session() as socket:
            while True:
                for _ in range(50):
                    await socket.ping()
                await socket.send(pieces)
                assault.tally["sent"] += 1
                await asyncio.sleep(0)  # a send waits only when the socket is full

    await assault.repeat(work, workers=4)


async def deaf(assault: Assault) -> None:
    """Sessions that ask and never read."""
    message = json.dumps({"type": "session.update", "session": {"type": "transcription"}})

    async def work() -> None:
        async with assault.session(max_queue=1) as socket:
            while True:
                await socket.send(message)
                assault.tally["sent"] += 1
                await asyncio.sleep(0)

    await assault.repeat(work, workers=4)


async def churn(assault: Assault) -> None:
    """Sessions that begin to speak and are gone without a word."""
    message = json.dumps({"type": "input_audio_buffer.append", "audio": PACKET})

    async def work() -> None:
        async with assault.session() as socket:
            for _ in range(20):
                await socket.send(message)
            socket.transport.abort()
            assault.tally["gone"] += 1

    await assault.repeat(work, workers=8, pause=0.02)
