"""The conversation on a terminal: what is kept, taken back, stopped and forgotten."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lookhear import Client
from lookhear.commands.chat_loop import ChatLoop, _files
from tests.clients.chat_server import ChatServer, answer, chunk


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answer("A ", "circle.")).running() as server:
        yield server


@pytest.fixture
def picture(tmp_path: Path) -> str:
    path = tmp_path / "a scene.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n, or so it begins")
    return str(path)


Step = str | Callable[[], None]


def converse(server: ChatServer, *steps: Step, out: io.StringIO | None = None) -> str:
    """Type the lines; do what is to be done between them. What is printed."""
    left = list(steps)

    def read(prompt: str) -> str:
        while left:
            step = left.pop(0)
            if isinstance(step, str):
                return step
            step()
        raise EOFError

    out = io.StringIO() if out is None else out
    with Client(server.url) as client:
        ChatLoop(client, Console(file=out, width=200), {"model": "m"}, "Be brief.", read).run()
    return out.getvalue()


def roles(request: dict[str, Any]) -> list[str]:
    return [message["role"] for message in request["messages"]]


def test_everything_said_before_goes_with_the_next_question(
    server: ChatServer, picture: str
) -> None:
    converse(server, f"/image '{picture}'", "What is it?", "And where?", "/clear", "", "Hello?")
    first, second, third = server.requests
    assert roles(first) == ["system", "user"]
    assert [part["type"] for part in first["messages"][1]["content"]] == ["image_url", "text"]
    assert roles(second) == ["system", "user", "assistant", "user"]
    assert second["messages"][:2] == first["messages"]
    assert second["messages"][2:] == [
        {"role": "assistant", "content": "A circle."},
        {"role": "user", "content": "And where?"},
    ]
    assert third["messages"][1:] == [{"role": "user", "content": "Hello?"}]
    assert third["model"] == "m"


def test_what_cannot_be_done_is_said_and_the_conversation_goes_on(server: ChatServer) -> None:
    said = converse(server, "/image", "/image /no/such.png", "/dance", "/help", "/usr/bin is what?")
    assert "/image: expected a FILE" in said and "no such file: /no/such.png" in said
    assert "/dance: no such command" in said and "/video FILE" in said
    assert len(server.requests) == 1  # a line that only begins like a command is a question


def test_a_refused_picture_is_taken_back(server: ChatServer, picture: str) -> None:
    def refuse() -> None:
        server.refusal = (400, json.dumps({"error": {"message": "not a picture"}}).encode())

    def relent() -> None:
        server.refusal = None

    said = converse(server, refuse, f'/image "{picture}"', "What?", relent, "And now?")
    assert "not a picture" in said and "the pictures are taken back" in said
    assert server.requests[1]["messages"][1:] == [{"role": "user", "content": "And now?"}]


def test_a_picture_waits_for_a_server_that_comes_back(server: ChatServer, picture: str) -> None:
    def fail() -> None:
        server.refusal = (503, json.dumps({"error": {"message": "not ready"}}).encode())

    def recover() -> None:
        server.refusal = None

    said = converse(server, fail, f'/image "{picture}"', "What?", recover, "What?")
    assert "not ready" in said
    assert server.requests[0]["messages"] == server.requests[1]["messages"]


def test_too_long_a_conversation_says_what_to_do(server: ChatServer) -> None:
    error = {"message": "too long", "code": "context_length_exceeded"}
    server.refusal = (400, json.dumps({"error": error}).encode())
    assert "/clear begins anew" in converse(server, "What?")


class Interrupting(io.StringIO):
    """Ctrl-C as soon as a text is seen, once."""

    pressed = False

    def write(self, text: str) -> int:
        if "Once" in text and not self.pressed:
            self.pressed = True
            interrupt = (threading.main_thread().ident, signal.SIGINT)
            threading.Thread(target=signal.pthread_kill, args=interrupt).start()
        return super().write(text)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises, also where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_the_answer_and_keeps_what_was_said(server: ChatServer) -> None:
    server.hold, server.frames = True, [chunk(content="Once upon")]

    def end() -> None:
        assert server.hung_up.wait(60)
        server.hold, server.frames = False, answer("The end.")

    said = converse(server, "A story?", end, "Go on.", out=Interrupting())
    assert "stopped" in said and "The end." in said
    assert server.requests[1]["messages"][2] == {"role": "assistant", "content": "Once upon"}


def test_ctrl_c_at_the_prompt_ends(server: ChatServer) -> None:
    def press() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        converse(server, press)


@pytest.mark.parametrize(
    ("system", "rest", "files"),
    [
        ("posix", r"my\ cat.png 'a b.png'", ["my cat.png", "a b.png"]),
        ("posix", "it's.png", ["it's.png"]),
        ("posix", "a#1.png", ["a#1.png"]),
        ("nt", r"C:\me\cat.png 'C:\my cats\b.png'", [r"C:\me\cat.png", r"C:\my cats\b.png"]),
    ],
    ids=["quoted", "half quoted", "sign", "windows"],
)
def test_names_of_files_are_those_of_a_shell(
    system: str, rest: str, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "name", system)
        found = _files(rest)
    assert found == files
