"""The log of a real server, gateway and engines: every line of one form, nothing that was said in
it, and clients that leave are no news."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.errors import ServerError
from tests.end_to_end.conftest import SERVE, Talk
from tests.gateway.leaving import leave, ways

MODELS = ("demo-whisper", "demo-qwen3-vl")
MARK = "Xylophon"


@pytest.fixture(scope="module")
def talkative() -> Iterator[ServerProcess]:
    arguments = [*SERVE, *MODELS, "--log-format", "json"]
    with ServerProcess(arguments=arguments, start_seconds=120.0) as process:
        yield process


def lines(server: ServerProcess) -> list[dict[str, Any]]:
    """What is no JSON is the greeting, on stdout."""
    return [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]


async def test_words_are_in_no_line(talkative: ServerProcess, talks: dict[str, Talk]) -> None:
    client = AsyncClient(talkative.address.base_url)
    talk = talks["en"]
    text = await client.transcribe_text(talk.first, rate=24_000, prompt=MARK, model=MODELS[0])
    longest = max(text.split(), key=len)
    asked = client.chat(f"How many circles are there, {MARK}?", model=MODELS[1])
    answer = "".join([piece async for piece in asked])
    with suppress(ServerError):
        schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": MARK}}}
        async for _ in client.chat(MARK, model=MODELS[1], extra={"response_format": schema}):
            pass
    assert len(longest) > 3 and answer
    told = lines(talkative)
    assert {line.get("engine") for line in told} == {None, *MODELS}
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in told)
    shown = json.dumps(told)
    assert MARK not in shown and longest not in shown
    events = [line.get("event") for line in told]
    assert {"server.ready", "http.request", "session.end"} <= set(events)


def test_clients_that_leave_are_no_complaint(talkative: ServerProcess) -> None:
    """On the event loop that is really used."""
    before = len(lines(talkative))
    for way in ways(*MODELS):
        leave(talkative.port, way)
    # The server waits for what is under way; a session whose end it has not seen is told to go.
    talkative.stop()
    since = lines(talkative)[before:]
    assert not [line for line in since if line["level"] not in ("debug", "info")]
    assert "Traceback" not in talkative.log
    assert [line for line in since if line.get("event") == "server.end"]
