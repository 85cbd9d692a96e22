"""The load generator from the benchmark's side: a server to measure, and sessions to send it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from lookhear.bench.measures.trace import Trace
from lookhear.bench.recordings.session import Session, audio_seconds
from lookhear.bench.wires.job import Job, SessionPlan, Turns
from lookhear.errors import ConnectionFailed, LookhearError
from lookhear.terminal.progress import counting
from lookhear.transport.address import Server


@dataclass(frozen=True, slots=True)
class Target:
    """A live server. url: of its WebSocket. wire: a name in `wires.registry`. address: as people
    name it, for HTTP.

    pid: of its first process and metrics_url: of its /metrics, None if it is not ours to look at.
    """

    url: str
    wire: str = "openai"
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    provisional: bool = True
    words: bool = False
    turns: Turns = "silence"
    pid: int | None = None
    metrics_url: str | None = None
    address: str = ""


PATHS = {
    "openai": ("/realtime", {"intent": "transcription"}),
    "deepgram": ("/listen", {}),
    "flux": ("/listen", {}),
    "vllm": ("/realtime", {}),
}
"""Of the wires whose servers also tell over HTTP what they serve: path below /v1, and query."""


def realtime_url(server: str, wire: str = "openai") -> str:
    """The transcription WebSocket of a server that speaks this wire; a ws address stays as it is.

    AddressError.
    """
    if wire not in PATHS:
        return server
    address = Server(server)
    parts = urlsplit(server)
    if parts.scheme in ("ws", "wss") and parts.path.rstrip("/") not in ("", "/v1"):
        return server
    url = address.websocket_url(*PATHS[wire])
    return "/v2/".join(url.rsplit("/v1/", 1)) if wire == "flux" else url


class GeneratorFailed(LookhearError):
    """The process that sends the audio ended with an error of its own."""


def generate(
    target: Target,
    sessions: Sequence[Session],
    concurrency: int,
    console: Console,
    *,
    seed: int = 0,
    packet_seconds: float = 0.02,
    tell_language: bool = False,
    pace: float = 1.0,
    near_field: bool = False,
) -> list[Trace]:
    """Stream all sessions, `concurrency` at a time; traces in the order of `sessions`.

    tell_language: the servers need not find the language out. pace: 1.0 is the speed of
    speech. near_field: as in `Job`. ConnectionFailed if not one session lived to its end; the
    message is what was wrong with the first. GeneratorFailed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plans, at = [], 0
        with (folder / "pcm").open("wb") as file:
            for session in sessions:
                file.write(session.pcm.tobytes())
                language = session.language if tell_language else None
                end = at + len(session.pcm)
                plans.append(SessionPlan(session.name, at, end, language=language))
                at = end
        job = Job(
            target.url,
            str(folder / "pcm"),
            plans,
            concurrency=concurrency,
            seed=seed,
            provisional=target.provisional,
            words=target.words,
            wire=target.wire,
            model=target.model,
            packet_seconds=packet_seconds,
            pace=pace,
            turns=target.turns,
            near_field=near_field,
        )
        seconds = audio_seconds(sessions) / concurrency / pace
        about = f"{len(sessions)} sessions, {concurrency} at once, {seconds:.0f} s"
        traces = {trace.name: trace for trace in _run(job, folder, target.api_key, about, console)}
    found = [traces[session.name] for session in sessions]
    if found and all(trace.problem is not None for trace in found):
        raise ConnectionFailed(f"{target.url}: {found[0].problem}")
    return found


def _run(job: Job, folder: Path, api_key: str | None, about: str, console: Console) -> list[Trace]:
    (folder / "job").write_text(job.to_json(), "utf-8")
    command = [
        sys.executable,
        "-m",
        "lookhear.bench.load",
        str(folder / "job"),
        str(folder / "traces"),
    ]
    environment = {**os.environ, **({"LOOKHEAR_API_KEY": api_key} if api_key else {})}
    with (
        counting(console, about, len(job.sessions)) as advance,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as generator,
    ):
        assert generator.stdout is not None
        for _ in generator.stdout:
            advance()
    if generator.returncode:
        raise GeneratorFailed(f"the load generator failed with status {generator.returncode}")
    lines = (folder / "traces").read_text("utf-8").splitlines()
    return [Trace.from_json(json.loads(line)) for line in lines]
