"""WhisperLive's WebSocket (its client.py of 0.10.0).

The first message holds the options, audio follows as 32-bit floats at 16 kHz. What comes back are
the last segments: those that are `completed` will not change, the last one is decoded anew until
it is. `END_OF_AUDIO` only hangs up: nothing is decoded for it and nothing more is said. So, as
the peer's own client does, we wait until no answer has come for a while before we send it, and
what it has said by then is its final text.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from lookhear.bench.measures.trace import Trace
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.recording import ANSWER_SECONDS, Refused, beside, connected, recorded
from lookhear.bench.wires.snapshots import Snapshots, peer_samples, send_to_peer

# Without a message, before we believe that it is done: what its own client waits. One decode of
# a server under load takes seconds; to hang up earlier would cost it its last words.
QUIET_SECONDS = 15.0
QUIET_WAITS = 20


async def run_session(job: Job, plan: SessionPlan, pcm: NDArray[np.int16]) -> Trace:
    """Stream one session to its end. Never raises for what the server does: the trace tells."""
    trace = Trace(plan.name)
    samples = await asyncio.to_thread(peer_samples, plan, pcm)
    async with recorded(trace), connected(job.url) as socket:
        async with asyncio.timeout(ANSWER_SECONDS):
            await _configure(socket, options(job, plan))
        started = time.monotonic()
        segments = Segments(Snapshots(trace, started))
        async with beside(_receive(socket, segments)) as receiver:

            async def send(packet: NDArray[np.int16]) -> None:
                await socket.send((packet.astype("<f4") / 32768).tobytes())

            await send_to_peer(send, samples, trace, started, pace=job.pace)
            await _quiet(segments, receiver, time.monotonic() + ANSWER_SECONDS)
            await socket.send(b"END_OF_AUDIO")
        segments.text.complete()
    return trace


def options(job: Job, plan: SessionPlan) -> dict[str, Any]:
    """Its client's own, with its defaults; the model is the server's."""
    return {
        "uid": str(uuid.uuid4()),
        "language": plan.language,
        "task": "transcribe",
        "model": job.model or "small",
        "use_vad": True,
        "send_last_n_segments": 10,
        "no_speech_thresh": 0.45,
        "clip_audio": False,
        "same_output_threshold": 10,
    }


async def _configure(socket: ClientConnection, wishes: dict[str, Any]) -> None:
    """Returns when the server has loaded its model. Refused."""
    await socket.send(json.dumps(wishes))
    while True:
        message = json.loads(await socket.recv())
        if message.get("message") == "SERVER_READY":
            return
        if message.get("status") == "WAIT":
            raise Refused(f"full, to wait for {message['message']:.1f} minutes")
        if message.get("status") == "ERROR":
            raise Refused(str(message["message"]))


class Segments:
    """What has been said so far, of which each message repeats the end."""

    def __init__(self, text: Snapshots) -> None:
        self.text = text
        self.heard = time.monotonic()
        self._completed: dict[tuple[str, str, str], None] = {}  # in the order of their coming

    def told(self, segments: list[dict[str, Any]]) -> None:
        """One message's segments: {start, end, text, completed}, times in seconds."""
        for segment in segments:
            if segment["completed"]:
                self._completed.setdefault((segment["start"], segment["end"], segment["text"]))
        committed = " ".join(text for _, _, text in self._completed)
        provisional = "" if not segments or segments[-1]["completed"] else segments[-1]["text"]
        self.text.update(committed, provisional)
        self.heard = time.monotonic()


async def _receive(socket: ClientConnection, segments: Segments) -> None:
    while True:
        message = json.loads(await socket.recv())
        if message.get("message") == "DISCONNECT":
            raise Refused("the longest session that it allows is over")
        if "segments" in message:
            segments.told(message["segments"])


async def _quiet(segments: Segments, receiver: asyncio.Task[None], deadline: float) -> None:
    """Returns when no message has come for a while. TimeoutError; what the receiver raised.

    In many short waits: who was held up through a long one has not looked at what came meanwhile.
    """
    quiet = 0
    while quiet < QUIET_WAITS:
        heard = segments.heard
        done, _ = await asyncio.wait([receiver], timeout=QUIET_SECONDS / QUIET_WAITS)
        if done:
            await receiver
            raise ConnectionClosed(None, None)
        quiet = quiet + 1 if segments.heard == heard else 0
        if quiet < QUIET_WAITS and time.monotonic() >= deadline:
            raise TimeoutError("it does not stop sending")
