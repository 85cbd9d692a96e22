"""Deepgram's live API (`/v1/listen`) as we speak it.

Final results are committed, and so are the words of an interim one: only the text behind them may
still change. `CloseStream` ends it, `Metadata` says that everything has been said.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection

from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.recording import (
    beside,
    connected,
    patience,
    recorded,
    samples_of,
    send_paced,
)
from lookhear.bench.wires.snapshots import Snapshots


async def run_session(job: Job, plan: SessionPlan, pcm: NDArray[np.int16]) -> Trace:
    """Stream one session to its end. Never raises for what the server does: the trace tells."""
    return await streamed(query(job, plan), _receive, job, plan, pcm)


async def streamed(
    asked: Mapping[str, str],
    receive: Callable[[ClientConnection, Snapshots], Coroutine[Any, Any, None]],
    job: Job,
    plan: SessionPlan,
    pcm: NDArray[np.int16],
) -> Trace:
    """A session of one of Deepgram's live APIs. asked: in the URL. receive: reads until all has
    been said."""
    trace = Trace(plan.name)
    key = os.environ.get("LOOKHEAR_API_KEY")
    headers = {} if key is None else {"authorization": f"Token {key}"}
    url = f"{job.url}?{urlencode(asked)}"
    async with recorded(trace), connected(url, additional_headers=headers) as socket:
        started = time.monotonic()
        async with beside(receive(socket, Snapshots(trace, started))) as receiver:

            async def send(packet: NDArray[np.int16]) -> None:
                await socket.send(packet.tobytes())

            samples, size = samples_of(plan, pcm), job.packet_seconds
            await send_paced(send, samples, trace, started, pace=job.pace, packet_seconds=size)
            await socket.send('{"type": "CloseStream"}')
            async with patience(started, samples):
                await receiver
    return trace


def query(job: Job, plan: SessionPlan) -> dict[str, str]:
    """The session as a client asks for it; a pause ends a turn as it does on OpenAI's wire."""
    asked = {"encoding": "linear16", "sample_rate": str(RATE), "punctuate": "true"}
    asked |= {"language": plan.language or "multi", "endpointing": "500"}
    if job.model is not None:
        asked["model"] = job.model
    if job.provisional:
        asked["interim_results"] = "true"
    return asked


async def _receive(socket: ClientConnection, text: Snapshots) -> None:
    final = ""
    while True:
        message = json.loads(await socket.recv())
        kind = message["type"]
        if kind == "Metadata":
            text.complete()
            return
        if kind == "Error":
            text.error(str(message["description"]))
        elif kind != "Results" or not transcript(message):
            continue  # nothing that anybody reads
        elif message["is_final"]:
            final = f"{final} {transcript(message)}"
            text.update(final, "")
        else:
            settled, rest = told(message)
            text.update(f"{final} {settled}", rest)


def transcript(message: dict[str, Any]) -> str:
    """Of a result."""
    return str(message["channel"]["alternatives"][0]["transcript"])


def told(message: dict[str, Any]) -> tuple[str, str]:
    """Committed and provisional text of an interim result. Where its words are not how its text
    begins, nothing of it is committed."""
    text = transcript(message)
    words = message["channel"]["alternatives"][0]["words"]
    settled = " ".join(word.get("punctuated_word", word["word"]) for word in words)
    if text.startswith(settled):
        return settled, text[len(settled) :]
    return "", text
