"""WhisperLiveKit's `/asr` WebSocket (docs/API.md of 0.2.26), full mode, as its own page uses it.

Audio goes out as 16-bit samples at 16 kHz (the server runs with --pcm-input), an empty frame ends
it. Every change comes back as the whole state: `lines` are committed, `buffer_transcription` is
not. `ready_to_stop` says that everything has been said.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection

from lookhear.bench.measures.trace import Trace
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.recording import (
    ANSWER_SECONDS,
    Refused,
    beside,
    connected,
    patience,
    recorded,
)
from lookhear.bench.wires.snapshots import PEER_RATE, Snapshots, peer_samples, send_to_peer


async def run_session(job: Job, plan: SessionPlan, pcm: NDArray[np.int16]) -> Trace:
    """Stream one session to its end. Never raises for what the server does: the trace tells."""
    trace = Trace(plan.name)
    samples = await asyncio.to_thread(peer_samples, plan, pcm)
    async with recorded(trace), connected(job.url) as socket:
        async with asyncio.timeout(ANSWER_SECONDS):
            await _greeted(socket)
        started = time.monotonic()
        async with beside(_receive(socket, Snapshots(trace, started))) as receiver:

            async def send(packet: NDArray[np.int16]) -> None:
                await socket.send(packet.tobytes())

            await send_to_peer(send, samples, trace, started, pace=job.pace)
            await socket.send(b"")
            async with patience(started, samples, PEER_RATE):
                await receiver
    return trace


async def _greeted(socket: ClientConnection) -> None:
    """The server's first message says what audio it takes. Refused."""
    message = json.loads(await socket.recv())
    if message.get("type") == "error":
        raise Refused(str(message["error"]))
    if message.get("type") != "config" or not message["useAudioWorklet"]:
        raise Refused(f"expected a server with --pcm-input, its greeting was {message}")


async def _receive(socket: ClientConnection, text: Snapshots) -> None:
    while True:
        message = json.loads(await socket.recv())
        kind = message.get("type")
        if kind == "ready_to_stop":
            text.complete()
            return
        if kind is None and message.get("error"):
            text.error(str(message["error"]))
        elif kind is None:
            text.update(*told(message))


def told(message: dict[str, Any]) -> tuple[str, str]:
    """Committed and provisional text of a state; lines without text are silences."""
    committed = " ".join(line["text"] for line in message["lines"] if line["text"])
    return committed, message["buffer_transcription"]
