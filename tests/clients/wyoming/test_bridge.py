"""The Wyoming bridge over real sockets, before our own gateway with an engine that counts: what
the unmodified client is told, in which order, and what of bad input."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lookhear.client import AsyncClient
from lookhear.errors import UsageError
from tests.gateway.fake_engine import transcript
from tests.gateway.running import PATIENCE, Running, running, tone

pytest.importorskip("wyoming")

from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient as WyomingClient
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.info import Describe, Info, SelectProgram
from wyoming.ping import Ping

from lookhear.wyoming.bridge import Bridge, Connection

RATE = 16_000
FORMAT = {"rate": RATE, "width": 2, "channels": 1}


@asynccontextmanager
async def bridged(
    gateway: Running, uri: str = "tcp://127.0.0.1:0", *, model: str | None = None, key: str = ""
) -> AsyncIterator[tuple[str, list[str]]]:
    """-> where it is, and what it says of what went wrong."""
    stop, found = asyncio.Event(), asyncio.get_running_loop().create_future()
    said: list[str] = []
    bridge = Bridge(AsyncClient(gateway.http, key or None), model, said.append)
    serving = asyncio.create_task(bridge.serve(uri, found.set_result, stop))
    await asyncio.wait((serving, found), return_when=asyncio.FIRST_COMPLETED)
    try:
        yield ("" if serving.done() else found.result()), said
    finally:
        stop.set()
        await serving


def called(uri: str) -> WyomingClient:
    return WyomingClient.from_uri(uri, connect_timeout=PATIENCE, read_timeout=PATIENCE)


async def say(client: Any, audio: bytes, size: int = 3200, **format: int) -> None:
    """A command, as Home Assistant sends it."""
    form = FORMAT | format
    await client.write_event(AudioStart(**form).event())
    for first in range(0, len(audio), size):
        chunk = AudioChunk(**form, audio=audio[first : first + size])
        await client.write_event(chunk.event())
    await client.write_event(AudioStop().event())


async def told(client: Any, last: str = "transcript-stop") -> list[Any]:
    """The events up to the last one of a command, or to the end."""
    events = []
    while (event := await client.read_event()) is not None:
        events.append(event)
        if event.type in (last, "error"):
            break
    return events


def kinds(events: Sequence[Any]) -> list[str]:
    return [event.type for event in events]


def chunks(events: Sequence[Any]) -> str:
    return "".join(e.data["text"] for e in events if e.type == "transcript-chunk")


async def test_a_command_is_told_in_pieces_and_whole() -> None:
    async with running() as gateway, bridged(gateway) as (uri, said), called(uri) as client:
        await client.write_event(Transcribe(language="en").event())
        await say(client, tone(1.0, RATE))
        events = await told(client)
        start, *pieces, whole, stop = events
        assert kinds([start, whole, stop]) == ["transcript-start", "transcript", "transcript-stop"]
        assert len(pieces) > 1 and {piece.type for piece in pieces} == {"transcript-chunk"}
        assert Transcript.from_event(whole).text == transcript(RATE) == chunks(events)
        assert start.data == {"language": "en"} and whole.data["language"] == "en"
        assert said == []


async def test_text_comes_while_the_command_is_said() -> None:
    async with running() as gateway, bridged(gateway) as (uri, _), called(uri) as client:
        await client.write_event(AudioStart(**FORMAT).event())
        await client.write_event(AudioChunk(**FORMAT, audio=tone(0.5, RATE)).event())
        events = await told(client, "transcript-chunk")
        assert kinds(events)[0] == "transcript-start" and chunks(events)
        await client.write_event(AudioStop().event())
        assert kinds(await told(client))[-2:] == ["transcript", "transcript-stop"]


@pytest.mark.parametrize("format", [{"rate": 48_000}, {"channels": 2}, {"width": 4}, {"width": 1}])
async def test_any_common_format_is_heard(format: dict[str, int]) -> None:
    form = FORMAT | format
    size = form["rate"] * form["width"] * form["channels"]
    async with running() as gateway, bridged(gateway) as (uri, _), called(uri) as client:
        await say(client, bytes(size), **format)
        assert (await told(client))[-2].data["text"] == transcript(RATE)


async def test_a_client_may_say_one_command_after_the_other() -> None:
    async with running() as gateway, bridged(gateway) as (uri, _), called(uri) as client:
        for seconds in (0.5, 0.2):
            await say(client, tone(seconds, RATE))
        for seconds in (0.5, 0.2):
            whole = (await told(client))[-2]
            assert whole.data["text"] == transcript(round(seconds * RATE))


async def test_several_clients_at_once_hear_their_own() -> None:
    async with running() as gateway, bridged(gateway) as (uri, _):

        async def one(tenths: int) -> None:
            async with called(uri) as client:
                await say(client, tone(tenths / 10, RATE))
                assert (await told(client))[-2].data["text"] == transcript(tenths * RATE // 10)

        await asyncio.gather(*(one(tenths) for tenths in range(2, 12)))


async def test_nothing_said_is_an_empty_transcript() -> None:
    async with running() as gateway, bridged(gateway) as (uri, _), called(uri) as client:
        await say(client, b"")
        assert kinds(events := await told(client)) == [
            *("transcript-start", "transcript", "transcript-stop")
        ]
        assert events[1].data["text"] == ""


async def test_names_and_terms_are_told_to_the_model() -> None:
    async with running() as gateway, bridged(gateway) as (uri, _), called(uri) as client:
        asked = Transcribe(name="fake-english", transcript_names=["Ada"], transcript_terms=["lamp"])
        await client.write_event(asked.event())
        await client.write_event(AudioStart(**FORMAT).event())
        await client.write_event(AudioChunk(**FORMAT, audio=tone(0.5, RATE)).event())
        await told(client, "transcript-chunk")
        [turn] = gateway.engine.turns.values()
        settings = turn.start.settings
        assert (settings.model, settings.keywords) == ("fake-english", ("Ada", "lamp"))


async def test_what_is_served_is_told() -> None:
    async with running() as gateway, bridged(gateway) as (uri, _), called(uri) as client:
        await client.write_event(SelectProgram(name="lookhear").event())
        await client.write_event(Describe().event())
        [program] = Info.from_event((await told(client, "info"))[-1]).asr
        assert program.name == "lookhear" and program.installed
        assert program.supports_transcript_streaming and program.requires_external_vad
        named = {model.name: model.languages for model in program.models}
        assert named == {"fake/whisper": ["de", "en", "fr"], "fake-english": ["en"]}
        await client.write_event(Ping(text="x").event())
        [pong] = await told(client, "pong")
        assert pong.data["text"] == "x"
    async with running() as gateway, bridged(gateway, model="fake-english") as (uri, _):
        async with called(uri) as client:
            await client.write_event(Describe().event())
            [program] = Info.from_event((await told(client, "info"))[-1]).asr
            assert [model.name for model in program.models] == ["fake-english"]


async def send(client: Any, *events: tuple[str, dict[str, Any]]) -> None:
    for type, data in events:
        line = json.dumps({"type": type, "data": data}) + "\n"
        client._writer.write(line.encode())
    await client._writer.drain()


@pytest.mark.parametrize(
    "events, said",
    [
        ([("audio-stop", {})], "audio-stop: expected audio-start before it"),
        ([("audio-start", {"rate": 16_000})], "audio-start: width: expected a whole number"),
        ([("audio-start", FORMAT), ("audio-start", FORMAT)], "expected audio-stop first"),
        ([("audio-start", FORMAT), ("transcribe", {})], "transcribe: expected audio-stop first"),
        ([("audio-start", FORMAT), ("audio-chunk", FORMAT | {"rate": 8000})], "got 8000 Hz"),
        ([("transcribe", {"language": 1})], "transcribe: language: expected text, got 1"),
        ([("ping", {"text": "\ud800"})], r'ping: text: expected text, got "\ud800"'),
        ([("audio-start", {"rate": "\ud800"})], "audio-start: rate: expected a whole number"),
        ([("transcribe", {"transcript_names": "Ada"})], "transcript_names: expected a list"),
        ([("select-program", {"name": "other"})], 'select-program: name: expected "lookhear"'),
    ],
)
async def test_bad_input_is_an_error_in_words_and_the_end(
    events: list[tuple[str, dict[str, Any]]], said: str
) -> None:
    async with running() as gateway, bridged(gateway) as (uri, log), called(uri) as client:
        await send(client, *events, ("audio-chunk", FORMAT))
        error = Error.from_event((await told(client))[-1])
        assert said in error.text and error.code == "bad-event"
        assert await client.read_event() is None
        assert log == [error.text]
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_what_was_said_is_told_whatever_comes_behind_it() -> None:
    """A second audio-stop says nothing new; an event that is wrong ends the connection after it."""
    async with running() as gateway, bridged(gateway) as (uri, _), called(uri) as client:
        await say(client, tone(0.5, RATE))
        await send(client, ("audio-stop", {}))
        await say(client, tone(1.0, RATE))
        await send(client, ("transcribe", {"language": 1}))
        for samples in (RATE // 2, RATE):
            *_, whole, stop = await told(client)
            assert kinds([whole, stop]) == ["transcript", "transcript-stop"]
            assert whole.data["text"] == transcript(samples)
        assert kinds(await told(client)) == ["error"]


async def test_a_chunk_behind_the_end_of_its_command_is_dropped() -> None:
    late = AudioChunk(**FORMAT, audio=tone(0.1, RATE)).event()
    async with running() as gateway, bridged(gateway) as (uri, log), called(uri) as client:
        for behind in ([late], [late, late, AudioStop().event()], []):
            await say(client, tone(0.5, RATE))
            for event in behind:
                await client.write_event(event)
            *_, whole, _ = await told(client)
            assert whole.data["text"] == transcript(RATE // 2)
        await client.write_event(Transcribe(language="en").event())
        await client.write_event(late)  # begins what was asked for
        await client.write_event(AudioStop().event())
        start, *_, whole, _ = await told(client)
        assert start.data == {"language": "en"} and whole.data["text"] == transcript(RATE // 10)
        assert log == []


async def test_what_is_no_event_is_an_error_too() -> None:
    async with running() as gateway, bridged(gateway) as (uri, _), called(uri) as client:
        assert isinstance(client, AsyncTcpClient) and client._writer is not None
        client._writer.write(b"GET / HTTP/1.1\r\n" + bytes(100_000))
        [error] = await told(client)
        assert "a JSON object in a line" in error.data["text"]


@pytest.mark.parametrize(
    "asked, said, code",
    [
        ({"name": "no/such"}, "no/such", "model_not_found"),
        ({"language": "xx"}, "language", "invalid_language"),
    ],
)
async def test_what_the_server_refuses_is_passed_on(
    asked: dict[str, str], said: str, code: str
) -> None:
    from lookhear.gateway.config import GatewayConfig

    strict = GatewayConfig(port=0, strict_models=True)
    async with running(strict) as gateway, bridged(gateway) as (uri, _), called(uri) as client:
        await client.write_event(Transcribe(**asked).event())
        await say(client, tone(0.5, RATE))
        error = (await told(client))[-1]
        assert said in error.data["text"] and error.data["code"] == code
        assert await client.read_event() is None


async def test_a_server_that_is_not_there_is_an_error() -> None:
    async with running() as gateway:
        pass
    async with bridged(gateway) as (uri, _):
        for ask in ("describe", "transcribe"):
            async with called(uri) as client:
                if ask == "describe":
                    await client.write_event(Describe().event())
                else:
                    await say(client, tone(0.5, RATE))
                assert f"cannot reach {gateway.http}" in (await told(client))[-1].data["text"]


async def test_who_hangs_up_in_the_middle_leaves_nothing_behind() -> None:
    async with running() as gateway, bridged(gateway) as (uri, _):
        async with called(uri) as client:
            await client.write_event(AudioStart(**FORMAT).event())
            await client.write_event(AudioChunk(**FORMAT, audio=tone(0.5, RATE)).event())
            await told(client, "transcript-chunk")
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_who_hangs_up_is_forgotten_without_looking_for_cycles() -> None:
    async with running() as gateway:
        gc.collect()
        gc.disable()
        try:
            async with bridged(gateway) as (uri, _), called(uri) as client:
                await client.write_event(AudioStart(**FORMAT).event())
                await client.write_event(AudioChunk(**FORMAT, audio=tone(0.5, RATE)).event())
                await told(client, "transcript-chunk")
            assert not [one for one in gc.get_objects() if type(one) is Connection]
        finally:
            gc.enable()


async def test_it_may_listen_on_a_unix_socket(tmp_path: Path) -> None:
    async with running() as gateway:
        place = f"unix://{tmp_path / 'wyoming.sock'}"
        async with bridged(gateway, place) as (uri, _), called(uri) as client:
            assert uri == place
            await say(client, tone(0.5, RATE))
            assert (await told(client))[-2].data["text"] == transcript(RATE // 2)


@pytest.mark.parametrize("uri", ["stdio://", "tcp://", "tcp://localhost:x", "10300", "unix://"])
async def test_a_place_that_is_none_is_refused(uri: str) -> None:
    bridge = Bridge(AsyncClient("http://127.0.0.1:1"), None, print)
    with pytest.raises(UsageError, match="--uri: expected tcp://HOST"):
        await bridge.serve(uri, print, asyncio.Event())


async def test_a_place_that_is_taken_is_refused() -> None:
    async with running() as gateway, bridged(gateway) as (uri, _):
        bridge = Bridge(AsyncClient(gateway.http), None, print)
        with pytest.raises(UsageError, match=f"cannot listen on {uri}: "):
            await bridge.serve(uri, print, asyncio.Event())
