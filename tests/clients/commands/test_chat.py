"""`lookhear chat`: what is asked, printed and returned."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from lookhear.commands import main as cli
from lookhear.commands import server_choice
from lookhear.commands.private_server import ServerFailed, free_port
from tests.clients.chat_server import ChatServer, answer
from tests.clients.talking_server import TalkingServer
from tests.clients.threads import on_thread


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with ChatServer(answer("A ", "circle.")).running() as server:
        yield server


@pytest.fixture
def talking() -> Iterator[TalkingServer]:
    server = TalkingServer()
    with on_thread(server.running()):
        yield server


@pytest.fixture
def picture(tmp_path: Path) -> str:
    path = tmp_path / "scene.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n, or so it begins")
    return str(path)


@pytest.fixture
def question(tmp_path: Path) -> str:
    """Half a second of sound."""
    path = tmp_path / "question.wav"
    soundfile.write(path, np.zeros(12_000), 24_000)
    return str(path)


class Typed(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_question_about_pictures(
    chat: ChatServer, picture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["chat", "--server", chat.url, "--image", picture, "--image", "https://a/b.png"]
    options = ["--system", "Be brief.", "--max-tokens", "5", "--temperature", "0", "--model", "m"]
    assert cli.main([*command, *options, "What is it?"]) == 0
    assert capsys.readouterr().out == "A circle.\n"
    (request,) = chat.requests
    system, user = request["messages"]
    assert system["content"] == "Be brief."
    kinds = [part["type"] for part in user["content"]]
    assert kinds == ["image_url", "image_url", "text"]
    assert (request["model"], request["max_completion_tokens"]) == ("m", 5)
    assert request["temperature"] == 0.0


def test_json_is_one_event_per_line(chat: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["chat", "--server", chat.url, "--json", "What is it?"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["AnswerDelta"] * 2 + ["AnswerCompleted"]
    assert events[-1]["text"] == "A circle." and events[-1]["usage"]["cached"] == 64


@pytest.mark.parametrize("spoken", [False, True], ids=["typed", "spoken"])
def test_json_is_not_wrapped_on_a_terminal(
    chat: ChatServer,
    talking: TalkingServer,
    question: str,
    spoken: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", terminal := Typed())
    url = talking.url if spoken else chat.url
    asked = ["--audio", question] if spoken else ["What is it?"]
    assert cli.main(["chat", "--server", url, "--json", *asked]) == 0
    events = [json.loads(line) for line in terminal.getvalue().splitlines()]
    assert events[-1]["event"] == "AnswerCompleted"


def test_an_answer_keeps_to_a_schema(
    chat: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "array"}')
    assert cli.main(["chat", "--server", chat.url, "--json-schema", str(file), "What?"]) == 0
    schema = {"name": "answer", "schema": {"type": "array"}}
    expected = {"type": "json_schema", "json_schema": schema}
    assert chat.requests[0]["response_format"] == expected
    assert capsys.readouterr().out == "A circle.\n"


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("spoken", [False, True], ids=["typed", "spoken"])
def test_an_answer_that_is_cut_off_is_no_success(
    chat: ChatServer,
    talking: TalkingServer,
    question: str,
    spoken: bool,
    form: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    chat.frames = answer("A ", "cir", finish="length")
    talking.status, talking.details = "incomplete", {"reason": "max_output_tokens"}
    url = talking.url if spoken else chat.url
    asked = ["--audio", question] if spoken else ["What is it?"]
    assert cli.main(["chat", "--server", url, *form, *asked]) == 1
    told = capsys.readouterr()
    assert "A cir" in told.out or "seen: " in told.out
    assert told.err == "lookhear: the answer is not whole: cut off at the limit of tokens\n"


def test_a_terminal_shows_once_that_an_answer_is_cut_off(
    chat: ChatServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chat.frames = answer("A ", "cir", finish="length")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", terminal := Typed())
    assert cli.main(["chat", "--server", chat.url, "What is it?"]) == 1
    assert "cut off at the limit of tokens" in " ".join(terminal.getvalue().split())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file: "),
        (b"{", "expected a JSON Schema, got what is no JSON"),
        (b"\xff", "expected a JSON Schema, got what is no JSON"),
        (b"[1]", "expected a JSON Schema, an object; got [1]"),
    ],
)
def test_schemas_that_cannot_be_read(
    content: bytes | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schema.json"
    if content is not None:
        file.write_bytes(content)
    assert cli.main(["chat", "--server", "http://127.0.0.1:1", "--json-schema", str(file)]) == 1
    assert words in capsys.readouterr().err


def test_the_question_comes_through_a_pipe(
    chat: ChatServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("What is it?\n"))
    assert cli.main(["chat", "--server", chat.url]) == 0
    assert chat.requests[0]["messages"] == [{"role": "user", "content": "What is it?"}]


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_what_is_piped_must_be_text(
    errors: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = io.TextIOWrapper(io.BytesIO(b"\x89PNG"), "utf-8", errors)
    monkeypatch.setattr("sys.stdin", piped)
    assert cli.main(["chat", "--server", "http://127.0.0.1:1"]) == 1
    problem = "stdin: expected a question as text, got bytes that are not utf-8"
    assert capsys.readouterr().err.startswith(f"lookhear: {problem}")


def test_a_conversation(
    chat: ChatServer,
    picture: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = iter(["What is it?", "/quit"])
    monkeypatch.setattr("sys.stdin", Typed())
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    assert cli.main(["chat", "--server", chat.url, "--image", picture]) == 0
    assert "A circle.\n" in capsys.readouterr().out
    assert chat.requests[0]["messages"][0]["content"][0]["type"] == "image_url"


def test_a_spoken_question_about_a_picture(
    talking: TalkingServer, picture: str, question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["chat", "--server", talking.url, "--image", picture, "--audio", question]
    assert cli.main([*command, "--system", "Be brief.", "--temperature", "0"]) == 0
    out = capsys.readouterr().out
    assert out == "12000 samples\nseen: data:image/png; 12000 samples \n"
    assert talking.paths == ["/v1/realtime"]  # one socket
    session = talking.events("session.update")[0]["session"]
    assert session["instructions"] == "Be brief." and session["lookhear"] == {"temperature": 0.0}
    assert cli.main([*command, "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[0] == {"event": "QuestionHeard", "text": "12000 samples"}
    assert events[-1]["finish_reason"] == "stop"


def test_a_spoken_question_without_words_is_said_to_be_one(
    talking: TalkingServer, question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    talking.silent, talking.status = True, "failed"
    error = {"type": "invalid_request_error", "code": "nothing_to_answer", "message": "got none"}
    talking.details = {"type": "failed", "error": error}
    assert cli.main(["chat", "--server", talking.url, "--audio", question]) == 1
    said = capsys.readouterr().err
    assert said == f"lookhear: {question}: expected a spoken question, got no words\n"


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--audio", "QUESTION.wav", "What?"], 2, "QUESTION or --audio, got both"),
        (["--audio", "QUESTION.wav", "--video", "https://a/b.mp4"], 2, "not with --video"),
        (["--audio", "https://a/b.wav"], 2, "--audio: expected a file"),
        (["--json"], 2, "--json needs a QUESTION"),
        ([" "], 2, "the question is empty"),
        (["--image", "/no/such.png", "What?"], 1, "no such file: /no/such.png"),
        (["--image", "/", "What?"], 1, "expected a file, got a folder: /"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    options: list[str],
    status: int,
    words: str,
    question: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", Typed())
    options = [question if option == "QUESTION.wav" else option for option in options]
    assert cli.main(["chat", "--server", "http://127.0.0.1:1", *options]) == status
    error = capsys.readouterr().err
    assert error.startswith("lookhear: ") and error.count("\n") == 1 and words in error


def test_refusals_are_one_line(
    chat: ChatServer,
    talking: TalkingServer,
    picture: str,
    question: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place, problem = "messages[0].content[1].image_url.url", "expected a picture, got text"
    error = {"message": f"{place}: {problem}", "param": place}
    chat.refusal = (400, json.dumps({"error": error}).encode())
    images = ["--image", "https://a/b.png", "--image", picture]
    assert cli.main(["chat", "--server", chat.url, *images, "What?"]) == 1
    assert capsys.readouterr().err == f"lookhear: {picture}: {problem}\n"
    place = "item.content[0].image_url"
    talking.refuse["conversation.item.create"] = {"message": f"{place}: {problem}", "param": place}
    command = ["chat", "--server", talking.url, "--image", picture, "--audio", question]
    assert cli.main(command) == 1
    assert capsys.readouterr().err == f"lookhear: {picture}: {problem}\n"
    command[2] = f"http://127.0.0.1:{free_port()}"
    assert cli.main(command) == 1
    assert "cannot reach" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "served"),
    [
        (["What?"], ["demo-qwen3-vl"]),
        (["--audio", "QUESTION.wav"], ["demo-qwen3-vl", "demo-qwen3-asr"]),
        (["--model", "a/b", "What?"], ["a/b"]),
    ],
)
def test_a_private_server_serves_what_is_needed(
    options: list[str],
    served: list[str],
    question: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def process(port: int, arguments: list[str], report: Callable[..., None]) -> None:
        asked.extend(arguments)
        raise ServerFailed("not in this test")

    monkeypatch.setattr(server_choice, "is_running", lambda address: False)
    monkeypatch.setattr(server_choice, "server_installed", lambda: True)
    monkeypatch.setattr(server_choice, "ServerProcess", process)
    options = [question if option == "QUESTION.wav" else option for option in options]
    assert cli.main(["chat", *options]) == 1
    models = [word for model in served for word in ("--model", model)]
    assert asked == ["--max-lag", "0", *models], "nobody else is there to be slowed down"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_disk_is_one_line(
    chat: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: list[str],
) -> None:
    chat.frames = answer(*["round "] * 20_000)  # it still speaks when the client hangs up
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["chat", "--server", chat.url, *form, "What is it?"]) == 1
    assert chat.hung_up.wait(60)
    assert capsys.readouterr().err == (
        "lookhear: cannot write the output: No space left on device\n"
    )
