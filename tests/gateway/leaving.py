"""Clients that leave without a word, at every moment that a person's Ctrl-C may hit. Blocking: each
sends some bytes, may wait for the beginning of an answer, and resets the connection."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lookhear.media.audio.decode import decode_audio
from tests.media.audio.encoders import encode_pcm16

SPEECH = Path(__file__).parents[1] / "media" / "data" / "speech.flac"

PATIENCE = 60.0  # seconds for what is waited for


class Leaving(NamedTuple):
    """steps: bytes to send, and what is to come before the next. requests, sessions: how many of
    them the server has seen; None: it depends on who is faster."""

    name: str
    steps: list[tuple[bytes, bytes]]
    requests: int = 0
    sessions: int | None = 0


def leave(port: int, leaving: Leaving) -> None:
    """Connect, send, wait, and reset."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        for sent, awaited in leaving.steps:
            client.sendall(sent)
            come = b""
            while awaited not in come:
                data = client.recv(65_536)
                assert data, come
                come += data
        # Closed with this set, the socket sends RST, as when its process is killed.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def ways(speech: str, sight: str) -> Iterator[Leaving]:
    """speech, sight: models that transcribe and chat."""
    yield Leaving("connects", [])
    yield Leaving("half a request line", [(b"GET /v1/mod", b"")])
    yield Leaving("half a header", [(b"GET /v1/models HTTP/1.1\r\nHost: 127.0", b"")])
    form = _form(speech)
    kind = "multipart/form-data; boundary=b"
    head = _head("/v1/audio/transcriptions", kind, len(form))
    yield Leaving("no file yet", [(head, b"")], requests=1)
    yield Leaving("half a file", [(head + form[: len(form) // 2], b"")], requests=1)
    yield Leaving("a whole file", [(head + form, b"")], requests=1)
    question = _question(sight)
    head = _head("/v1/chat/completions", "application/json", len(question))
    yield Leaving("half a question", [(head + question[:20], b"")], requests=1)
    yield Leaving("a whole question", [(head + question, b"")], requests=1)
    yield Leaving("half an answer", [(head + question, b'"content":"')], requests=1)
    shake = _handshake()
    yield Leaving("half a handshake", [(shake[:60], b"")])
    yield Leaving("a handshake", [(shake, b"")], sessions=None)
    begun = (shake, b"session.created")
    yield Leaving("a session", [begun], sessions=1)
    frames = b"".join(map(_frame, _appends()))
    yield Leaving("in speech", [begun, (frames, b"speech_started")], sessions=1)
    yield Leaving("half a frame", [begun, (frames[:400], b"")], sessions=1)
    yield Leaving("a refused session", [(_handshake("https://evil.example"), b"")])


def _head(path: str, kind: str, size: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()


def _form(model: str) -> bytes:
    head = '--b\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n'
    file = head.format("file", '; filename="a.flac"').encode() + SPEECH.read_bytes()
    return head.format("model", "").encode() + model.encode() + b"\r\n" + file + b"\r\n--b--\r\n"


def _question(model: str) -> bytes:
    messages = [{"role": "user", "content": "How many shapes are there? " * 20}]
    return json.dumps({"model": model, "messages": messages, "stream": True}).encode()


def _handshake(origin: str | None = None) -> bytes:
    lines = [
        "GET /v1/realtime?intent=transcription HTTP/1.1", "Host: localhost", "Upgrade: websocket",
        "Connection: Upgrade", "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        *([f"Origin: {origin}"] if origin else []),
    ]  # fmt: skip
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _frame(text: bytes) -> bytes:
    """Masked with zeros, of 126 to 65,535 bytes."""
    return b"\x81" + bytes([0x80 | 126]) + struct.pack(">H", len(text)) + bytes(4) + text


def _appends() -> Iterator[bytes]:
    pcm = encode_pcm16(decode_audio(SPEECH, target_rate=24_000).samples)
    for start in range(0, min(len(pcm), 240_000), 9600):
        audio = base64.b64encode(pcm[start : start + 9600]).decode()
        yield json.dumps({"type": "input_audio_buffer.append", "audio": audio}).encode()
