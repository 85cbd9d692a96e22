"""The Wyoming protocol as we speak it: one command, streamed while it is said.

Its chunks are committed text. The address is that of a bridge, tcp://HOST:PORT.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.recording import (
    OPEN_SECONDS,
    Refused,
    beside,
    patience,
    recorded,
    samples_of,
    send_paced,
)
from lookhear.bench.wires.snapshots import Snapshots
from lookhear.wyoming.events import MAX_LINE, BadEvent, read_event

FORMAT = {"rate": RATE, "width": 2, "channels": 1}


async def run_session(job: Job, plan: SessionPlan, pcm: NDArray[np.int16]) -> Trace:
    """Stream one session to its end. Never raises for what the server does: the trace tells."""
    trace = Trace(plan.name)
    parts = urlsplit(job.url)
    async with recorded(trace):
        async with asyncio.timeout(OPEN_SECONDS):
            reader, writer = await asyncio.open_connection(
                parts.hostname, parts.port, limit=MAX_LINE
            )
        try:
            asked = {"name": job.model, "language": plan.language}
            told = {key: value for key, value in asked.items() if value is not None}
            await _send(writer, "transcribe", told)
            await _send(writer, "audio-start", FORMAT)
            started = time.monotonic()
            async with beside(_receive(reader, Snapshots(trace, started))) as receiver:

                async def send(packet: NDArray[np.int16]) -> None:
                    await _send(writer, "audio-chunk", FORMAT, packet.tobytes())

                samples, size = samples_of(plan, pcm), job.packet_seconds
                await send_paced(send, samples, trace, started, pace=job.pace, packet_seconds=size)
                await _send(writer, "audio-stop", {})
                async with patience(started, samples):
                    await receiver
        finally:
            writer.transport.abort()  # all was said, or nothing more is wanted
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return trace


async def _send(
    writer: asyncio.StreamWriter, type: str, data: dict[str, Any], payload: bytes = b""
) -> None:
    header = {"type": type, "data": data, "payload_length": len(payload)}
    writer.write(json.dumps(header).encode() + b"\n" + payload)
    await writer.drain()


async def _receive(reader: asyncio.StreamReader, text: Snapshots) -> None:
    said = ""
    while True:
        try:
            event = await read_event(reader)
        except BadEvent as error:
            raise ValueError(str(error)) from None
        if event is None:
            raise Refused("it hung up before the transcript")
        match event.type:
            case "transcript-chunk":
                said += event.data["text"]
                text.update(said, "")
            case "transcript":
                text.update(event.data["text"], "")
                text.complete()
                return
            case "error":
                raise Refused(str(event.data["text"]))
