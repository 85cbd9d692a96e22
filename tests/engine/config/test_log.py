"""Whatever is logged, by whomever: one record is one line that a program or a person can read, and
no key stands in it."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
import warnings
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.config.log import (
    JsonLines,
    TextLines,
    bind,
    hide,
    is_json,
    log_event,
    logging_to_stderr,
)

ALWAYS = ["time", "level", "logger", "message"]
KEY = "sk-a-key-of-ours"


def record(message: str, *, event: str | None = None, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("lookhear.x", logging.INFO, "x.py", 1, message, None, None)
    made.__dict__.update({"event": event} if event else {}, fields=fields)
    return made


@given(
    message=st.text(),
    event=st.none() | st.text(min_size=1),
    fields=st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.lists(st.text())),
)
def test_json_is_an_object_a_line(
    message: str, event: str | None, fields: dict[str, object]
) -> None:
    made = record(message, event=event)
    made.__dict__["fields"] = fields
    line = JsonLines((), {}).format(made)
    assert line.isascii() and len(line.splitlines()) == 1
    read = json.loads(line)
    assert [name for name in read if name in ALWAYS][: len(ALWAYS)] == ALWAYS
    assert (read["level"], read["logger"]) == ("info", "lookhear.x")
    assert datetime.fromisoformat(read["time"]).utcoffset() is not None
    assert fields.keys() <= read.keys()  # as the values are: those that hide no key


@given(message=st.text(), value=st.text())
def test_text_is_a_line_that_moves_no_cursor(message: str, value: str) -> None:
    line = TextLines((), {}).format(record(message, about=value))
    assert line.isprintable()


@pytest.mark.parametrize("kind", [JsonLines, TextLines])
@pytest.mark.parametrize(
    "text",
    [
        f"a header: Authorization: Bearer {KEY}",
        f"< sec-websocket-protocol: realtime, openai-insecure-api-key.{KEY}, other",
        f"GET /v1/realtime?api_key={KEY}&model=a",
        f"Authorization: Token {KEY}",
        f"X-Api-Key:{KEY}",
        f"{{'x-api-key': '{KEY}'}}",
        f"(b'x-api-key', b'{KEY}')",
        f"< Sec-WebSocket-Protocol: token, {KEY}",
        f"sec-websocket-protocol: realtime, bearer,{KEY}",
        f"the key {KEY}, bare",
        json.dumps({"authorization": f"Bearer {KEY}"}),
    ],
)
def test_keys_are_hidden(kind: type[JsonLines] | type[TextLines], text: str) -> None:
    for secrets in ((KEY,), ()):
        if not secrets and "bare" in text:
            continue  # a key that nobody knows for one
        line = kind(secrets, {}).format(record(text, told=text))
        assert "a-key-of" not in line and line.count("***") == 2


@pytest.mark.parametrize("kind", [JsonLines, TextLines])
@pytest.mark.parametrize(
    "key", ['wxyz"qrst\\uvkl&mnop,9876', "wxyz'qrst\"mnop)9876", "wxyz;mnop9876"]
)
def test_keys_with_punctuation_are_hidden_whole(
    kind: type[JsonLines] | type[TextLines], key: str
) -> None:
    for text in (
        f"Authorization: Bearer {key}",
        f"< sec-websocket-protocol: realtime, openai-insecure-api-key.{key}, other",
        f"GET /v1/realtime?api_key={key}&model=a",
        json.dumps({"authorization": f"Bearer {key}"}),
        str((b"x-api-key", key.encode())),
        str({"x-api-key": key}),
    ):
        line = kind((key,), {}).format(record(text, told=text))
        assert line.count("***") == 2
        assert not any(part in line for part in ("wxyz", "qrst", "mnop", "9876"))


@pytest.mark.parametrize("kind", [JsonLines, TextLines])
@pytest.mark.parametrize(
    "text",
    [
        "a token, which is a word of the model, and tokens, too",
        "the token limit; token limits; 12 tokens left",
        "expected a token: got none",
        "expected Authorization, X-Api-Key or a subprotocol",
        "authorization: none",
    ],
)
def test_ordinary_words_are_shown(kind: type[JsonLines] | type[TextLines], text: str) -> None:
    assert "***" not in kind((KEY,), {}).format(record(text, told=text))


@pytest.mark.parametrize("kind", ["json", "text"])
def test_keys_that_come_later_are_hidden_beside_the_others(
    kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    log = logging.getLogger("lookhear.a")
    with logging_to_stderr("info", kind, secrets=("the-first-key",)):
        hide(["a-later-key", "word"])
        log.info("the-first-key, a-later-key, word")
    assert "***, ***, word" in capfd.readouterr().err


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capfd.readouterr().err.splitlines()]


def test_levels_of_ours_and_of_others(capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs, served = map(logging.getLogger, ("lookhear.a", "some.library", "uvicorn.error"))
    for level, expected in {
        "debug": ["od", "oi", "ow", "ti", "tw", "sd", "sw"],
        "info": ["oi", "ow", "tw", "sw"],
        "warning": ["ow", "tw", "sw"],
        "error": [],
    }.items():
        with logging_to_stderr(level, "json", engine="m"):
            for name, logger in {"o": ours, "t": theirs, "s": served}.items():
                logger.debug("%sd", name)
                if name != "s":
                    logger.info("%si", name)
                logger.warning("%sw", name)
        told = lines(capfd)
        assert [line["message"] for line in told] == expected
        assert all(line["engine"] == "m" for line in told)
    ours.warning("afterwards it is as before")
    assert not lines(capfd)


async def test_ids_are_a_tasks_and_its_childrens(capfd: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("lookhear.a")

    async def child(name: str) -> None:
        await asyncio.sleep(0)
        log_event(log, "child", of=name)

    async def session(name: str) -> None:
        bind(session=name)
        await asyncio.gather(child(name), child(name))

    with logging_to_stderr("info", "json"):
        await asyncio.gather(session("a"), session("b"), asyncio.create_task(child("nobody")))
    told = lines(capfd)
    assert sorted((line["of"], line.get("session")) for line in told) == [
        ("a", "a"), ("a", "a"), ("b", "b"), ("b", "b"), ("nobody", None),
    ]  # fmt: skip


@pytest.mark.parametrize("format", ["json", "text"])
def test_exceptions_of_all_kinds_are_told(format: str, capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ZeroDivisionError("in a thread")

    with logging_to_stderr("info", format):
        thread = threading.Thread(target=fail, name="t")
        thread.start()
        thread.join()
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(True)  # pytest keeps warnings to itself
            warnings.warn("mind this", stacklevel=1)
            logging.captureWarnings(False)
    err = capfd.readouterr().err
    assert "in a thread" in err and "mind this" in err
    if format == "json":
        ended, warned = map(json.loads, err.splitlines())
        assert ended["level"] == "error" and "ZeroDivisionError" in ended["exception"]
        assert warned["logger"] == "py.warnings" and "\n" not in warned["message"]
    else:
        first, *trace, last = err.splitlines()
        assert " ERROR " in first and " WARNING " in last
        assert trace and all(line.startswith("    ") for line in trace)


class Terminal:
    """A stream that is one, or is none."""

    def __init__(self, is_one: bool) -> None:
        self.isatty = lambda: is_one


def test_auto_is_text_for_people() -> None:
    for format, on_terminal, elsewhere in (
        ("auto", False, True), ("json", True, True), ("text", False, False),
    ):  # fmt: skip
        for stream, expected in ((Terminal(True), on_terminal), (Terminal(False), elsewhere)):
            assert is_json(format, stream) is expected  # type: ignore[arg-type]


def test_it_needs_the_standard_library_alone() -> None:
    """A bare GPU box has nothing else, and the client must stay light."""
    code = (
        "import sys\n"
        "names = lambda: {name.partition('.')[0] for name in sys.modules}\n"
        "before = names()\n"
        "import lookhear.engine.config.log\n"
        "print(sorted(names() - before - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "['lookhear']\n", done.stdout + done.stderr
