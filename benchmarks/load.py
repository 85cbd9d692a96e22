"""The load generator, a process of its own: `python -m benchmarks.load JOB RESULTS`.

Sends PCM on an absolute clock, 20 ms at a time, as a microphone would, and writes down when each
packet left and each event came. JOB is the JSON of `Job`; RESULTS gets one trace per line.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Subprotocol

from benchmarks.trace import RATE, Trace
from lookhear.address import Server

PACKET_SECONDS = 0.02
ANSWER_SECONDS = 60.0  # after the last packet; a server that is so far behind has failed


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """One session: samples [start, end) of the PCM file, then silence. language: None to detect."""

    name: str
    start: int
    end: int
    silence_seconds: float = 1.2
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """url: of the WebSocket. pcm: file of 16-bit samples at 24 kHz. concurrency: sessions at once.

    Each worker waits a random time up to phase_seconds before each of its sessions, so that
    sessions do not tick together. pace: 1.0 is the speed of speech.
    """

    url: str
    pcm: str
    sessions: list[SessionPlan] = field(default_factory=list)
    concurrency: int = 1
    phase_seconds: float = 1.0
    pace: float = 1.0
    seed: int = 0
    provisional: bool = True

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        data = json.loads(text)
        data["sessions"] = [SessionPlan(**session) for session in data["sessions"]]
        return cls(**data)


async def run_session(job: Job, plan: SessionPlan, pcm: NDArray[np.int16]) -> Trace:
    """Stream one session to its end. Never raises for what the server does: the trace tells."""
    trace = Trace(plan.name)
    try:
        async with connect(
            job.url,
            subprotocols=[Subprotocol("realtime")],
            additional_headers=Server(job.url, os.environ.get("LOOKHEAR_API_KEY")).headers(),
            compression=None,
            proxy=None,
            max_size=2**24,
            close_timeout=2,
        ) as socket:
            await _configure(socket, job, plan)
            started = time.monotonic()
            receiver = asyncio.create_task(_receive(socket, trace, started))
            try:
                samples = pcm[plan.start : plan.end]
                silence = np.zeros(int(plan.silence_seconds * RATE), "<i2")
                await _send(socket, trace, started, np.concatenate([samples, silence]), job.pace)
                # The answer to `clear` says that the commit has been dealt with.
                await socket.send('{"type":"input_audio_buffer.commit","event_id":"end"}')
                await socket.send('{"type":"input_audio_buffer.clear"}')
                async with asyncio.timeout(ANSWER_SECONDS):
                    await receiver
            finally:
                receiver.cancel()
                await asyncio.gather(receiver, return_exceptions=True)
        trace.close_code = 1000
    except ConnectionClosed as error:
        trace.close_code = error.rcvd.code if error.rcvd is not None else 1006
        trace.problem = f"closed early: {error}"
    except (OSError, TimeoutError, InvalidHandshake, RuntimeError) as error:
        trace.problem = f"{type(error).__name__}: {error}"
    return trace


async def _configure(socket: ClientConnection, job: Job, plan: SessionPlan) -> None:
    """The session as a client would ask for it; returns when the server has agreed."""
    session: dict[str, Any] = {
        "type": "transcription",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": RATE},
                "transcription": {"language": plan.language} if plan.language else {},
                "turn_detection": {"type": "server_vad"},
            }
        },
    }
    if job.provisional:
        session["lookhear"] = {"provisional": True}
    await socket.send(json.dumps({"type": "session.update", "session": session}))
    while True:
        event = json.loads(await socket.recv())
        if event["type"] == "session.updated":
            return
        if event["type"] == "error":
            raise RuntimeError(f"the server refused the session: {event['error']}")


async def _send(
    socket: ClientConnection, trace: Trace, started: float, pcm: NDArray[np.int16], pace: float
) -> None:
    size = int(PACKET_SECONDS * RATE)
    for first in range(0, len(pcm), size):
        packet = pcm[first : first + size]
        end = first + len(packet)
        await asyncio.sleep(started + end / RATE / pace - time.monotonic())
        audio = base64.b64encode(packet.tobytes()).decode("ascii")
        await socket.send('{"type":"input_audio_buffer.append","audio":"' + audio + '"}')
        trace.packets.append((time.monotonic() - started, end))


async def _receive(socket: ClientConnection, trace: Trace, started: float) -> None:
    """Until everything committed is completed and the final `clear` is answered."""
    open_turns: set[str] = set()
    cleared = False
    while open_turns or not cleared:
        event = json.loads(await socket.recv())
        kind = event["type"]
        if kind == "error" and event["error"].get("event_id") == "end":
            continue  # nothing was left to commit
        trace.events.append((time.monotonic() - started, event))
        if kind == "input_audio_buffer.cleared":
            cleared = True
        elif kind == "input_audio_buffer.committed":
            open_turns.add(event["item_id"])
        elif kind.endswith(("input_audio_transcription.completed", "transcription.failed")):
            open_turns.discard(event["item_id"])


async def run(job: Job) -> list[Trace]:
    """All sessions, `concurrency` at a time."""
    pcm = np.memmap(job.pcm, dtype="<i2", mode="r")
    plans: Iterator[SessionPlan] = iter(job.sessions)
    draw = random.Random(job.seed)
    traces: list[Trace] = []

    async def work() -> None:
        for plan in plans:
            await asyncio.sleep(draw.uniform(0.0, job.phase_seconds))
            traces.append(await run_session(job, plan, pcm))
            print(plan.name, flush=True)  # the parent counts these

    await asyncio.gather(*(work() for _ in range(job.concurrency)))
    return traces


def main(argv: list[str]) -> int:
    job_file, results = map(Path, argv)
    traces = asyncio.run(run(Job.from_json(job_file.read_text("utf-8"))))
    with results.open("w", encoding="utf-8") as file:
        for trace in traces:
            file.write(json.dumps(trace.to_json()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
