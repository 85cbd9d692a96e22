"""Where an attack goes, and the raw ways in: sockets that say what no library would."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

ATTACKER = "127.0.0.2"  # another client than the good ones, for limits that count by address
ANSWER_SECONDS = 60.0


@dataclass(slots=True)
class Assault:
    """One attack under way. until: on the loop's clock. headers: of every request. tally: what
    became of its tries, by status or by how they ended. hears, sees: models that do."""

    host: str
    port: int
    until: float
    headers: dict[str, str]
    hears: str
    sees: str | None
    tally: Counter[str] = field(default_factory=Counter)

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection from the attacker's own address. OSError."""
        return await asyncio.open_connection(self.host, self.port, local_addr=(ATTACKER, 0))

    def head(self, path: str, length: int, kind: str) -> bytes:
        """Of a POST."""
        fields = {
            "host": f"{self.host}:{self.port}",
            "content-type": kind,
            "content-length": str(length),
            "connection": "close",
            **self.headers,
        }
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    async def post(self, path: str, body: bytes, kind: str, *, leave: bool = False) -> None:
        """One request; its status goes into the tally. leave: hang up when it is sent. OSError."""
        reader, writer = await self.raw()
        try:
            writer.write(self.head(path, len(body), kind))
            for start in range(0, len(body), 1 << 20):
                writer.write(body[start : start + (1 << 20)])
                await writer.drain()
            if leave:
                self.tally["left"] += 1
                return
            async with asyncio.timeout(ANSWER_SECONDS):
                line = await reader.readline()
            self.tally[line.split(b" ")[1].decode() if line else "closed"] += 1
        finally:
            writer.close()

    @contextlib.asynccontextmanager
    async def session(self, **options: object) -> AsyncIterator[ClientConnection]:
        """A transcription WebSocket. OSError, WebSocketException."""
        url = f"ws://{self.host}:{self.port}/v1/realtime?intent=transcription"
        async with connect(
            url,
            additional_headers=self.headers,
            compression=None,
            max_size=None,
            local_addr=(ATTACKER, 0),
            **options,  # type: ignore[arg-type]
        ) as socket:
            yield socket

    async def repeat(
        self, work: Callable[[], Awaitable[None]], workers: int, pause: float = 0.05
    ) -> None:
        """So many at once, each again and again until it is time. What the server refuses, and
        what breaks off, is counted."""

        async def one() -> None:
            loop = asyncio.get_running_loop()
            while loop.time() < self.until:
                try:
                    await work()
                except InvalidStatus as error:
                    self.tally[str(error.response.status_code)] += 1
                except TimeoutError:
                    self.tally["no answer"] += 1
                except (OSError, WebSocketException, EOFError) as error:
                    self.tally[type(error).__name__] += 1
                await asyncio.sleep(pause)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self.until):
                await asyncio.gather(*(one() for _ in range(workers)))


async def until_closed(reader: asyncio.StreamReader) -> None:
    """Reads and forgets. OSError."""
    while await reader.read(1 << 16):
        pass


def multipart(fields: Iterable[tuple[str, str]], name: str, content: bytes) -> tuple[bytes, str]:
    """A form with one file: its body, its content type."""
    boundary = "lookhear-abuse"
    parts = [
        f'--{boundary}\r\ncontent-disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields
    ]
    parts.append(
        f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n'
        "content-type: application/octet-stream\r\n\r\n".encode()
    )
    body = b"".join([*parts, content, f"\r\n--{boundary}--\r\n".encode()])
    return body, f"multipart/form-data; boundary={boundary}"
