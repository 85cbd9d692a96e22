"""A realtime server that hears exactly what it was sent, and drops the connection on demand.

Its language: a run of equal non-zero samples is a word, written `VALUExCOUNT`; zeros are silence.
So the transcript counts samples, and a test can tell one lost or doubled sample.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

MS = 24  # samples per millisecond


@dataclass(frozen=True)
class Drop:
    """Break a connection after so many events sent, or so many frames received.

    code: close with it; None: no close frame at all, the TCP connection just ends.
    """

    after_events: int | None = None
    after_frames: int | None = None
    code: int | None = None
    error: dict[str, Any] | None = None  # said before the close


@dataclass
class CountingServer:
    """drops[i] breaks the i-th connection; further connections live. completions_late: a turn
    is completed only after the next one, as a server with parallel engines may do. refusals: the
    first handshakes are refused with a 503 that says to come back after so many seconds."""

    drops: list[Drop] = field(default_factory=list)
    completions_late: bool = False
    api_key: str | None = None
    reply_to_update: dict[str, Any] | None = None  # instead of session.updated
    refusals: list[int] = field(default_factory=list)
    refusal: tuple[str, str] = ("too_many_speakers", "all places are taken")  # code, message
    is_away: bool = False  # a proxy says so
    failing_turns: tuple[int, ...] = ()  # of each connection, counted from 0: given up at their end
    connections: int = 0
    updates: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CountingServer]:
        async with serve(
            self._handle,
            "127.0.0.1",
            0,
            process_request=self._admit,
            subprotocols=["realtime"],  # type: ignore[list-item]
            max_size=None,
        ) as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            yield self

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        self.paths.append(request.path)
        if self.is_away:
            return connection.respond(HTTPStatus.BAD_GATEWAY, "nobody is behind this proxy")
        if self.refusals:
            code, message = self.refusal
            body = {"error": {"message": message, "code": code}}
            refusal = connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, json.dumps(body))
            refusal.headers["Retry-After"] = str(self.refusals.pop(0))
            return refusal
        given = request.headers.get("Authorization")
        if self.api_key is None or given == f"Bearer {self.api_key}":
            return None
        body = {"error": {"message": "Incorrect API key.", "code": "invalid_api_key"}}
        return connection.respond(HTTPStatus.UNAUTHORIZED, json.dumps(body))

    async def _handle(self, socket: ServerConnection) -> None:
        number = self.connections
        self.connections += 1
        drop = self.drops[number] if number < len(self.drops) else Drop()
        try:
            await _Listener(self, socket, number, drop).run()
        except ConnectionClosed:
            pass


class _Dropped(Exception):
    pass


class _Listener:
    def __init__(
        self, server: CountingServer, socket: ServerConnection, number: int, drop: Drop
    ) -> None:
        self.server, self.socket, self.number, self.drop = server, socket, number, drop
        self.sent = self.received = self.turns = 0
        self.position = 0  # samples heard
        self.value = self.count = 0  # the open run
        self.silence = 0  # samples since the last word of the open turn
        self.item: str | None = None
        self.words: list[str] = []
        self.unfinished: list[tuple[str, str]] = []  # (item, text) still to be completed
        self.vad: dict[str, Any] | None = None

    async def run(self) -> None:
        try:
            await self.emit("session.created", session={"type": "transcription", "id": "sess_1"})
            async for frame in self.socket:
                self.received += 1
                await self.take(json.loads(frame))
                if self.received == self.drop.after_frames:
                    raise _Dropped
        except _Dropped:
            if self.drop.error is not None:
                await self.socket.send(json.dumps({"type": "error", "error": self.drop.error}))
            if self.drop.code is None:
                self.socket.transport.abort()
            else:
                await self.socket.close(self.drop.code, "by the script")

    async def emit(self, kind: str, **fields: Any) -> None:
        if self.sent == self.drop.after_events:
            raise _Dropped
        self.sent += 1
        await self.socket.send(json.dumps({"type": kind, "event_id": f"e{self.sent}", **fields}))

    async def take(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "session.update":
                self.server.updates.append(message["session"])
                if self.server.reply_to_update is not None:
                    await self.socket.send(json.dumps(self.server.reply_to_update))
                    return
                self.vad = message["session"]["audio"]["input"]["turn_detection"]
                if self.vad is not None:
                    self.vad = {"prefix_padding_ms": 300, "silence_duration_ms": 500} | self.vad
                await self.emit("session.updated", session={"id": "s", **message["session"]})
            case "input_audio_buffer.append":
                pcm = np.frombuffer(base64.b64decode(message["audio"]), "<i2")
                for value, count in _runs(pcm):
                    await self.hear(value, count)
            case "input_audio_buffer.commit":
                await self.commit(message.get("event_id"))
            case "input_audio_buffer.clear":
                await self.emit("input_audio_buffer.cleared")

    async def hear(self, value: int, count: int) -> None:
        if value == 0:
            await self.end_word()
            closes = self.vad and self.vad["silence_duration_ms"] * MS
            if closes and self.item and self.silence + count >= closes:
                end = self.position + closes - self.silence
                await self.emit(
                    "input_audio_buffer.speech_stopped",
                    item_id=self.item,
                    audio_end_ms=end // MS,
                )
                await self.end_turn()
            self.silence += count
        else:
            if self.item is None:
                await self.start_turn()
            if value != self.value:
                await self.end_word()
            self.value = value
            self.count += count
            self.silence = 0
        self.position += count

    async def start_turn(self) -> None:
        self.turns += 1
        self.item, self.words = f"item_{self.number}_{self.turns}", []
        if self.vad is not None:
            start = max(0, self.position // MS - self.vad["prefix_padding_ms"])
            await self.emit(
                "input_audio_buffer.speech_started", item_id=self.item, audio_start_ms=start
            )

    async def end_word(self) -> None:
        if self.count:
            word = f"{self.value}x{self.count}"
            self.value = self.count = 0
            text = word if not self.words else " " + word
            self.words.append(word)
            await self.transcription("delta", self.item, delta=text)

    async def end_turn(self) -> None:
        item, text = self.item, " ".join(self.words)
        assert item is not None
        self.item, self.words = None, []
        await self.emit("input_audio_buffer.committed", item_id=item, previous_item_id=None)
        self.unfinished.append((item, text))
        while len(self.unfinished) > int(self.server.completions_late):
            # Late completions come in the wrong order on purpose.
            item, text = self.unfinished.pop()
            await self.complete(item, text)

    async def complete(self, item: str, text: str) -> None:
        if int(item.rpartition("_")[2]) - 1 in self.server.failing_turns:
            error = {"type": "server_error", "code": "engine_failed", "message": "out of memory"}
            await self.transcription("failed", item, error=error)
            return
        usage = {"type": "duration", "seconds": 1.0}
        await self.transcription("completed", item, transcript=text, usage=usage)

    async def commit(self, event_id: str | None) -> None:
        await self.end_word()
        if self.item is None:
            error = {"type": "invalid_request_error", "message": "the buffer is empty"}
            error |= {"code": "input_audio_buffer_commit_empty", "event_id": event_id or ""}
            await self.emit("error", error=error)
        else:
            await self.end_turn()
        while self.unfinished:
            await self.complete(*self.unfinished.pop())

    async def transcription(self, kind: str, item: str | None, **fields: Any) -> None:
        name = "conversation.item.input_audio_transcription." + kind
        await self.emit(name, item_id=item, content_index=0, **fields)


def _runs(pcm: NDArray[np.int16]) -> list[tuple[int, int]]:
    """(value, count) of each run of equal samples."""
    if not len(pcm):
        return []
    edges = np.flatnonzero(np.diff(pcm)) + 1
    bounds = [0, *edges.tolist(), len(pcm)]
    return [(int(pcm[a]), b - a) for a, b in zip(bounds, bounds[1:], strict=False)]


def speech(*turns: list[int], gap_ms: int = 900, word_ms: int = 200) -> bytes:
    """PCM of turns: each a list of words (values), silence before, between and after."""
    silence = np.zeros(gap_ms * MS, "<i2")
    pieces = [silence]
    for turn in turns:
        pieces += [np.full(word_ms * MS + value, value, "<i2") for value in turn]
        pieces.append(silence)
    return b"".join(piece.tobytes() for piece in pieces)


def said(*turns: list[int], word_ms: int = 200) -> list[str]:
    """The words that `speech` of the same turns must be heard as."""
    return [f"{value}x{word_ms * MS + value}" for turn in turns for value in turn]
