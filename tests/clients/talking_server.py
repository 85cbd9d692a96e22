"""A realtime server of conversations: it hears how long it was spoken to, and answers by a script.

The transcript of speech is `N samples`. An answer tells the messages it has seen, a word at a time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tests.clients.counting_server import Drop

_TRANSCRIPTION = "conversation.item.input_audio_transcription."


@dataclass
class TalkingServer:
    """refuse: error fields by the type of the event that causes them. hold: answers stay open until
    they are cancelled. fail: the answer's status details. close: a code, after the first answer's
    first word, with `error` before it. drops[i] breaks the i-th connection; further ones live.
    wavers: every connection answers a little differently. told: the items and frames of each
    connection, in order."""

    refuse: dict[str, dict[str, Any]] = field(default_factory=dict)
    hold: bool = False
    status: str = "completed"
    details: dict[str, Any] = field(default_factory=dict)
    close: int | None = None
    error: dict[str, Any] | None = None
    deaf: bool = False  # every transcription fails
    silent: bool = False  # nothing is said in any turn
    slow: int = 0  # a transcript comes behind what so many events after the commit cause
    committing: asyncio.Event = field(default_factory=asyncio.Event)  # a commit has come
    drops: list[Drop] = field(default_factory=list)
    wavers: bool = False
    told: list[list[str]] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)  # Retry-After of the first handshakes' 503
    refusal: str = "all places are taken"  # the body of these
    hung_up: threading.Event = field(default_factory=threading.Event)  # a connection is over
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What came of this type."""
        return [event for event in self.received if event["type"] == kind]

    def _admit(self, connection: ServerConnection, _: Request) -> Response | None:
        if not self.refusals:
            return None
        refusal = connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, self.refusal)
        refusal.headers["Retry-After"] = str(self.refusals.pop(0))
        return refusal

    @asynccontextmanager
    async def running(self) -> AsyncIterator[TalkingServer]:
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

    async def _handle(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.paths.append(socket.request.path)
        drop = self.drops[len(self.told)] if len(self.told) < len(self.drops) else Drop()
        self.told.append([])
        try:
            await _Talk(self, socket, drop).run()
        except ConnectionClosed:
            pass
        finally:
            self.hung_up.set()


class _Dropped(Exception):
    pass


class _Talk:
    def __init__(self, server: TalkingServer, socket: ServerConnection, drop: Drop) -> None:
        self.server, self.socket, self.drop, self.told = server, socket, drop, server.told[-1]
        self.sent = self.answers = self.turns = self.samples = 0
        self.said: dict[str, list[str]] = {}  # by item
        self.open: str | None = None  # id of the answer that is held
        self.unheard: tuple[str, str] | None = None  # an item and its transcript, still to be told
        self.due = 0  # behind so many events it is told

    async def run(self) -> None:
        try:
            await self.listen()
        except _Dropped:
            if self.drop.error is not None:
                await self.socket.send(json.dumps({"type": "error", "error": self.drop.error}))
            if self.drop.code is None:
                self.socket.transport.abort()
            else:
                await self.socket.close(self.drop.code, "by the script")

    async def listen(self) -> None:
        await self.emit("session.created", session={"type": "transcription", "id": "sess_1"})
        async for frame in self.socket:
            event = json.loads(frame)
            self.server.received.append(event)
            refusal = self.server.refuse.get(event["type"])
            if refusal is not None:
                error = {"type": "invalid_request_error", "message": "no", **refusal}
                await self.emit("error", error={"event_id": event.get("event_id"), **error})
            else:
                await self.take(event)
            if self.unheard is not None and len(self.server.received) == self.due:
                await self.transcribe(*self.unheard)

    async def emit(self, kind: str, **fields: Any) -> None:
        if self.sent == self.drop.after_events:
            raise _Dropped
        self.sent += 1
        await self.socket.send(json.dumps({"type": kind, "event_id": f"e{self.sent}", **fields}))

    async def take(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "session.update":
                session = {"id": "sess_1", "model": "seer", **event["session"]}
                await self.emit("session.updated", session=session)
            case "conversation.item.create":
                await self.add(event["item"])
            case "conversation.item.delete":
                self.said.pop(event["item_id"], None)
                await self.emit("conversation.item.deleted", item_id=event["item_id"])
            case "lookhear.input_video_frame.append":
                self.told.append(f"frame at {event['timestamp_ms']}")
            case "lookhear.input_video_frame.clear":
                await self.emit("lookhear.input_video_frame.cleared")
            case "input_audio_buffer.append":
                self.samples += len(base64.b64decode(event["audio"])) // 2
            case "input_audio_buffer.clear":
                self.samples = 0
                await self.emit("input_audio_buffer.cleared")
            case "input_audio_buffer.commit":
                await self.commit()
            case "response.create":
                await self.answer()
            case "response.cancel":
                if self.open is not None:
                    await self.finish(self.open, "cancelled", {"reason": "client_cancelled"})
                    self.open = None

    async def add(self, item: dict[str, Any]) -> None:
        for part in item["content"]:
            text = part.get("text") or part.get("transcript") or part["image_url"][:15]
            self.told.append(f"{item['role']}: {text}")
            if item["role"] != "assistant":
                self.said.setdefault(item["id"], []).append(text)
        for kind in ("added", "done"):
            await self.emit(f"conversation.item.{kind}", item=item, previous_item_id=None)

    async def commit(self) -> None:
        self.server.committing.set()
        self.turns += 1
        item = f"spoken_{self.turns}"
        await self.emit("input_audio_buffer.committed", item_id=item, previous_item_id=None)
        about = {"item_id": item, "content_index": 0}
        if self.server.deaf:
            error = {"type": "server_error", "code": "x", "message": "cannot hear"}
            await self.emit(_TRANSCRIPTION + "failed", **about, error=error)
            return
        text, self.samples = "" if self.server.silent else f"{self.samples} samples", 0
        self.said[item] = [text]
        self.told.append(f"user: {text}")
        self.unheard, self.due = (item, text), len(self.server.received) + self.server.slow

    async def transcribe(self, item: str, text: str) -> None:
        self.unheard = None
        about = {"item_id": item, "content_index": 0}
        await self.emit(_TRANSCRIPTION + "delta", **about, delta=text)
        await self.emit(_TRANSCRIPTION + "completed", **about, transcript=text)

    async def answer(self) -> None:
        self.answers += 1
        name = f"resp_{self.answers}"
        await self.emit("response.created", response={"id": name, "status": "in_progress"})
        await self.emit("response.output_text.delta", response_id="another", delta="!")
        await self.emit("response.output_item.added", response_id=name, item={"id": f"of_{name}"})
        first = f"seen{len(self.server.told)}:" if self.server.wavers else "seen:"
        said = [text for texts in self.said.values() for text in texts]
        for word in " ".join([first, *said]).split(" "):
            await self.emit("response.output_text.delta", response_id=name, delta=word + " ")
            if self.server.close is not None:
                if self.server.error is not None:
                    await self.emit("error", error=self.server.error)
                await self.socket.close(self.server.close, "by the script")
        if self.server.hold:
            self.open = name
        else:
            await self.finish(name, self.server.status, self.server.details)

    async def finish(self, name: str, status: str, details: dict[str, Any]) -> None:
        usage = {"input_tokens": 70, "output_tokens": 3, "total_tokens": 73}
        usage |= {"input_token_details": {"cached_tokens": 64, "image_tokens": 49}}  # type: ignore[dict-item]
        response = {"id": name, "status": status, "status_details": details, "usage": usage}
        await self.emit("response.done", response=response)
