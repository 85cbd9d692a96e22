"""Where the server is, what it answers over HTTP, and the form in which files are sent."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from errno import ECONNREFUSED
from http.client import BadStatusLine, RemoteDisconnected
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import gaierror
from typing import Any
from urllib.error import URLError

import pytest
from starlette.requests import Request

from lookhear.blocking import Client
from lookhear.client import AsyncClient
from lookhear.commands.private_server import is_running
from lookhear.errors import (
    AddressError,
    AuthenticationError,
    ConnectionFailed,
    InvalidRequest,
    LookhearError,
    ModelNotFound,
    ProtocolError,
    ServerError,
    in_words,
)
from lookhear.results import Model, TimedText, Transcript
from lookhear.transport.address import Server, multipart


@pytest.mark.parametrize(
    ("base", "websocket", "models"),
    [
        ("http://h:1", "ws://h:1/v1/realtime?a=b", "http://h:1/v1/models"),
        ("http://h:1/", "ws://h:1/v1/realtime?a=b", "http://h:1/v1/models"),
        ("https://h/v1", "wss://h/v1/realtime?a=b", "https://h/v1/models"),
        ("ws://h/x/v1/", "ws://h/x/v1/realtime?a=b", "http://h/x/v1/models"),
        ("wss://[::1]:9", "wss://[::1]:9/v1/realtime?a=b", "https://[::1]:9/v1/models"),
    ],
)
def test_urls(base: str, websocket: str, models: str) -> None:
    server = Server(base)
    assert server.websocket_url("/realtime", {"a": "b"}) == websocket
    assert server.http_url("/v1/models") == models


@pytest.mark.parametrize(
    "base",
    [
        "nonsense", "ftp://h", "http://", "http://h:99999", "//h", "", "http://[::1", "http://a..b",
        "http://h/a b", "http://h/\u00fc",
    ],
)  # fmt: skip
def test_what_is_no_address(base: str) -> None:
    with pytest.raises(AddressError, match=r"expected http\(s\)://HOST"):
        Server(base)


@pytest.mark.parametrize("key", ["schl\u00fcssel", "two\nlines", "two words"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(AuthenticationError, match="expected printable ASCII") as caught:
        AsyncClient(api_key=key)
    assert key not in str(caught.value)


def test_the_key_is_not_shown() -> None:
    server = Server(api_key="secret")
    assert server.headers() == {"Authorization": "Bearer secret"}
    assert "secret" not in repr(server)


async def test_the_form_is_what_servers_read() -> None:
    body, content_type = multipart(
        [("model", "a/b"), ("x[]", "\u00fc\udcff")], 'we"ird\r\n\udcff.wav', b"\r\n-\0"
    )

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", content_type.encode())]
    scope = {"type": "http", "method": "POST", "headers": headers, "path": "/"}
    async with Request(scope, receive).form() as form:
        assert form["model"] == "a/b" and form["x[]"] == "\u00fc?"
        file = form["file"]
        assert not isinstance(file, str)
        assert await file.read() == b"\r\n-\0"


class _Answers(BaseHTTPRequestHandler):
    """Says what the test put into the server's `answers`, by path, or what that makes of what was
    sent; keeps what it was sent."""

    def do_GET(self) -> None:
        answer = self.server.answers[self.path]  # type: ignore[attr-defined]
        status, body = answer(self.server.sent[-1]) if callable(answer) else answer  # type: ignore[attr-defined]
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", data.decode())
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.sent.append(sent)  # type: ignore[attr-defined]
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def http() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.answers, server.sent = {}, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (401, {"code": "invalid_api_key"}, AuthenticationError),
        (404, {"code": "model_not_found"}, ModelNotFound),
        (400, {"param": "language"}, InvalidRequest),
        (503, {"code": "engine_not_ready"}, ServerError),
    ],
)
def test_refusals_are_typed_and_quoted(
    http: Any, status: int, error: dict[str, str], kind: type[ServerError]
) -> None:
    http.answers["/v1/models"] = (status, {"error": {"message": "this, not that", **error}})
    with pytest.raises(kind, match="this, not that") as caught:
        Server(http.url).get_json("/v1/models")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.param) == (error.get("code"), error.get("param"))


def test_a_refusal_of_a_stranger_is_shown_as_it_is(http: Any) -> None:
    http.answers["/v1/models"] = (502, b"<h1>Bad gateway</h1>")
    with pytest.raises(ServerError, match="HTTP 502: <h1>Bad gateway</h1>"):
        Server(http.url).get_json("/v1/models")


def test_what_is_no_answer_of_ours(http: Any) -> None:
    http.answers["/v1/models"] = (200, b"<h1>It works!</h1>")
    with pytest.raises(ProtocolError, match="/v1/models: expected JSON, got '<h1>It works!"):
        Server(http.url).get_json("/v1/models")
    assert not is_running(Server(http.url))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_who_sends_elsewhere_is_not_followed(http: Any, status: int) -> None:
    """Nobody else is told the key, and no upload becomes a question without one."""
    for path in ("/v1/models", "/v1/audio/transcriptions", "/v1/chat/completions"):
        http.answers[path] = (status, f"{http.url}/elsewhere".encode())
    http.answers["/elsewhere"] = (200, LISTING)
    client = AsyncClient(http.url, "secret")
    with pytest.raises(ProtocolError, match=f"got a redirect to {http.url}/elsewhere; is that"):
        await client.models()
    with pytest.raises(ProtocolError, match="got a redirect to"):
        await client.transcribe_file(b"x", model="m")
    with pytest.raises(ProtocolError, match="got a redirect to"):
        async for _ in client.chat("Well?", model="m"):
            pass


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"SSH-2.0-nobody\r\n", ": expected HTTP, got 'SSH-2.0-nobody'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", ""),
        (b"HTTP/1.1 503 Away\r\nContent-Length: 9\r\n\r\n{", ""),
    ],
)
def test_what_does_not_speak_http_to_the_end(said: bytes, problem: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer_with, args=(listening, said), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ConnectionFailed, match=re.escape(f"cannot reach {url}{problem}")):
            Server(url).get_json("/v1/models")
        thread.join()


def answer_with(listening: socket.socket, said: bytes) -> None:
    """As a server of another kind does, or one that is killed meanwhile."""
    connection, _ = listening.accept()
    with connection:
        while not connection.recv(4096).endswith(b"\r\n\r\n"):
            pass
        connection.sendall(said)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ConnectionRefusedError(ECONNREFUSED, "Connect call failed ('::1', 9)"),
            "Connection refused",
        ),
        (
            URLError(ConnectionRefusedError(ECONNREFUSED, "Connection refused")),
            "Connection refused",
        ),
        (URLError(gaierror(-2, "Name or service not known")), "Name or service not known"),
        (RemoteDisconnected("the end was closed"), "the end was closed"),
        (TimeoutError("the server has stopped answering"), "the server has stopped answering"),
        (TimeoutError(), "TimeoutError"),
        (BadStatusLine("SSH-2.0\r\n"), "expected HTTP, got 'SSH-2.0'"),
    ],
)
def test_reasons_in_words(error: Exception, words: str) -> None:
    assert in_words(error) == words


def test_nobody_there() -> None:
    with pytest.raises(
        ConnectionFailed, match="cannot reach http://127.0.0.1:9: Connection refused$"
    ):
        Server("http://127.0.0.1:9").get_json("/v1/models")


LISTING = {"data": [{"id": "a/b", "object": "model", "created": 7, "owned_by": "x"}]}


async def test_a_file_is_transcribed_with_times(http: Any) -> None:
    http.answers["/v1/models"] = (200, LISTING)
    http.answers["/v1/audio/transcriptions"] = (
        200,
        {
            "text": "So it is.",
            "language": "english",
            "duration": 1.5,
            "segments": [
                {"text": " So it is.", "start": 0, "end": 1.5, "language": "english"},
                {"text": " Así es.", "start": 2, "end": 2.5},
            ],
            "words": [{"word": "So", "start": 0.0, "end": 0.25}],
        },
    )
    client = AsyncClient(http.url)
    assert await client.models() == [Model("a/b", "x", 7)]
    transcript = await client.transcribe_file(b"bytes of a file", language="en", prompt="so far")
    assert transcript == Transcript(
        "So it is.",
        "english",
        1.5,
        (TimedText(" So it is.", 0.0, 1.5, "english"), TimedText(" Así es.", 2.0, 2.5)),
        (TimedText("So", 0.0, 0.25),),
    )
    (sent,) = http.sent
    for part in (b"a/b", b"verbose_json", b"so far", b'name="language"', b"bytes of a file"):
        assert part in sent
    with Client(http.url) as blocking:
        assert await asyncio.to_thread(blocking.transcribe_file, b"x") == transcript


async def test_a_model_without_word_times_gives_the_rest(http: Any) -> None:
    def answer(sent: bytes) -> tuple[int, dict[str, Any]]:
        if b"\r\n\r\nword\r\n" in sent:
            return 400, {"error": {"message": "words: m has none", "code": "invalid_words"}}
        return 200, {"text": "So.", "duration": 1.5, "segments": []}

    http.answers["/v1/audio/transcriptions"] = answer
    transcript = await AsyncClient(http.url).transcribe_file(b"x", model="m")
    assert (transcript.text, transcript.words) == ("So.", ()) and len(http.sent) == 2


async def test_a_model_without_a_name_is_the_servers_to_refuse(http: Any) -> None:
    error = {"message": "no model ''", "type": "invalid_request_error", "code": "model_not_found"}
    http.answers["/v1/audio/transcriptions"] = (404, {"error": error})
    with pytest.raises(ModelNotFound, match="no model ''"):
        await AsyncClient(http.url).transcribe_file(b"x", model="")


@pytest.mark.parametrize("body", [{"data": []}, {"data": [{}]}, {}, []])
async def test_a_malformed_list_of_models(http: Any, body: Any) -> None:
    http.answers["/v1/models"] = (200, body)
    with pytest.raises(ProtocolError):
        await AsyncClient(http.url).models()


async def test_a_missing_file_is_named() -> None:
    with pytest.raises(LookhearError, match="cannot read /nowhere/x.wav: No such file"):
        await AsyncClient().transcribe_file("/nowhere/x.wav")
