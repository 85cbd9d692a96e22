"""vLLM's realtime wire by raw clients that know its documentation alone."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import QueryParams
from websockets.asyncio.client import ClientConnection, connect

from lookhear.engine.messages import EndTurn, ModelCard, StartTurn
from lookhear.gateway.checks.checks import MAX_PROMPT, ProtocolError
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.realtime.protocol import events
from lookhear.gateway.realtime.protocol.conversation import Item
from lookhear.gateway.realtime.protocol.refusals import empty_commit
from lookhear.gateway.realtime.vllm.dialect import LOGPROBS, VllmDialect
from lookhear.gateway.telemetry.ids import Ids
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.running import PATIENCE, Running, running, tone

RATE = 16_000
MODEL = "fake/whisper"
START, FINAL = (
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.commit", "final": True},
)


@pytest.fixture
async def gateway() -> AsyncIterator[Running]:
    async with running() as gateway:
        yield gateway


class Client:
    """One connection. seen: all that came."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.seen: list[dict[str, Any]] = []

    async def send(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            await self.socket.send(json.dumps(message))

    async def say(self, seconds: float, size: int = 4096) -> None:
        audio = tone(seconds, RATE)
        for first in range(0, len(audio), size):
            await self.send(append(audio[first : first + size]))

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            event: dict[str, Any] = json.loads(await self.socket.recv())
        self.seen.append(event)
        return event

    async def until(self, *types: str) -> dict[str, Any]:
        while True:
            event = await self.next()
            if event["type"] in types:
                return event

    async def utterance(self, seconds: float) -> str:
        """Its text; the deltas make it up."""
        self.seen.clear()
        await self.send(START)
        await self.say(seconds)
        await self.send(FINAL)
        done = await self.until("transcription.done")
        deltas = [e["delta"] for e in self.seen if e["type"] == "transcription.delta"]
        assert "".join(deltas) == done["text"]
        assert {"type", "text", "usage"} == set(done)
        return str(done["text"])


def append(audio: bytes) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(audio).decode()}


async def opened(gateway: Running, model: str | None = MODEL) -> Client:
    url = f"ws://127.0.0.1:{gateway.port}/v1/realtime"
    client = Client(await connect(url, proxy=None, open_timeout=PATIENCE, ping_interval=None))
    created = await client.next()
    assert created["type"] == "session.created"
    assert isinstance(created["id"], str) and isinstance(created["created"], int)
    if model is not None:
        await client.send({"type": "session.update", "model": model})
        assert (await client.next())["type"] == "session.updated"
    return client


async def test_utterances_on_one_socket(gateway: Running) -> None:
    client = await opened(gateway)
    for seconds in (0.1, 0.5, 1.0):
        assert await client.utterance(seconds) == transcript(round(seconds * RATE))
    assert {e["logprobs"] for e in client.seen if e["type"] == "transcription.delta"} == {None}
    await client.socket.close()
    await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_all_of_it_may_come_at_once(gateway: Running) -> None:
    client = await opened(gateway, None)
    await client.send({"type": "session.update", "model": MODEL}, START)
    await client.say(0.5)
    await client.send(FINAL, START)
    await client.say(0.25)
    await client.send(FINAL)
    texts = [(await client.until("transcription.done"))["text"] for _ in range(2)]
    assert texts == [transcript(8000), transcript(4000)]
    assert "error" not in [event["type"] for event in client.seen]


async def test_audio_in_front_of_the_first_commit_is_kept(gateway: Running) -> None:
    client = await opened(gateway)
    await client.say(0.5)
    await client.send(START, FINAL)
    assert (await client.until("transcription.done"))["text"] == transcript(8000)


async def test_nothing_said_is_nothing_transcribed(gateway: Running) -> None:
    client = await opened(gateway)
    await client.send(START, FINAL)
    assert await client.next() == {"type": "transcription.done", "text": "", "usage": None}
    assert await client.utterance(0.5) == transcript(8000)


async def test_nothing_said_is_told_in_its_turn(gateway: Running) -> None:
    client = await opened(gateway)
    engine = gateway.engine
    engine.hold = True  # what was said first is not transcribed yet
    for seconds in (0.5, 0.0, 0.0, 0.25, 0.0):
        await client.send(START)
        await client.say(seconds)
        await client.send(FINAL)
    await engine.wait_for(lambda: sum(isinstance(m, EndTurn) for m in engine.messages) == 2)
    engine.release()
    texts = [(await client.until("transcription.done"))["text"] for _ in range(5)]
    assert texts == [transcript(8000), "", "", transcript(4000), ""]


def test_utterances_are_told_in_their_order_whichever_model_is_done_first() -> None:
    dialect = VllmDialect(QueryParams(), Ids())

    def told(event: events.SessionEvent) -> list[Any]:
        return [frame.get("delta", frame.get("text")) for frame in dialect.render(event)]

    def committed(item: str) -> events.SessionEvent:
        return events.TurnCommitted(Item(item), None, 0.0, 1.0)

    def done(item: str, text: str) -> events.SessionEvent:
        return events.TranscriptDone(item, 0, text, 1.0, None, None)

    assert told(events.TranscriptDelta("one", 0, "long", None)) == ["long"]
    assert told(committed("one")) == []
    assert told(events.TranscriptDelta("two", 0, "short", None)) == []
    assert told(committed("two")) == []
    assert told(done("two", "short")) == []
    assert told(events.Refused(empty_commit())) == []
    assert told(events.TranscriptDelta("three", 0, "and", None)) == []
    assert told(events.TranscriptDelta("one", 0, "er", None)) == ["er"]
    assert told(done("one", "longer")) == ["longer", "short", "short", "", "and"]
    assert told(events.TranscriptDelta("three", 0, " so on", None)) == [" so on"]


async def test_log_probabilities(gateway: Running) -> None:
    client = await opened(gateway)
    update = {"type": "session.update", "model": MODEL}
    # Left out it stays as it was.
    for more, expected in (({"include": [LOGPROBS]}, True), ({}, True), ({"include": []}, False)):
        await client.send({**update, **more})
        await client.until("session.updated")
        await client.utterance(0.5)
        deltas = [event for event in client.seen if event["type"] == "transcription.delta"]
        assert deltas
        for delta in deltas:
            assert (delta["logprobs"] is not None) == expected
            for token in delta["logprobs"] or ():
                assert token["logprob"] <= 0
                assert bytes(token["bytes"]).decode() == token["token"]


async def test_language_and_prompt(gateway: Running) -> None:
    client = await opened(gateway)
    update = {"type": "session.update", "model": MODEL}
    # Left out or empty they stay as they were.
    for more, language, prompt in (
        ({"language": "de-DE", "prompt": "ships"}, "de", "ships"),
        ({}, "de", "ships"),
        ({"language": "", "prompt": None}, "de", "ships"),
        ({"language": "en"}, "en", "ships"),
    ):
        await client.send({**update, **more})
        await client.until("session.updated")
        await client.utterance(0.5)
        starts = [m for m in gateway.engine.messages if isinstance(m, StartTurn)]
        assert (starts[-1].settings.language, starts[-1].settings.prompt) == (language, prompt)


def test_a_language_that_a_model_does_not_hear() -> None:
    def update(**more: str) -> str:
        return json.dumps({"type": "session.update", **more})

    heard_by = {"one": ["de", "en"], "two": ["en"]}
    cards = [ModelCard(name, "whisper", heard, 0, 0) for name, heard in heard_by.items()]
    dialect = VllmDialect(QueryParams(), Ids())
    dialect.first_settings(cards)
    for refused in (update(model="one", language="xx"), update(model="two", language="de")):
        with pytest.raises(ProtocolError, match="language: expected one of .*en; got") as caught:
            dialect.parse(refused)
        assert caught.value.code == "invalid_event"
        with pytest.raises(ProtocolError, match="Model not validated"):
            dialect.parse(json.dumps(FINAL))
    dialect.parse(update(model="one", language="de"))
    with pytest.raises(ProtocolError, match="language: expected one of en; got"):
        dialect.parse(update(model="two"))
    assert dialect.parse(json.dumps(FINAL))


async def test_what_they_know_of_errors() -> None:
    async with running(GatewayConfig(port=0, strict_models=True)) as gateway:
        client = await opened(gateway, None)
        commits = {"type": "input_audio_buffer.commit", "final": True}
        wrong: list[tuple[Any, str, str]] = [
            (commits, "model_not_validated", "session.update"),
            ({"type": "session.update", "model": "none/such"}, "model_not_found", "`none/such`"),
            ({"type": "session.update"}, "invalid_event", "Missing required field: model"),
            (
                {"type": "session.update", "model": MODEL, "include": ["x"]},
                "invalid_event",
                "include",
            ),
            (append(b""), "invalid_audio", "Invalid audio data"),
            (append(b"abc"), "invalid_audio", "Invalid audio data"),
            ({"type": "input_audio_buffer.append", "audio": "a?"}, "invalid_audio", "base64"),
            ({"type": "input_audio_buffer.append"}, "processing_error", "audio"),
            ({"type": "input_audio_buffer.clear"}, "unknown_event", "input_audio_buffer.clear"),
            ({}, "unknown_event", "null"),
            ([], "processing_error", "object"),
        ]
        for message, code, text in wrong:
            await client.send(message)
            event = await client.next()
            assert set(event) == {"type", "error", "code"} and event["type"] == "error"
            assert event["code"] == code and text in event["error"], event
        for frame, code in (("{", "invalid_json"), (b"\0\0", "invalid_frame")):
            await client.socket.send(frame)
            assert (await client.next())["code"] == code
        await client.send({"type": "session.update", "model": MODEL})
        await client.until("session.updated")
        assert await client.utterance(0.5) == transcript(8000)


async def test_where_no_model_transcribes_clients_are_told() -> None:
    engine = FakeEngine()
    engine.models = [VISION]
    async with running(engine=engine) as gateway:
        for first, code in (
            ({"type": "session.update", "model": VISION.id}, "model_not_found"),
            (FINAL, "model_not_validated"),
        ):
            client = await opened(gateway, None)
            await client.send(first, append(tone(0.1, RATE)), {"type": "no.such"})
            codes = [(await client.next())["code"] for _ in range(3)]
            assert codes == [code, "unsupported_audio", "unknown_event"]
            await client.socket.close()


async def test_names_that_clients_hard_wire_work(gateway: Running) -> None:
    client = await opened(gateway, "mistralai/Voxtral-Mini-4B-Realtime-2602")
    assert await client.utterance(0.5) == transcript(8000)


async def test_an_engine_that_dies_is_told(gateway: Running) -> None:
    client = await opened(gateway)
    await client.send(START)
    await client.say(0.5)
    await gateway.engine.wait_for(lambda: bool(gateway.engine.turns))
    gateway.engine.die()
    event = await client.until("error")
    assert isinstance(event["error"], str)


@settings(max_examples=200)
@given(
    st.text()
    | st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["type", "model", "final", "session", "x"]), inner)
        ),
    ).map(json.dumps)
)
def test_no_frame_breaks_recognition(frame: str | bytes) -> None:
    assert VllmDialect.recognises(frame) in (True, False)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ('{"type": "session.update", "model": "m"}', True),
        ('{"type": "session.update", "model": "m", "include": null}', True),
        ('{"type": "input_audio_buffer.commit", "final": false}', True),
        (json.dumps({"type": "session.update", "model": "m", "prompt": "語" * MAX_PROMPT}), True),
        (json.dumps({"type": "session.update", "model": "m", "prompt": "🚢" * MAX_PROMPT}), True),
        ('{"type": "session.update", "session": {"model": "m"}}', False),
        ('{"type": "session.update", "session": {}, "model": "m"}', False),
        ('{"type": "input_audio_buffer.commit"}', False),
        ('{"type": "input_audio_buffer.append", "audio": ""}', False),
        (b"\0\0", False),
    ],
)
def test_what_it_is_told_by(frame: str | bytes, expected: bool) -> None:
    assert VllmDialect.recognises(frame) is expected
