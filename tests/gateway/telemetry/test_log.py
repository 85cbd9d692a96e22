"""What is in the log of a gateway: a line for each request and each session. And what is not:
what users said or sent, keys, complaints about clients that leave."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from lookhear.engine.config.log import logging_to_stderr
from lookhear.gateway.config import GatewayConfig
from tests.gateway.chatting import URL, data_url, jpeg, png
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.leaving import SPEECH, Leaving, leave, ways
from tests.gateway.running import MANUAL, Client, Running, running, tone

KEY = "sk-a-key-of-this-server"
WRONG_KEY = "sk-a-key-of-another"
MARK = "Xylophon"  # in everything that users say


@pytest_asyncio.fixture
async def keyed() -> AsyncIterator[Running]:
    async with running(GatewayConfig(port=0, api_keys=(KEY,)), FakeEngine(sees=True)) as it:
        yield it


def http(gateway: Running, key: str | None = KEY) -> httpx.AsyncClient:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return httpx.AsyncClient(
        base_url=gateway.http, trust_env=False, verify=False, timeout=60, headers=headers
    )


def read(err: str, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in err.splitlines()]
    return [line for line in lines if line.get("event") == event]


async def test_a_line_for_each_request(keyed: Running, capfd: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr("info", "json"):
        async with http(keyed) as client:
            answers = [
                await client.get("/v1/models?verbose=1"),
                await client.get("/v1/models"),
                await client.get("/nothing/here"),
                await client.post(URL, content=b"{"),
                await client.get("/v1/models", headers={"authorization": "Bearer other"}),
            ]
    lines = read(capfd.readouterr().err, "http.request")
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/v1/models", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/nothing/here", 404),
        ("POST", URL, 400),
        ("GET", "/v1/models", 401),
    ]
    for line, answer in zip(lines, answers, strict=True):
        assert line["request"] == answer.headers["x-request-id"]
        assert line["bytes"] == len(answer.content)
        assert line["ms"] >= 0 and line["client"].startswith("127.0.0.1:")
        assert "complete" not in line
    assert lines[-1]["code"] == "invalid_api_key"


@pytest.mark.parametrize(("level", "count"), [("info", 0), ("debug", 3)])
async def test_probes_are_for_those_who_debug(
    level: str, count: int, keyed: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    with logging_to_stderr(level, "json"):
        async with http(keyed) as client:
            for path in ("/health", "/metrics", "/ready"):
                await client.get(path)
    assert len(read(capfd.readouterr().err, "http.request")) == count


async def use_http(gateway: Running) -> None:
    """Every field that holds words of a user, right and wrong."""
    async with http(gateway) as client:

        async def transcribe(**fields: str) -> None:
            file = (f"{MARK}.flac", SPEECH.read_bytes())
            await client.post("/v1/audio/transcriptions", files={"file": file}, data=fields)

        await transcribe(model="fake/whisper", prompt=f"about {MARK}")
        for name in ("model", "language", "response_format", "temperature", "stream", MARK):
            await transcribe(**{name: MARK})
        for name in ("timestamp_granularities[]", "include[]", "chunking_strategy"):
            await transcribe(**{name: MARK})
        await client.post("/v1/audio/transcriptions", files={"file": (MARK, MARK.encode())})
        await client.post("/v1/audio/transcriptions", content=MARK)

        async def ask(content: object = MARK, **fields: object) -> None:
            asked = {"model": "fake/vision", "messages": [{"role": "user", "content": content}]}
            await client.post(URL, json={**asked, **fields})

        schema = {"type": "json_schema", "json_schema": {"name": MARK, "schema": {"type": MARK}}}
        await ask()
        await ask(stream=True)
        await ask([{"type": "image_url", "image_url": {"url": data_url(png())}}])
        await ask([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{MARK}"}}])
        await ask([{"type": "image_url", "image_url": {"url": f"http://{MARK}.invalid/a.png"}}])
        await ask([{"type": "image_url", "image_url": {"url": f"file:///{MARK}.png"}}])
        await ask([{"type": MARK, MARK: MARK}])
        await ask(messages=[{"role": MARK, "content": MARK}])
        await ask(messages=MARK)
        await ask(response_format=schema)
        for name in ("model", "stop", "user", "temperature", "seed", "tools", "logit_bias", MARK):
            await ask(**{name: MARK})
            await ask(**{name: {MARK: MARK}})
        await client.post(URL, content=f'{{"{MARK}'.encode())
        await client.get("/v1/models", params={MARK: MARK})


async def use_sockets(gateway: Running) -> None:
    """The same over sockets."""
    headers = {"authorization": f"Bearer {KEY}"}

    def client(query: str) -> Client:
        return gateway.client(query, additional_headers=headers)

    async def until_answered(talk: Client, type: str, **fields: Any) -> None:
        await talk.send(type, **fields)
        await talk.send("input_audio_buffer.commit", event_id="last")
        while True:
            event = await talk.receive()
            if event["type"] == "error" and event["error"]["event_id"] == "last":
                return

    for query in (f"model={MARK}", f"intent=transcription&language={MARK}&{MARK}={MARK}"):
        async with client(query) as talk:
            await talk.receive()
    async with client("intent=transcription") as talk:
        await talk.until("session.created")
        transcription = {"prompt": f"about {MARK}", "language": MARK}
        for wrong in (
            {"audio": {"input": {"transcription": transcription}}},
            {"audio": {"input": {"format": {"type": MARK, MARK: MARK}}}},
            {"include": [MARK]},
            {MARK: MARK},
            MARK,
        ):
            await until_answered(talk, "session.update", session=wrong)
        await until_answered(talk, MARK, **{MARK: MARK})
        await until_answered(talk, "input_audio_buffer.append", audio=f"{MARK}!")
        await talk.update({"audio": {"input": {"transcription": {"prompt": MARK}}}})
        await talk.update(MANUAL)
        await talk.append(tone(0.5))
        await talk.send("input_audio_buffer.commit")
        await talk.until(".completed")
        await talk.socket.send(MARK)
        await talk.until("error")
        await talk.socket.close(4000, MARK)
    async with client("model=fake/vision") as talk:
        await talk.until("session.created")
        await talk.send("session.update", session={"type": "realtime", "instructions": MARK})
        image = f"data:image/jpeg;base64,{base64.b64encode(jpeg()).decode()}"
        content = [
            {"type": "input_text", "text": MARK},
            {"type": "input_image", "image_url": image},
        ]
        item = {"type": "message", "role": "user", "content": content}
        await talk.send("conversation.item.create", item=item)
        await talk.send("response.create", response={"instructions": MARK})
        await talk.until("response.done")
        for broken in ({**item, "role": MARK}, {"type": MARK}, {**item, "content": MARK}):
            await until_answered(talk, "conversation.item.create", item=broken)
        await until_answered(talk, "response.create", response={"temperature": MARK})
    url = f"ws://127.0.0.1:{gateway.port}/v1/realtime"
    for head in (
        {"authorization": f"Bearer {WRONG_KEY}"},
        {"authorization": f"Token {WRONG_KEY}"},
        {"authorization": f"Bearer {MARK}"},
        {"x-api-key": WRONG_KEY},
    ):
        with pytest.raises(InvalidStatus):
            await connect(url, additional_headers=head, proxy=None)
    for scheme in ("token", "bearer"):  # as browsers send keys, which are told inside
        offered = [Subprotocol(scheme), Subprotocol(WRONG_KEY)]
        async with connect(url, subprotocols=offered, proxy=None) as browser:
            with pytest.raises(ConnectionClosed):
                while True:
                    await browser.recv()
    async with http(gateway, WRONG_KEY) as stranger:
        await stranger.get("/v1/models")


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_what_users_say_is_for_those_who_debug_and_keys_are_for_nobody(
    level: str, keyed: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    with logging_to_stderr(level, "json", secrets=(KEY,)):
        await use_http(keyed)
        await use_sockets(keyed)
        await keyed.engine.wait_for(lambda: not keyed.engine.sessions)
        await keyed.stop()
    err = capfd.readouterr().err
    assert KEY not in err and WRONG_KEY not in err
    assert read(err, "session.end") and read(err, "session.error") and read(err, "http.request")
    lines = [
        line
        for line in err.splitlines()
        if (MARK in line or re.search(r"\bw0 w1\b", line))
        and json.loads(line)["logger"] != "httpx"  # the client of this test
    ]
    assert not [line for line in lines if json.loads(line)["level"] != "debug"]
    assert bool(lines) == (level == "debug")


WAYS = list(ways("fake/whisper", "fake/vision"))


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
async def test_a_client_that_leaves_is_a_line_and_no_complaint(
    way: Leaving, capfd: pytest.CaptureFixture[str]
) -> None:
    with logging_to_stderr("info", "json"):
        async with running(engine=FakeEngine(sees=True)) as gateway:
            gateway.engine.file_gate = asyncio.Event()  # a file takes longer than to leave
            await asyncio.to_thread(leave, gateway.port, way)
            # Whoever comes next is served; then the server waits for all that is under way.
            async with http(gateway, None) as next_one:
                assert (await next_one.get("/health")).status_code == 200
    err = capfd.readouterr().err
    assert all(json.loads(line)["level"] == "info" for line in err.splitlines()), err
    assert "Traceback" not in err
    assert len(read(err, "http.request")) == way.requests, err
    if way.sessions is not None:
        assert len(read(err, "session.end")) == way.sessions, err


async def test_a_session_that_is_open_when_the_server_ends_is_no_complaint(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with logging_to_stderr("info", "json"):
        async with running() as gateway, gateway.client("intent=transcription") as talk:
            await talk.until("session.created")
            await gateway.stop()
    err = capfd.readouterr().err
    (told,) = read(err, "session.error")
    assert (told["level"], told["code"]) == ("info", "going_away")
    assert read(err, "session.end")
    assert all(json.loads(line)["level"] == "info" for line in err.splitlines()), err
