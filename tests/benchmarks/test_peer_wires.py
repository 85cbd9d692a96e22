"""The peers' wires against servers that speak as the peers do, and badly."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve

from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.wires import deepgram, flux, vllm, whisperlive, whisperlivekit, wyoming
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.registry import WIRES, Wire
from lookhear.bench.wires.snapshots import Snapshots
from lookhear.wyoming.events import Incoming, read_event

Handler = Callable[[ServerConnection], Awaitable[None]]
SECONDS = 0.5


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    async with serve(handler, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/asr"


async def stream(wire: Wire, url: str) -> Trace:
    pcm = np.full(int(SECONDS * RATE), 16_384, "<i2")
    plan = SessionPlan("s", 0, len(pcm), silence_seconds=0.1, language="en")
    return await wire(Job(url, "", pace=50.0), plan, pcm)


def kinds(trace: Trace) -> list[str]:
    return [event["type"].rpartition(".")[2] for _, event in trace.events]


def deltas(trace: Trace) -> list[str]:
    return [event["delta"] for _, event in trace.events if event["type"].endswith(".delta")]


# --- WhisperLiveKit ------------------------------------------------------------------------------


def state(*lines: str | None, buffer: str = "", **fields: Any) -> str:
    """A message of full mode; a line without text is a silence."""
    told = [{"speaker": -2 if text is None else 1, "text": text} for text in lines]
    return json.dumps({"lines": told, "buffer_transcription": buffer} | fields)


def livekit(messages: list[str], received: bytearray | None = None) -> Handler:
    """Says the messages when audio comes, and that it is ready when the audio is over."""

    async def handler(connection: ServerConnection) -> None:
        await connection.send(json.dumps({"type": "config", "useAudioWorklet": True}))
        said = iter(messages)
        async for frame in connection:
            assert isinstance(frame, bytes)
            if not frame:
                break
            if received is not None:
                received.extend(frame)
            for message in [m for m in [next(said, None)] if m is not None]:
                await connection.send(message)
        for message in said:
            await connection.send(message)
        await connection.send(json.dumps({"type": "ready_to_stop"}))
        await connection.wait_closed()

    return handler


async def test_lines_are_committed_and_the_buffer_is_provisional() -> None:
    received = bytearray()
    messages = [
        state(buffer=" turn"),
        state(" Turn the", buffer=" lamp"),
        state(" Turn the", buffer=" lamp"),
        state(" Turn the lamp", None, " on."),
    ]
    async with served(livekit(messages, received)) as url:
        trace = await stream(whisperlivekit.run_session, url)
    assert trace.close_code == 1000 and metrics.invariant_violations(trace) == []
    assert metrics.hypothesis(trace) == "Turn the lamp on."
    assert deltas(trace) == ["Turn the", " lamp on."]
    shown = [event["text"] for _, event in trace.events if event["type"].startswith("lookhear")]
    assert shown == ["turn", " lamp", ""]
    assert len(received) == 2 * int((SECONDS + 0.1) * 16_000)  # 16-bit samples at 16 kHz
    assert np.median(np.frombuffer(received, "<i2")) == pytest.approx(16_384, abs=2)
    assert trace.seconds == pytest.approx(SECONDS + 0.1)


async def test_a_peer_that_changes_committed_text_is_seen_to() -> None:
    messages = [state(" two lamps on"), state(" two lamb son please")]
    async with served(livekit(messages)) as url:
        trace = await stream(whisperlivekit.run_session, url)
    (retracted,) = [event for _, event in trace.events if event["type"] == "peer.retracted"]
    assert retracted["words"] == 2 and retracted["before"] == "lamps on"
    assert metrics.hypothesis(trace) == "two lamb son please"
    assert metrics.retracted(trace) > 0
    assert not metrics.dropped(trace)


async def test_what_stays_provisional_to_the_end_is_the_final_text() -> None:
    async with served(livekit([state(" one", buffer=" two"), state(" one", buffer="two")])) as url:
        trace = await stream(whisperlivekit.run_session, url)
    assert metrics.hypothesis(trace) == "one two" and deltas(trace) == ["one", " two"]
    assert metrics.invariant_violations(trace) == []


async def test_an_error_of_the_peer_is_a_violation() -> None:
    async with served(livekit([state(error="FFmpeg error")])) as url:
        trace = await stream(whisperlivekit.run_session, url)
    assert any("FFmpeg error" in text for text in metrics.invariant_violations(trace))


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        ({"type": "config", "useAudioWorklet": False}, "--pcm-input"),
        ({"type": "error", "error": "no such language"}, "no such language"),
        ({"hello": 1}, "--pcm-input"),
    ],
)
async def test_a_livekit_that_does_not_fit_is_one_clear_line(
    greeting: dict[str, Any], reason: str
) -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.send(json.dumps(greeting))
        await connection.wait_closed()

    async with served(handler) as url:
        trace = await stream(whisperlivekit.run_session, url)
    assert trace.problem is not None and reason in trace.problem and metrics.dropped(trace)


# --- Deepgram -------------------------------------------------------------------------------------


def result(text: str, *words: str, is_final: bool = False) -> str:
    said = [{"word": word.lower(), "punctuated_word": word} for word in words]
    channel = {"alternatives": [{"transcript": text, "words": said}]}
    return json.dumps({"type": "Results", "is_final": is_final, "channel": channel})


async def test_settled_words_of_interim_results_are_committed() -> None:
    messages = [
        result("Turn a"),
        result("Turn the lam", "Turn"),
        result("Turn the lamp", "Turn", "the"),
        result("Turn the lamp.", "Turn", "the", "lamp.", is_final=True),
        json.dumps({"type": "SpeechStarted", "channel": [0], "timestamp": 1.0}),
        result("On"),
        result("On.", is_final=True),
    ]
    asked: list[str] = []

    async def handler(connection: ServerConnection) -> None:
        assert connection.request is not None
        asked.append(connection.request.path)
        said = iter(messages)
        async for frame in connection:
            if isinstance(frame, str):
                assert json.loads(frame) == {"type": "CloseStream"}
                break
            for message in [m for m in [next(said, None)] if m is not None]:
                await connection.send(message)
        for message in said:
            await connection.send(message)
        await connection.send(json.dumps({"type": "Metadata"}))
        await connection.wait_closed()

    async with served(handler) as url:
        trace = await stream(deepgram.run_session, url)
    assert trace.close_code == 1000 and metrics.invariant_violations(trace) == []
    assert deltas(trace) == ["Turn", " the", " lamp.", " On."]
    assert metrics.hypothesis(trace) == "Turn the lamp. On."
    assert "sample_rate=24000" in asked[0] and "language=en" in asked[0]


# --- Flux ----------------------------------------------------------------------------------------


def turn(event: str, text: str, sure: int) -> str:
    """Of its words so many are sure."""
    words = [{"word": w, "confidence": float(i < sure)} for i, w in enumerate(text.split())]
    return json.dumps({"type": "TurnInfo", "event": event, "transcript": text, "words": words})


async def test_words_that_are_sure_of_a_turn_under_way_are_committed() -> None:
    messages = [
        json.dumps({"type": "Connected"}),
        turn("StartOfTurn", "Turn a", 0),
        turn("Update", "Turn the lam", 1),
        turn("Update", "Turn the. Lamp", 2),
        turn("EagerEndOfTurn", "Turn the lamp", 2),
        turn("EndOfTurn", "Turn the lamp.", 3),
        turn("StartOfTurn", "On", 0),
        turn("EndOfTurn", "On.", 1),
    ]

    async def handler(connection: ServerConnection) -> None:
        said = iter(messages)
        async for frame in connection:
            if isinstance(frame, str):
                assert json.loads(frame) == {"type": "CloseStream"}
                break
            for message in [m for m in [next(said, None)] if m is not None]:
                await connection.send(message)
        for message in said:
            await connection.send(message)

    async with served(handler) as url:
        trace = await stream(flux.run_session, url)
    assert trace.close_code == 1000 and metrics.invariant_violations(trace) == []
    assert deltas(trace) == ["Turn", " the", " lamp.", " On."]
    assert metrics.hypothesis(trace) == "Turn the lamp. On."


# --- vLLM ----------------------------------------------------------------------------------------


async def test_an_utterance_is_announced_said_and_ended_on_vllms_wire() -> None:
    asked: list[dict[str, Any]] = []
    received = bytearray()

    async def handler(connection: ServerConnection) -> None:
        async def say(type: str, **fields: Any) -> None:
            await connection.send(json.dumps({"type": type, **fields}))

        await say("session.created", id="sess-1")
        async for frame in connection:
            message = json.loads(frame)
            if message["type"] == "input_audio_buffer.append":
                if not received:
                    await say("transcription.delta", delta="Turn the")
                received.extend(base64.b64decode(message["audio"]))
                continue
            asked.append(message)
            if message.get("final"):
                await say("transcription.delta", delta=" lamp.")
                await say("transcription.done", text="Turn the lamp.")

    async with served(handler) as url:
        trace = await stream(vllm.run_session, url)
    assert trace.close_code == 1000 and metrics.invariant_violations(trace) == []
    assert deltas(trace) == ["Turn the", " lamp."]
    assert metrics.hypothesis(trace) == "Turn the lamp."
    assert [message.get("final") for message in asked] == [None, False, True]
    assert asked[0]["language"] == "en"
    assert len(received) == 2 * int((SECONDS + 0.1) * 16_000)


async def test_an_error_of_vllm_is_why_the_session_failed() -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.send(json.dumps({"type": "session.created"}))
        await connection.recv()
        await connection.send(json.dumps({"type": "error", "error": "no such model"}))
        async for _ in connection:  # unread, they would keep it from closing
            pass

    async with served(handler) as url:
        trace = await stream(vllm.run_session, url)
    assert metrics.dropped(trace)
    assert trace.problem is not None and "no such model" in trace.problem


# --- Wyoming -------------------------------------------------------------------------------------


@asynccontextmanager
async def bridged(*answers: bytes) -> AsyncIterator[tuple[str, list[Incoming]]]:
    """A bridge that says these when the command is over; what it was sent."""
    taken: list[Incoming] = []
    gone = asyncio.Event()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (event := await read_event(reader)) is not None:
            taken.append(event)
            if event.type == "audio-stop":
                writer.write(b"".join(answer + b"\n" for answer in answers))
                writer.write_eof()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        gone.set()

    async with await asyncio.start_server(meet, "127.0.0.1", 0) as server:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", taken
        await gone.wait()


async def test_a_command_is_streamed_on_wyomings_wire() -> None:
    answers = (
        b'{"type": "transcript-start"}',
        b'{"type": "transcript-chunk", "data": {"text": "Turn the"}}',
        b'{"type": "transcript-chunk", "data": {"text": " lamp."}}',
        b'{"type": "transcript", "data": {"text": "Turn the lamp."}}',
    )
    async with bridged(*answers) as (url, taken):
        trace = await stream(wyoming.run_session, url)
    assert trace.close_code == 1000 and metrics.invariant_violations(trace) == []
    assert deltas(trace) == ["Turn the", " lamp."]
    assert metrics.hypothesis(trace) == "Turn the lamp."
    assert [event.type for event in taken[:2]] == ["transcribe", "audio-start"]
    assert taken[0].data == {"language": "en"}
    assert sum(len(event.payload) for event in taken) == 2 * int((SECONDS + 0.1) * RATE)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((b'{"type": "error", "data": {"text": "no such model"}}',), "no such model"),
        ((), "hung up"),
        ((b"hello",), "not this protocol"),
    ],
)
async def test_a_bridge_that_fails_is_one_clear_line(
    answers: tuple[bytes, ...], reason: str
) -> None:
    async with bridged(*answers) as (url, _):
        trace = await stream(wyoming.run_session, url)
    assert metrics.dropped(trace)
    assert trace.problem is not None and reason in trace.problem


# --- WhisperLive ---------------------------------------------------------------------------------


def segment(start: float, text: str, *, completed: bool) -> dict[str, Any]:
    return {
        "start": f"{start:.3f}",
        "end": f"{start + 1:.3f}",
        "text": text,
        "completed": completed,
    }


def live(messages: list[list[dict[str, Any]]], received: bytearray | None = None) -> Handler:
    async def handler(connection: ServerConnection) -> None:
        wishes = json.loads(await connection.recv())
        assert wishes["language"] == "en" and wishes["use_vad"] is True
        await connection.send(json.dumps({"uid": wishes["uid"], "message": "SERVER_READY"}))
        said = iter(messages)
        async for frame in connection:
            if frame == b"END_OF_AUDIO":
                return
            assert isinstance(frame, bytes)
            if received is not None:
                received.extend(frame)
            segments = next(said, None)
            if segments is not None:
                await connection.send(json.dumps({"uid": wishes["uid"], "segments": segments}))

    return handler


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whisperlive, "QUIET_SECONDS", 1.0)


@pytest.mark.usefixtures("impatient")
async def test_completed_segments_are_committed_once() -> None:
    received = bytearray()
    first, second = segment(0, " One.", completed=True), segment(1, " Two.", completed=True)
    messages = [
        [segment(0, " Won", completed=False)],
        [first, segment(1, " Too", completed=False)],
        [first, second],
        [second, segment(2, " Three", completed=False)],  # the window of last segments moved on
    ]
    async with served(live(messages, received)) as url:
        trace = await stream(whisperlive.run_session, url)
    assert trace.close_code == 1000 and metrics.invariant_violations(trace) == []
    assert deltas(trace) == ["One.", " Two.", " Three"]
    assert metrics.hypothesis(trace) == "One. Two. Three"
    samples = np.frombuffer(received, "<f4")
    assert len(samples) == int((SECONDS + 0.1) * 16_000)
    assert np.median(samples) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.usefixtures("impatient")
async def test_silence_is_an_empty_transcript() -> None:
    async with served(live([])) as url:
        trace = await stream(whisperlive.run_session, url)
    assert metrics.hypothesis(trace) == "" and not metrics.dropped(trace)
    assert metrics.invariant_violations(trace) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"status": "WAIT", "message": 3.5}, "3.5 minutes"),
        ({"status": "ERROR", "message": "Failed to load model"}, "Failed to load model"),
    ],
)
async def test_a_server_that_says_no_is_one_clear_line(answer: dict[str, Any], reason: str) -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(json.dumps(answer))
        await connection.wait_closed()

    async with served(handler) as url:
        trace = await stream(whisperlive.run_session, url)
    assert trace.problem is not None and reason in trace.problem and metrics.dropped(trace)


@pytest.mark.parametrize("name", ["whisperlive", "whisperlivekit"])
async def test_a_peer_that_is_lost_ends_the_session(name: str) -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.send(json.dumps({"type": "config", "useAudioWorklet": True}))
        if name == "whisperlive":
            await connection.send(json.dumps({"message": "SERVER_READY"}))
            await connection.recv()
        await connection.recv()
        await connection.close(1011, "out of memory")

    async with served(handler) as url, asyncio.timeout(60):
        trace = await stream(WIRES[name], url)
    assert metrics.dropped(trace)
    assert trace.problem is not None


# --- snapshots -----------------------------------------------------------------------------------


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c."]), max_size=4), max_size=8))
def test_the_transcript_is_what_the_peer_ended_with(texts: list[list[str]]) -> None:
    trace = Trace("s")
    snapshots = Snapshots(trace, 0.0)
    for words in texts:
        snapshots.update(" ".join(words), "")
    snapshots.complete()
    assert metrics.hypothesis(trace) == (" ".join(texts[-1]) if texts else "")
    # Text that only ever grew was told without a retraction, and joins to the transcript.
    pairs = zip(texts, texts[1:], strict=False)
    grew = all(" ".join(new).startswith(" ".join(old)) for old, new in pairs)
    assert grew == ("retracted" not in kinds(trace))
    if grew:
        assert metrics.invariant_violations(trace) == []
