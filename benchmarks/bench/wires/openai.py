"""OpenAI Realtime (GA), transcription sessions: the protocol whose events are the normal form.

Ours, OpenAI's own, and whatever else speaks it. Text that may still change and the times of words
are extensions of ours; a server that does not know them is asked again without.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection
from websockets.typing import Subprotocol

from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.recording import (
    ANSWER_SECONDS,
    Refused,
    beside,
    connected,
    patience,
    recorded,
    samples_of,
    send_paced,
)
from lookhear.transport.address import Server

LAST_COMMIT = "end"  # its event id
DETECTION = {"silence": {"type": "server_vad"}, "sound": {"type": "semantic_vad"}, "hand": None}


async def run_session(job: Job, plan: SessionPlan, pcm: NDArray[np.int16]) -> Trace:
    """Stream one session to its end. Never raises for what the server does: the trace tells."""
    trace = Trace(plan.name)
    async with recorded(trace), opened(job, plan) as socket:
        await converse(socket, job, plan, pcm, trace)
    return trace


@asynccontextmanager
async def opened(job: Job, plan: SessionPlan) -> AsyncIterator[ClientConnection]:
    """A socket whose session is as the job wants it. Refused, and what `connected` raises."""
    server = Server(job.url, os.environ.get("LOOKHEAR_API_KEY"))
    async with connected(
        job.url,
        subprotocols=[Subprotocol("realtime")],
        additional_headers=server.headers(),
        proxy=None if server.is_local else True,
    ) as socket:
        async with asyncio.timeout(ANSWER_SECONDS):
            await _configure(socket, job, plan)
        yield socket


async def converse(
    socket: ClientConnection, job: Job, plan: SessionPlan, pcm: NDArray[np.int16], trace: Trace
) -> None:
    """All that is said and heard on an opened socket, into the trace."""
    started = time.monotonic()
    async with beside(_receive(socket, trace, started)) as receiver:

        async def send(packet: NDArray[np.int16]) -> None:
            audio = base64.b64encode(packet.tobytes()).decode("ascii")
            await socket.send('{"type":"input_audio_buffer.append","audio":"' + audio + '"}')

        samples, size = samples_of(plan, pcm), job.packet_seconds
        await send_paced(send, samples, trace, started, pace=job.pace, packet_seconds=size)
        # The answer to `clear` says that the commit has been dealt with.
        commit = {"type": "input_audio_buffer.commit", "event_id": LAST_COMMIT}
        await socket.send(json.dumps(commit))
        await socket.send('{"type":"input_audio_buffer.clear"}')
        async with patience(started, samples):
            await receiver


def session_update(job: Job, plan: SessionPlan, extensions: dict[str, bool]) -> dict[str, Any]:
    """The session as a client asks for it. extensions: of ours, wanted."""
    transcription = {"model": job.model, "language": plan.language}
    audio: dict[str, Any] = {
        "format": {"type": "audio/pcm", "rate": RATE},
        "transcription": {key: value for key, value in transcription.items() if value},
        "turn_detection": DETECTION[job.turns],
    }
    if job.near_field:
        audio["noise_reduction"] = {"type": "near_field"}
    session: dict[str, Any] = {"type": "transcription", "audio": {"input": audio}}
    if extensions:
        session["lookhear"] = extensions
    return {"type": "session.update", "session": session}


async def _configure(socket: ClientConnection, job: Job, plan: SessionPlan) -> None:
    """Returns when the server has agreed. Refused."""
    shown = {"provisional": True} if job.provisional else {}
    wishes: list[dict[str, bool]] = [shown, {}] if shown else [{}]
    if job.words:
        wishes.insert(0, {**shown, "words": True})
    for extensions in wishes:
        await socket.send(json.dumps(session_update(job, plan, extensions)))
        while True:
            event = json.loads(await socket.recv())
            if event["type"] in ("session.updated", "transcription_session.updated"):
                return
            if event["type"] == "error":
                break
        if not extensions:
            raise Refused(str(event["error"].get("message") or event["error"]))


async def _receive(socket: ClientConnection, trace: Trace, started: float) -> None:
    """Until everything committed is completed and the final `clear` is answered."""
    open_turns: set[str] = set()
    cleared = False
    while open_turns or not cleared:
        event = json.loads(await socket.recv())
        kind = event["type"]
        if kind == "error" and event["error"].get("event_id") == LAST_COMMIT:
            continue  # nothing was left to commit
        trace.events.append((time.monotonic() - started, event))
        if kind == "input_audio_buffer.cleared":
            cleared = True
        elif kind == "input_audio_buffer.committed":
            open_turns.add(event["item_id"])
        elif kind.endswith(("input_audio_transcription.completed", "transcription.failed")):
            open_turns.discard(event["item_id"])
