"""vLLM's realtime wire as we speak it: one utterance, which the client begins and ends.

Its deltas are committed text. Nothing may still change, and nothing is told of turns.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time

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
    send_paced,
)
from lookhear.bench.wires.snapshots import PEER_RATE, Snapshots, peer_samples
from lookhear.transport.address import Server

COMMIT = "input_audio_buffer.commit"


async def run_session(job: Job, plan: SessionPlan, pcm: NDArray[np.int16]) -> Trace:
    """Stream one session to its end. Never raises for what the server does: the trace tells."""
    trace = Trace(plan.name)
    headers = Server(job.url, os.environ.get("LOOKHEAR_API_KEY")).headers()
    samples, size = peer_samples(plan, pcm), job.packet_seconds
    async with recorded(trace), connected(job.url, additional_headers=headers) as socket:
        async with asyncio.timeout(ANSWER_SECONDS):
            await _begin(socket, job, plan)
        started = time.monotonic()
        async with beside(_receive(socket, Snapshots(trace, started))) as receiver:

            async def send(packet: NDArray[np.int16]) -> None:
                audio = base64.b64encode(packet.tobytes()).decode("ascii")
                await socket.send('{"type":"input_audio_buffer.append","audio":"' + audio + '"}')

            await send_paced(
                send, samples, trace, started, rate=PEER_RATE, pace=job.pace, packet_seconds=size
            )
            await socket.send(json.dumps({"type": COMMIT, "final": True}))
            async with patience(started, samples, PEER_RATE):
                await receiver
    return trace


async def _begin(socket: ClientConnection, job: Job, plan: SessionPlan) -> None:
    """Returns when something may be said. Refused."""
    created = json.loads(await socket.recv())
    if created["type"] != "session.created":
        raise Refused(f"expected session.created, got {created['type']}")
    # Its clients name a model. language: vLLM knows none, ours does.
    asked = {"model": job.model or "", "language": plan.language}
    told = {key: value for key, value in asked.items() if value is not None}
    await socket.send(json.dumps({"type": "session.update", **told}))
    await socket.send(json.dumps({"type": COMMIT, "final": False}))


async def _receive(socket: ClientConnection, text: Snapshots) -> None:
    said = ""
    while True:
        message = json.loads(await socket.recv())
        match message["type"]:
            case "transcription.delta":
                said += message["delta"]
                text.update(said, "")
            case "transcription.done":
                text.update(message["text"], "")
                text.complete()
                return
            case "error":
                raise Refused(str(message["error"]))
