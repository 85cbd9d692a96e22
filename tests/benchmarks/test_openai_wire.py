"""The OpenAI wire against servers that are not ours, and against what is no such server."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve

from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.wires import openai
from lookhear.bench.wires.job import Job, SessionPlan, Turns
from lookhear.bench.wires.recording import ANSWER_SECONDS, explain, patience
from tests.clients.counting_server import CountingServer

ITEM = {"item_id": "item_1"}
Handler = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    async with serve(handler, "127.0.0.1", 0, subprotocols=["realtime"]) as server:  # type: ignore[list-item]
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/v1/realtime"


async def stream(url: str, **options: Any) -> Trace:
    pcm = np.full(RATE // 10, 1000, "<i2")
    plan = SessionPlan("s", 0, len(pcm), silence_seconds=0.1, language="en")
    return await openai.run_session(Job(url, "", pace=50.0, **options), plan, pcm)


def strict(updates: list[dict[str, Any]], refusals: int) -> Handler:
    """A server that knows nothing of ours, and refuses so many updates whatever they say."""

    async def handler(connection: ServerConnection) -> None:
        async def say(kind: str, **fields: Any) -> None:
            await connection.send(json.dumps({"type": kind, **fields}))

        await say("session.created", session={})
        async for frame in connection:
            message = json.loads(frame)
            match message["type"]:
                case "session.update":
                    updates.append(message["session"])
                    if "lookhear" in message["session"] or len(updates) <= refusals:
                        await say("error", error={"message": "Unknown parameter."})
                    else:
                        await say("session.updated", session=message["session"])
                case "input_audio_buffer.commit":
                    await say("input_audio_buffer.committed", **ITEM)
                case "input_audio_buffer.clear":
                    await say("input_audio_buffer.cleared")
                    kind = "conversation.item.input_audio_transcription."
                    await say(kind + "delta", **ITEM, delta="Hello")
                    await say(kind + "completed", **ITEM, transcript="Hello")

    return handler


async def test_a_server_without_our_extension_is_asked_without_it() -> None:
    updates: list[dict[str, Any]] = []
    async with served(strict(updates, refusals=0)) as url:
        trace = await stream(url, model="whisper-1")
    assert trace.problem is None and metrics.invariant_violations(trace) == []
    assert metrics.hypothesis(trace) == "Hello"
    first, second = updates
    assert first.pop("lookhear") == {"provisional": True} and first == second
    assert second["type"] == "transcription"
    transcription = second["audio"]["input"]["transcription"]
    assert transcription == {"model": "whisper-1", "language": "en"}


async def test_times_of_words_are_asked_for_first() -> None:
    updates: list[dict[str, Any]] = []
    async with served(strict(updates, refusals=0)) as url:
        await stream(url, words=True)
    asked = [update.get("lookhear") for update in updates]
    assert asked == [{"provisional": True, "words": True}, {"provisional": True}, None]


@pytest.mark.parametrize(
    ("turns", "detection"),
    [("silence", {"type": "server_vad"}), ("sound", {"type": "semantic_vad"}), ("hand", None)],
)
async def test_turns_end_as_the_job_wants_it(
    turns: Turns, detection: dict[str, Any] | None
) -> None:
    updates: list[dict[str, Any]] = []
    async with served(strict(updates, refusals=0)) as url:
        await stream(url, turns=turns, provisional=False)
    [update] = updates
    assert update["audio"]["input"]["turn_detection"] == detection


async def test_a_refused_session_says_why() -> None:
    updates: list[dict[str, Any]] = []
    async with served(strict(updates, refusals=9)) as url:
        trace = await stream(url)
    assert trace.problem == "the server refused the session: Unknown parameter."
    assert len(updates) == 2 and metrics.dropped(trace)


async def test_the_key_goes_with_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    async with CountingServer(api_key="right").running() as server:
        url = server.url.replace("http", "ws") + "/v1/realtime"
        monkeypatch.setenv("LOOKHEAR_API_KEY", "wrong")
        assert (await stream(url)).problem == "wrong or missing API key (HTTP 401)"
        monkeypatch.setenv("LOOKHEAR_API_KEY", "right")
        assert (await stream(url)).problem is None


async def test_a_server_of_another_kind() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async def mail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async def chatter(connection: ServerConnection) -> None:
        await connection.send("hello?")
        await connection.wait_closed()

    reasons = {web: "no such address, or none of a WebSocket (HTTP 404)", mail: "not a WebS"}
    for handler, reason in reasons.items():
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            trace = await stream(f"ws://{host}:{port}/")
        assert trace.problem is not None and trace.problem.startswith(reason)
    async with served(chatter) as url:
        trace = await stream(url)
    assert trace.problem is not None and trace.problem.startswith("not this protocol")


async def test_nobody_there() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]  # bound, but nobody listens
        trace = await stream(f"ws://localhost:{port}/")
    assert trace.problem == "nobody listens there (connection refused)"


def test_every_problem_is_one_line() -> None:
    problems = [TimeoutError(), OSError(113, "No route to host"), OSError("odd"), KeyError("type")]
    for problem in problems:
        assert explain(problem) and "\n" not in explain(problem)
    assert "No route to host" in explain(problems[1])


async def test_what_was_sent_at_once_is_waited_for_as_long_as_it_lasts() -> None:
    audio, now = np.zeros(30 * RATE, "<i2"), time.monotonic()
    loop = asyncio.get_running_loop()
    async with patience(now, audio) as burst, patience(now - 30, audio) as paced:
        [longer, usual] = [round((limit.when() or 0) - loop.time()) for limit in (burst, paced)]
    assert usual == ANSWER_SECONDS and longer == usual + 30
