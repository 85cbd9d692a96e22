"""A realtime server of conversations: it hears how long it was spoken to, and answers by a script.

The transcript of speech is `N samples`. An answer tells the messages it has seen, a word at a time.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

_TRANSCRIPTION = "conversation.item.input_audio_transcription."


@dataclass
class TalkingServer:
    """refuse: error fields by the type of the event that causes them. hold: answers stay open until
    they are cancelled. fail: the answer's status details. close: a code, after the first answer's
    first word, with `error` before it."""

    refuse: dict[str, dict[str, Any]] = field(default_factory=dict)
    hold: bool = False
    status: str = "completed"
    details: dict[str, Any] = field(default_factory=dict)
    close: int | None = None
    error: dict[str, Any] | None = None
    deaf: bool = False  # every transcription fails
    received: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What came of this type."""
        return [event for event in self.received if event["type"] == kind]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[TalkingServer]:
        async with serve(
            self._handle,
            "127.0.0.1",
            0,
            subprotocols=["realtime"],  # type: ignore[list-item]
            max_size=None,
        ) as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            yield self

    async def _handle(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.paths.append(socket.request.path)
        try:
            await _Talk(self, socket).run()
        except ConnectionClosed:
            pass


class _Talk:
    def __init__(self, server: TalkingServer, socket: ServerConnection) -> None:
        self.server, self.socket = server, socket
        self.sent = self.answers = self.turns = self.samples = 0
        self.said: list[str] = []
        self.open: str | None = None  # id of the answer that is held

    async def run(self) -> None:
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

    async def emit(self, kind: str, **fields: Any) -> None:
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
                await self.emit("conversation.item.deleted", item_id=event["item_id"])
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
            self.said.append(part.get("text") or part["image_url"][:15])
        for kind in ("added", "done"):
            await self.emit(f"conversation.item.{kind}", item=item, previous_item_id=None)

    async def commit(self) -> None:
        self.turns += 1
        item = f"spoken_{self.turns}"
        await self.emit("input_audio_buffer.committed", item_id=item, previous_item_id=None)
        about = {"item_id": item, "content_index": 0}
        if self.server.deaf:
            error = {"type": "server_error", "code": "x", "message": "cannot hear"}
            await self.emit(_TRANSCRIPTION + "failed", **about, error=error)
            return
        text, self.samples = f"{self.samples} samples", 0
        self.said.append(text)
        await self.emit(_TRANSCRIPTION + "delta", **about, delta=text)
        await self.emit(_TRANSCRIPTION + "completed", **about, transcript=text)

    async def answer(self) -> None:
        self.answers += 1
        name = f"resp_{self.answers}"
        await self.emit("response.created", response={"id": name, "status": "in_progress"})
        await self.emit("response.output_text.delta", response_id="another", delta="!")
        for word in " ".join(["seen:", *self.said]).split(" "):
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
