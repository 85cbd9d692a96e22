"""Channels of one live connection, each heard by itself: the two sides of a call.

 client ──samples side by side──▶ Channels ──those of one channel──▶ Part ──▶ a session of its own
    ◀──results, with their channel──        ◀──────results──────────

A part is a WebSocket to its session. So sessions know nothing of the others, and each channel has a
place among those that speak, its turns and its language.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import MutableMapping, Sequence
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.deepgram.options import Query, raw_format
from lookhear.gateway.realtime.protocol.dialect import Close, Dialect, Json
from lookhear.gateway.realtime.protocol.refusals import LAST_WORDS
from lookhear.gateway.realtime.session.endpoint import serve
from lookhear.gateway.sockets.frames import EXTENSION
from lookhear.media.audio.pcm import AudioFormat

Message = MutableMapping[str, Any]  # of ASGI

WAITING = 16  # messages for a session that is slower than the others
SPLIT_BY = ("channels", "multichannel")  # asked of all together
CLOSE_STREAM: Message = {"type": "websocket.receive", "text": '{"type": "CloseStream"}'}
SAME = ("ConfigureSuccess", "ConfigureFailure")  # said by every session, and told of the first
NORMAL = 1000


async def serve_channels(websocket: WebSocket, dialects: Sequence[type[Dialect]]) -> None:
    """As `serve`; channels of raw audio are heard apart where that is asked for."""
    query = Query(websocket.query_params)
    try:
        format = raw_format(query) if query.flag("multichannel") else None
    except ProtocolError:
        format = None  # the dialect will say so
    if format is None:
        await serve(websocket, dialects)
    else:
        await Channels(websocket, format).serve(dialects)


class Channels:
    """One connection, whose audio has such a format."""

    def __init__(self, websocket: WebSocket, format: AudioFormat) -> None:
        self._websocket = websocket
        self.count = format.channels
        self._dtype = np.dtype(f"V{format.sample_bytes // format.channels}")
        self._rest = b""  # of samples whose other channels have not come
        self._sha256 = hashlib.sha256()
        self._opened = asyncio.Event()
        self._refused_by: Part | None = None
        self._request = ""  # its id: of the session that says it first
        self._metadata: list[Json] = []
        self._errors = Counter[str]()  # that were told, by what they say
        self._last_words: list[Json] = []  # of sessions that ended before others
        self._end: Close | None = None
        asked = websocket.query_params.multi_items()
        query = urlencode([(name, value) for name, value in asked if name not in SPLIT_BY])
        self._parts = [Part(self, number, query) for number in range(self.count)]

    def scope(self, query: str) -> Message:
        """Of a part, whose URL has that query."""
        scope = dict(self._websocket.scope)
        extensions = {k: v for k, v in scope.get("extensions", {}).items() if k != EXTENSION}
        return {**scope, "query_string": query.encode(), "extensions": extensions}

    async def serve(self, dialects: Sequence[type[Dialect]]) -> None:
        """Until all of them are over."""
        sessions = [asyncio.create_task(part.serve(dialects)) for part in self._parts]
        dealing = asyncio.create_task(self._deal())
        try:
            await asyncio.gather(*sessions)
            with contextlib.suppress(WebSocketDisconnect, OSError, RuntimeError):
                await self._say_goodbye()
        finally:
            for task in (dealing, *sessions):
                task.cancel()
            await asyncio.gather(dealing, *sessions, return_exceptions=True)

    # --- what comes ------------------------------------------------------------------------------

    async def _deal(self) -> None:
        await self._opened.wait()
        kind = ""
        while kind != "websocket.disconnect":
            message = await self._websocket.receive()
            kind, data = message["type"], message.get("bytes")
            pieces: list[Message] = [message] * self.count
            if data:
                pieces = [{"type": kind, "bytes": piece} for piece in self._dealt(data)]
            for part, piece in zip(self._parts, pieces, strict=True):
                if not data or piece["bytes"]:  # empty ones would mean the end
                    await part.give(piece)

    def _dealt(self, data: bytes) -> list[bytes]:
        """The samples of each channel."""
        self._sha256.update(data)
        data = self._rest + data
        whole = len(data) - len(data) % (self.count * self._dtype.itemsize)
        self._rest = data[whole:]
        samples = np.frombuffer(data[:whole], self._dtype).reshape(-1, self.count)
        return [samples[:, channel].tobytes() for channel in range(self.count)]

    # --- what is told ----------------------------------------------------------------------------

    async def told(self, part: Part, message: Message) -> None:
        """By the session of a part."""
        match message["type"]:
            case "websocket.accept":
                part.accepted = message
                if all(other.accepted is not None for other in self._parts):
                    await self._open(self._parts[0].accepted or {})
            case "websocket.http.response.start" | "websocket.http.response.body":
                await self._refuse(part, message)
            case "websocket.send":
                await self._opened.wait()
                await self._tell(part, json.loads(message["text"]))
            case "websocket.close":
                close = Close(message.get("code", NORMAL), message.get("reason") or "")
                await self._closed(part, close)

    async def _open(self, accepted: Message) -> None:
        subprotocol, headers = accepted.get("subprotocol"), accepted.get("headers", [])
        await self._websocket.accept(subprotocol, headers)
        self._opened.set()

    async def _refuse(self, part: Part, message: Message) -> None:
        """By the first that is refused. To the others it is as if the client had gone."""
        if self._refused_by is None:
            self._refused_by = part
            for other in self._parts:
                await other.give({"type": "websocket.disconnect", "code": NORMAL})
        if self._refused_by is part:
            await self._websocket.send(message)

    async def _tell(self, part: Part, frame: Json) -> None:
        kind, index = frame["type"], [part.number, self.count]
        if "request_id" in frame:
            frame["request_id"] = self._request = self._request or frame["request_id"]
        if kind == "Metadata":
            self._metadata.append(frame)
            return
        if kind in SAME and part is not self._parts[0]:
            return
        if kind == "Error":
            # All hear the same message, but only one of them may fail: each is told as often as it
            # is said by the session that says it most.
            said = frame["description"]
            part.errors[said] += 1
            if part.errors[said] <= self._errors[said]:
                return
            self._errors[said] += 1
            if frame["variant"] in LAST_WORDS:  # of the others there may be more to tell
                self._last_words.append(frame)
                return
        if kind == "Results":
            frame["channel_index"] = index
            self._request = self._request or frame["metadata"]["request_id"]
            frame["metadata"]["request_id"] = self._request
        elif isinstance(frame.get("channel"), list):
            frame["channel"] = index
        await self._websocket.send_text(json.dumps(frame, separators=(",", ":")))

    async def _closed(self, part: Part, close: Close) -> None:
        """What is under way in the others is said; then the client hears of the first that did not
        end as it was asked to."""
        part.leave()
        if close.code != NORMAL and self._end is None:
            self._end = close
            for other in self._parts:
                await other.give(CLOSE_STREAM)

    async def _say_goodbye(self) -> None:
        if self._refused_by is not None:
            return
        if len(self._metadata) == self.count:
            whole = max(self._metadata, key=lambda told: told["duration"])
            about = {"channels": self.count, "sha256": self._sha256.hexdigest()}
            await self._websocket.send_json({**whole, **about, "request_id": self._request})
        for frame in self._last_words:
            await self._websocket.send_json(frame)
        end = self._end or Close(NORMAL, "")
        await self._websocket.close(end.code, end.reason)


class Part:
    """A WebSocket to the session of one channel."""

    def __init__(self, whole: Channels, number: int, query: str) -> None:
        self.number = number
        self.accepted: Message | None = None
        self.errors = Counter[str]()  # by what they say
        self.websocket = WebSocket(whole.scope(query), self._receive, self._send)
        self._whole = whole
        self._waiting = asyncio.Queue[Message](WAITING)
        self._waiting.put_nowait({"type": "websocket.connect"})
        self._is_over = False

    async def serve(self, dialects: Sequence[type[Dialect]]) -> None:
        """Its session, until that is over."""
        try:
            await serve(self.websocket, dialects, self._whole.count)
        finally:
            self.leave()

    async def give(self, message: Message) -> None:
        """It comes next. Waits while much does."""
        if not self._is_over:
            await self._waiting.put(message)

    def leave(self) -> None:
        """Nobody will take what comes any more."""
        self._is_over = True
        while not self._waiting.empty():
            self._waiting.get_nowait()

    async def _receive(self) -> Message:
        return await self._waiting.get()

    async def _send(self, message: Message) -> None:
        await self._whole.told(self, message)
