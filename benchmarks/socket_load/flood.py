"""Many microphones at once: the load generator of `benchmarks.gateway`, a process of its own.

`python -m benchmarks.socket_load.flood JSON` opens `sessions` transcription sessions and sends on
each, on an absolute clock, one `input_audio_buffer.append` of 20 ms every 20 ms. A generator in
Python that makes and masks every frame would need the core that it measures, so all frames of a
recording are made once, ready to be written to a raw socket, and each session plays them from a
place of its own.

It prints `{"open": N}` when all sessions are, and at the end what it sent, how late, and what came.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.socket_load.null_gateway import quantiles
from lookhear.bench.recordings.dataset import Audio, held_out

PACKET_SECONDS = 0.02
RATE = 24_000
PACKET = int(PACKET_SECONDS * RATE)  # samples
SPIN = 0.0002  # seconds: a shorter wait than this is not worth a sleep
COUNTED = {
    b'"input_audio_buffer.committed"': "turns",
    b".completed": "completed",
    b'"error"': "errors",
}


def recording(seconds: float) -> NDArray[np.int16]:
    """[n] at 24 kHz: people who speak two thirds of the time."""
    audio, pieces, length = Audio(), [], 0
    for utterance in held_out():
        samples = audio.of(utterance)
        pieces += [samples, np.zeros(len(samples) // 2, dtype=np.int16)]
        length += len(samples) + len(samples) // 2
        if length >= seconds * RATE:
            break
    return np.concatenate(pieces)[: int(seconds * RATE)]


def frame(text: bytes, key: bytes, opcode: int = 1) -> bytes:
    """A masked client frame (RFC 6455, section 5.2)."""
    if len(text) < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | len(text))
    elif len(text) < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, len(text))
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, len(text))
    repeated = np.frombuffer((key * (len(text) // 4 + 1))[: len(text)], dtype=np.uint8)
    return head + key + (np.frombuffer(text, dtype=np.uint8) ^ repeated).tobytes()


def packets(samples: NDArray[np.int16]) -> list[bytes]:
    """Every 20 ms as the frame of an append."""
    made = []
    for start in range(0, len(samples) - PACKET + 1, PACKET):
        audio = base64.b64encode(samples[start : start + PACKET].astype("<i2").tobytes()).decode()
        text = json.dumps({"type": "input_audio_buffer.append", "audio": audio})
        made.append(frame(text.encode(), os.urandom(4)))
    return made


@dataclass(slots=True)
class Player:
    """One session. at: its next packet. rest: of a frame that the socket did not take whole."""

    socket: socket.socket
    at: int
    rest: bytes = b""
    received: bytearray = field(default_factory=bytearray)
    closed: bool = False


class Flood:
    """All sessions of one run, on one thread."""

    def __init__(self, port: int, frames: Sequence[bytes], draw: random.Random) -> None:
        self._port = port
        self._frames = frames
        self._draw = draw
        self._epoll = select.epoll()
        self.players: list[Player] = []
        self._by_fd: dict[int, Player] = {}
        self.late: list[float] = []
        self.counts = {"sent": 0, "blocked": 0, "closed": 0, **dict.fromkeys(COUNTED.values(), 0)}

    def open(self, update: dict[str, Any]) -> None:
        """One more session, with these settings; waits until the server has taken them."""
        sock = socket.create_connection(("127.0.0.1", self._port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        sock.sendall(
            f"GET /v1/realtime?intent=transcription HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        player = Player(sock, self._draw.randrange(len(self._frames)))
        self._await(player, b'"session.created"')  # what is sent before may be lost
        text = json.dumps({"type": "session.update", "session": update})
        sock.sendall(frame(text.encode(), os.urandom(4)))
        self._await(player, b'"session.updated"')
        player.received.clear()
        sock.setblocking(False)
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._by_fd[sock.fileno()] = player
        self.players.append(player)

    def _await(self, player: Player, word: bytes) -> None:
        while word not in player.received:
            data = player.socket.recv(65536)
            player.received += data
            if not data or b'"error"' in data:
                raise ConnectionError(f"a session was refused: {bytes(player.received)[-300:]!r}")

    def play(self, seconds: float, settle: float) -> None:
        """Send for `settle` seconds uncounted, then for `seconds`."""
        players, frames, count = self.players, self._frames, len(self.players)
        step = PACKET_SECONDS / count
        began = time.monotonic() + 0.05
        counted_from, until = began + settle, began + settle + seconds
        number, drained = 0, began
        while (due := began + number * step) < until:
            now = time.monotonic()
            if now - drained > 0.02:
                self._drain()
                drained = now = time.monotonic()
            if due - now > SPIN:
                time.sleep(due - now)
                now = time.monotonic()
            self._send(players[number % count], frames)
            if due >= counted_from:
                self.late.append(max(now - due, 0.0))
                self.counts["sent"] += 1
            number += 1
        self._drain()

    def _send(self, player: Player, frames: Sequence[bytes]) -> None:
        data = frames[player.at]
        player.at = (player.at + 1) % len(frames)
        if player.rest:
            data = player.rest + data
        try:
            sent = player.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            player.closed = True
            return
        player.rest = data[sent:] if sent < len(data) else b""
        if player.rest:
            self.counts["blocked"] += 1

    def _drain(self) -> None:
        """Read what came: count it, answer pings."""
        for fd, _ in self._epoll.poll(0):
            player = self._by_fd[fd]
            try:
                data = player.socket.recv(1 << 20)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                player.closed = True
                self._epoll.unregister(fd)
                continue
            player.received += data
            self._frames_of(player)

    def _frames_of(self, player: Player) -> None:
        """Server frames are not masked."""
        received = player.received
        while len(received) >= 2:
            length, head = received[1], 2
            if length == 126:
                head = 4
                length = int.from_bytes(received[2:4], "big") if len(received) >= 4 else 1 << 30
            elif length == 127:
                head = 10
                length = int.from_bytes(received[2:10], "big") if len(received) >= 10 else 1 << 30
            if len(received) < head + length:
                return
            opcode, payload = received[0] & 15, bytes(received[head : head + length])
            del received[: head + length]
            if opcode == 9:
                player.rest += frame(payload, os.urandom(4), 10)
            for word, name in COUNTED.items():
                if opcode == 1 and word in payload[:80]:
                    self.counts[name] += 1

    def close(self) -> None:
        """Closes every socket."""
        for player in self.players:
            player.socket.close()
        self._epoll.close()


def main(argv: list[str]) -> int:
    """Floods until the sessions have said everything; prints JSON lines; exit status 0."""
    options = json.loads(argv[0])
    with contextlib.suppress(OSError):  # where it may: nobody must delay the clock
        os.nice(-10)
    flood = Flood(
        options["port"], packets(recording(options["recording"])), random.Random(options["seed"])
    )
    for _ in range(options["sessions"]):
        flood.open(options["update"])
    print(json.dumps({"open": len(flood.players)}), flush=True)
    flood.play(options["seconds"], options["settle"])
    flood.counts["closed"] = sum(player.closed for player in flood.players)
    late = quantiles([seconds * 1000 for seconds in flood.late])
    print(json.dumps({**flood.counts, "late_ms": late, "cpu": sum(os.times()[:2])}), flush=True)
    flood.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
