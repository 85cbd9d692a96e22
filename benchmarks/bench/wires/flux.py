"""Deepgram's turn-based API (Flux, `/v2/listen`) as we speak it.

Of a turn under way the words that have a confidence are committed, what follows them may still
change; the transcript of `EndOfTurn` is committed. `CloseStream` ends it, and the server closes.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosedOK

from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.wires import deepgram
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.snapshots import Snapshots

SIGNS = ".,;:!?…-–—"
LONGEST_PAUSE_MS = "2000"  # as OpenAI's semantic turns have it here
ENGLISH, ANY = "flux-general-en", "flux-general-multi"


async def run_session(job: Job, plan: SessionPlan, pcm: NDArray[np.int16]) -> Trace:
    """Stream one session to its end. Never raises for what the server does: the trace tells."""
    return await deepgram.streamed(query(job, plan), _receive, job, plan, pcm)


def query(job: Job, plan: SessionPlan) -> dict[str, str]:
    """The session as a client asks for it."""
    asked = {"encoding": "linear16", "sample_rate": str(RATE)}
    asked["model"] = job.model or (ENGLISH if plan.language == "en" else ANY)
    if plan.language is not None and asked["model"] != ENGLISH:
        asked["language_hint"] = plan.language
    if job.turns == "sound":
        asked["eot_timeout_ms"] = LONGEST_PAUSE_MS
    return asked


async def _receive(socket: ClientConnection, text: Snapshots) -> None:
    final = ""
    while True:
        try:
            message = json.loads(await socket.recv())
        except ConnectionClosedOK:
            text.complete()
            return
        if message["type"] in ("Error", "Warning"):
            text.error(str(message["description"]))
        elif message["type"] != "TurnInfo":
            continue  # nothing that anybody reads
        elif message["event"] == "EndOfTurn":
            final = f"{final} {message['transcript']}"
            text.update(final, "")
        else:
            settled, rest = told(message)
            text.update(f"{final} {settled}", rest)


def told(message: dict[str, Any]) -> tuple[str, str]:
    """Committed and provisional text of a turn under way. The sign behind the last word that is
    sure may still change."""
    text, end = str(message["transcript"]), 0
    for word in message["words"]:
        begin = end + len(text[end:]) - len(text[end:].lstrip())
        if not word["confidence"] or not text.startswith(word["word"], begin):
            break
        end = begin + len(word["word"])
    end = len(text[:end].rstrip(SIGNS))
    return text[:end], text[end:]
