"""What a server is given for hours: sessions that speak, files, and videos to be asked about."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import soundfile
from websockets.exceptions import InvalidStatus, WebSocketException

from lookhear.bench.abuse.requests import CHAT, video
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.measures.utterances import latencies
from lookhear.bench.recordings.session import Session
from lookhear.bench.wires import openai
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.recording import Refused, explain, recorded
from lookhear.errors import ConnectionFailed
from lookhear.transport.address import Server, Upload, multipart
from lookhear.wer import WordErrors

REFUSED_SECONDS = 1.0  # that a refused session stays away, unless it is told
ANSWER_SECONDS = 300.0
FRAMES, SIZE = 50, (320, 240)  # of the video: two seconds
TRANSCRIPTIONS = "/v1/audio/transcriptions"


@dataclass(slots=True)
class Tally:
    """What came to its end since the last one. Times in seconds."""

    sessions: int = 0
    lags: list[float] = field(default_factory=list)
    errors: WordErrors = field(default_factory=WordErrors)
    drops: int = 0
    refusals: int = 0
    problems: list[str] = field(default_factory=list)
    files: list[float] = field(default_factory=list)  # how long each took
    videos: list[float] = field(default_factory=list)
    changed: int = 0  # files whose text is not that of the first time

    def add(self, session: Session, trace: Trace) -> None:
        """A session that has ended, however it did."""
        self.sessions += 1
        self.errors += session.errors(metrics.hypothesis(trace))
        if metrics.dropped(trace):
            self.drops += 1
            self.problems.append(trace.problem or "a turn without its transcript")
        elif session.words and trace.seconds > session.words[-1].end:
            self.lags += [lag for _, lag in latencies(trace, session.words).commit_lag]
        self.problems += metrics.invariant_violations(trace)


@dataclass(slots=True)
class Load:
    """All that one server is given. tally: is taken away and replaced by who reads it. hears, sees:
    models; url: of the WebSocket. every: seconds between two files, and between two videos."""

    server: Server
    url: str
    hears: str
    sees: str | None
    every: float
    tally: Tally = field(default_factory=Tally)

    def taken(self) -> Tally:
        """What came to its end since this was last called."""
        tally, self.tally = self.tally, Tally()
        return tally

    async def speak(self, session: Session, draw: random.Random) -> None:
        """One place: sessions one after the other, for ever."""
        await asyncio.sleep(draw.uniform(0.0, len(session.pcm) / RATE))  # they do not end together
        job = Job(self.url, "")
        plan = SessionPlan(session.name, 0, len(session.pcm), language=session.language)
        while True:
            trace = Trace(session.name)
            try:
                async with openai.opened(job, plan) as socket:
                    async with recorded(trace):
                        await openai.converse(socket, job, plan, session.pcm, trace)
            except InvalidStatus as error:
                self.tally.refusals += 1
                told = error.response.headers.get("retry-after")
                await asyncio.sleep(float(told) if told else REFUSED_SECONDS)
            except (Refused, OSError, WebSocketException) as error:
                self.tally.drops += 1
                self.tally.problems.append(explain(error))
                await asyncio.sleep(REFUSED_SECONDS)
            else:
                self.tally.add(session, trace)

    async def files(self, recordings: Sequence[tuple[str, bytes]]) -> None:
        """Uploads, each of the recordings in turn, for ever. recordings: (name, bytes)."""
        first: dict[str, str] = {}

        async def one(number: int) -> None:
            name, data = recordings[number % len(recordings)]
            upload = multipart([("model", self.hears)], name, data)
            answer, seconds = await self._post(TRANSCRIPTIONS, upload)
            if answer is not None:
                self.tally.files.append(seconds)
                self.tally.changed += first.setdefault(name, answer["text"]) != answer["text"]

        await self._repeat(one)

    async def videos(self) -> None:
        """Questions about a video that the server has not seen yet, for ever."""

        async def one(number: int) -> None:
            clip = await asyncio.to_thread(video, FRAMES, SIZE, number)
            url = "data:video/mp4;base64," + base64.b64encode(clip).decode()
            content = [
                {"type": "video_url", "video_url": {"url": url}},
                {"type": "text", "text": "what is there"},
            ]
            body = {"model": self.sees, "messages": [{"role": "user", "content": content}]}
            upload = json.dumps(body).encode(), "application/json"
            answer, seconds = await self._post(CHAT, upload)
            if answer is not None:
                self.tally.videos.append(seconds)

        await self._repeat(one)

    async def _repeat(self, one: Callable[[int], Any]) -> None:
        began = time.monotonic()
        number = 0
        while True:
            await one(number)
            number += 1
            due = began + number * self.every
            if (ahead := due - time.monotonic()) > 0:
                await asyncio.sleep(ahead)
            else:
                began -= ahead  # a slow server is not given two at once

    async def _post(self, path: str, upload: Upload) -> tuple[Any, float]:
        """-> (the answer, None if there was none; seconds)."""
        began = time.monotonic()
        try:
            status, said = await asyncio.to_thread(
                self.server.exchange, path, upload, ANSWER_SECONDS
            )
        except ConnectionFailed as error:
            self.tally.problems.append(f"{path}: {error}")
            return None, 0.0
        if status != 200:
            self.tally.problems.append(f"{path}: {self.server.refusal(status, said)}")
            return None, 0.0
        return json.loads(said), time.monotonic() - began


def recordings(session: Session) -> list[tuple[str, bytes]]:
    """What is said, as files of two kinds."""
    found = []
    for kind in ("WAV", "MP3"):
        file = io.BytesIO()
        soundfile.write(file, session.pcm, RATE, format=kind)
        found.append((f"said.{kind.lower()}", file.getvalue()))
    return found
