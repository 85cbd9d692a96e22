"""A chat server over HTTP that answers by a script, on a thread of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {
    "prompt_tokens": 70,
    "completion_tokens": 3,
    "total_tokens": 73,
    "prompt_tokens_details": {"cached_tokens": 64, "image_tokens": 49},
}


def chunk(finish: str | None = None, usage: dict[str, Any] | None = None, **delta: Any) -> str:
    """One chunk of an answer; one with usage has no choices."""
    choices = [] if usage else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": choices}
    return json.dumps(body | {"created": 1, "model": "seer", "usage": usage})


def answer(*words: str, finish: str = "stop") -> list[str]:
    """The frames of a whole answer."""
    texts = [chunk(content=word) for word in words]
    return [chunk(role="assistant"), *texts, chunk(finish), chunk(usage=USAGE), "[DONE]"]


@dataclass
class ChatServer:
    """frames: what is said to every question. hold: after them the answer stays open until the
    client hangs up. refusal: an HTTP status and body instead of an answer."""

    frames: Sequence[str] = ()
    hold: bool = False
    refusal: tuple[int, bytes] | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[ChatServer]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # chunked, as the real one is

            def do_POST(self) -> None:
                try:
                    self._answer()
                except ConnectionError:  # the client has gone, as it may: nobody is to be told
                    script.hung_up.set()

            def _answer(self) -> None:
                assert self.path == "/v1/chat/completions"
                length = int(self.headers["Content-Length"])
                script.requests.append(json.loads(self.rfile.read(length)))
                script.headers.append(dict(self.headers.items()))
                self.close_connection = True
                if script.refusal is not None:
                    status, body = script.refusal
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self._write(": a comment\n\n")
                for frame in script.frames:
                    self._write(f"data: {frame}\n\n")
                if script.hold:
                    self.rfile.read(1)  # ends when the client goes
                    script.hung_up.set()
                    return
                self.wfile.write(b"0\r\n\r\n")

            def _write(self, text: str) -> None:
                data = text.encode()
                for piece in (data[:3], data[3:]):  # events may be split anywhere
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
