"""A conversation whose connection breaks: told again, asked again, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from lookhear import (
    AnswerCompleted,
    AnswerDelta,
    AnswerRestarted,
    AsyncClient,
    Client,
    ConnectionFailed,
    Conversation,
    InvalidRequest,
    Retry,
    ServerError,
)
from lookhear.chat.conversation_log import MAX_ITEMS, ConversationLog
from lookhear.chat.reconnecting import ConversationOptions
from lookhear.sources.repeatable import RepeatableAudio
from lookhear.transport.address import Server
from tests.clients.counting_server import Drop
from tests.clients.talking_server import TalkingServer
from tests.clients.threads import on_thread

PNG = b"\x89PNG\r\n\x1a\n, or so it begins"
FRAME = "lookhear.input_video_frame.append"
AT_ONCE = Retry(tries=5, first=0.0)


def chunks() -> Iterator[bytes]:
    """Two seconds and a half, unevenly cut."""
    yield bytes(48_000 * 2 + 1)
    yield bytes(23_999)


async def talked(server: TalkingServer) -> tuple[list[str], Conversation]:
    """All that the client got in a conversation with everything in it."""
    got = []
    async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
        await talk.add_image(PNG)
        forgotten = await talk.add_text("Forget this.")
        got.append(await talk.add_audio(chunks()))
        got += [text async for text in talk.respond()]
        await talk.delete(forgotten)
        for second in range(3):
            await talk.show_frame(PNG, float(second))
        await talk.add_text("And now?")
        got.append((await talk.respond(extra={"conversation": "none"}).read()).text)
        got += [text async for text in talk.respond()]
    return got, talk


TOLD = [
    "user: data:image/png;",
    "user: 60000 samples",
    "assistant: seen: data:image/png; Forget this. 60000 samples ",
    *(f"frame at {1000 * second}" for second in range(3)),
    "user: And now?",
]


async def test_undisturbed() -> None:
    async with TalkingServer().running() as server:
        got, talk = await talked(server)
    assert got[0] == "60000 samples" and "".join(got).count("seen: ") == 3
    assert talk.reconnects == 0
    assert server.told == [[TOLD[0], "user: Forget this.", TOLD[1], *TOLD[3:]]]


@pytest.mark.parametrize("code", [None, 1012])
async def test_a_drop_at_any_event_loses_nothing(code: int | None) -> None:
    async with TalkingServer().running() as server:
        expected, _ = await talked(server)
    drops = 0
    for after in range(2, 200):
        async with TalkingServer(drops=[Drop(after_events=after, code=code)]).running() as server:
            got, talk = await talked(server)
        if talk.reconnects == 0:
            break
        drops += 1
        assert got == expected, after
        if "user: Forget this." not in server.told[-1]:  # it was deleted when the connection broke
            assert server.told[-1] == TOLD, after
    assert drops > 30, drops


async def test_what_was_said_keeps_its_place_though_its_transcript_comes_late() -> None:
    async with TalkingServer(drops=[Drop(after_events=12)], slow=1).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            saying = asyncio.create_task(talk.add_audio(chunks()))
            await server.committing.wait()
            answer = await talk.respond().read()
            assert await saying == "60000 samples"
            await talk.add_text("And?")
    assert talk.reconnects == 1
    assert server.told[-1] == ["user: 60000 samples", f"assistant: {answer.text}", "user: And?"]


async def test_what_was_typed_before_or_behind_what_was_said_stays_there() -> None:
    async with TalkingServer(drops=[Drop(after_events=11)], slow=2).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            typing = asyncio.create_task(talk.add_text("Before."))
            saying = asyncio.create_task(talk.add_audio(chunks()))
            await server.committing.wait()
            await talk.add_text("Behind.")
            await talk.add_text("Far behind.")
            await asyncio.gather(typing, saying)
            await talk.add_text("And?")
    assert talk.reconnects == 1 and server.told[0] == server.told[-1]
    assert server.told[0][:2] == ["user: Before.", "user: 60000 samples"]
    assert server.told[0][2:] == ["user: Behind.", "user: Far behind.", "user: And?"]


async def test_an_answer_that_nobody_read_to_its_end_is_told_again_too() -> None:
    async with TalkingServer(drops=[Drop(after_events=7)]).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            events = talk.respond().events()
            async for event in events:
                if isinstance(event, AnswerCompleted):
                    break
            await talk.add_text("And?")
    assert server.told[-1] == ["assistant: seen: ", "user: And?"]


async def test_hanging_up_ends_the_seeking() -> None:
    async with TalkingServer(drops=[Drop(after_events=2)]).running() as server:
        talk = AsyncClient(server.url, retry=Retry(tries=3, first=60.0, cap=60.0)).conversation()
        async with talk:
            adding = asyncio.create_task(talk.add_text("hello?"))
            while not talk._connection._restoring.locked():
                await asyncio.sleep(0)
        with pytest.raises(ConnectionFailed, match="closed with 1006"):
            await adding
        assert len(server.told) == 1


async def test_drop_after_drop() -> None:
    drops = [Drop(after_events=after) for after in (4, 9, 0, 20, 25)]
    async with TalkingServer(drops=drops).running() as server:
        got, talk = await talked(server)
    assert talk.reconnects >= 3 and got[0] == "60000 samples"
    assert server.told[-1] == TOLD


@pytest.mark.parametrize("named", [True, False])
async def test_a_server_that_says_why_it_goes_is_sought_again(named: bool) -> None:
    error: dict[str, Any] = {"type": "server_error", "code": "engine_died", "message": "it died"}
    drops = [Drop(after_events=9, code=1012, error=error)] * (1 + named)
    async with TalkingServer(drops=drops).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            events = [event async for event in talk.respond().events()]
            await talk.add_text("And?")
            assert (await talk.respond().read()).text == "seen: And? "
    assert isinstance(events[-1], AnswerCompleted) and talk.reconnects >= 1


async def test_what_began_again_is_an_event() -> None:
    async with TalkingServer(drops=[Drop(after_events=6)], wavers=True).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            events = [event async for event in talk.respond().events()]
    first, restarted, second, completed = events
    assert first == AnswerDelta("seen1: ") and second == AnswerDelta("seen2: ")
    assert isinstance(restarted, AnswerRestarted) and "closed with 1006" in restarted.reason
    assert isinstance(completed, AnswerCompleted) and completed.text == "seen2: "


async def test_text_that_would_have_to_be_taken_back_is_an_error() -> None:
    async with TalkingServer(drops=[Drop(after_events=6)], wavers=True).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            answer = talk.respond()
            assert await anext(answer) == "seen1: "
            with pytest.raises(ConnectionFailed, match="answers differently"):
                await anext(answer)
            await answer.aclose()
            assert (await talk.respond().read()).text == "seen2: "


async def test_a_full_server_is_asked_again_when_it_says(caplog: pytest.LogCaptureFixture) -> None:
    async with TalkingServer(refusals=[0, 0]).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            assert (await talk.respond().read()).text
        assert talk.reconnects == 0
    assert [line.count("all places are taken; trying again in") for line in caplog.messages] == [
        1,
        1,
    ]
    server.refusals = [61, 61]  # more than it may take; no more than a minute is waited at a time
    async with server.running():
        retry = Retry(first=0.0, refused=59.0)
        with pytest.raises(ServerError, match="all places are taken") as refused:
            await AsyncClient(server.url, retry=retry).conversation().__aenter__()
    assert refused.value.retry_after == 60.0 and server.refusals == [61]


async def test_a_server_that_loads_its_model_is_waited_for_longer_than_a_full_one() -> None:
    body = {"error": {"code": "engine_not_ready", "message": "the model loads"}}
    retry = Retry(first=0.0, refused=0.0)
    async with TalkingServer(refusals=[0] * 5, refusal=json.dumps(body)).running() as server:
        async with AsyncClient(server.url, retry=retry).conversation() as talk:
            assert (await talk.respond().read()).text
    assert not server.refusals


async def test_a_server_that_does_not_come_back() -> None:
    async with TalkingServer(drops=[Drop(after_events=2)]).running() as server:
        talk = AsyncClient(server.url, retry=Retry(tries=2, first=0.0)).conversation()
        await talk.__aenter__()
        channel = await talk._connection.channel()
        with pytest.raises(ConnectionFailed, match="no close frame"):
            await channel.ask({"type": "conversation.item.delete", "item_id": "a"}, bool)
    for again in (talk.add_text("hello?"), talk.add_audio(chunks()), talk.respond().read()):
        with pytest.raises(ConnectionFailed, match="2 tries did not bring it back"):
            await again
    await talk.aclose()


async def test_a_server_that_breaks_every_time() -> None:
    async with TalkingServer(close=1001).running() as server:
        retry = Retry(tries=2, first=0.0)
        async with AsyncClient(server.url, retry=retry).conversation() as talk:
            with pytest.raises(ConnectionFailed, match="closed with 1001: by the script"):
                await talk.respond().read()
    assert len(server.told) == 3


async def test_a_server_that_does_not_take_it_again() -> None:
    async with TalkingServer(drops=[Drop(after_events=4)]).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            await talk.add_image(PNG)
            server.refuse["conversation.item.create"] = {"message": "no such picture"}
            for _ in range(2):
                with pytest.raises(ConnectionFailed, match="conversation again: no such picture"):
                    await talk.respond().read()


async def test_a_frame_that_was_refused_is_not_told_again() -> None:
    async with TalkingServer(drops=[Drop(after_events=8)]).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            await talk.show_frame(PNG, 0.0)
            await talk.add_text("Look.")  # the server has the frame when it replies to this
            server.refuse[FRAME] = {"message": "no picture"}
            await talk.show_frame(PNG, 1.0)
            await talk.add_text("What is this?")  # here the refusal comes before the reply
            server.refuse.clear()
            assert (await talk.respond().read()).text == "seen: Look. What is this? "
    assert talk.reconnects == 1
    assert server.told[-1] == ["frame at 0", "user: Look.", "user: What is this?"]


async def test_a_frame_that_is_refused_when_it_is_told_again() -> None:
    async with TalkingServer(drops=[Drop(after_events=5)]).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            await talk.show_frame(PNG, 0.0)
            await talk.add_text("What is this?")
            server.refuse[FRAME] = {"message": "no picture"}
            assert (await talk.respond().read()).text == "seen: What is this? "
            with pytest.raises(InvalidRequest, match="no picture"):
                await talk.show_frame(PNG, 1.0)
    assert talk.reconnects == 1 and server.told[-1] == ["user: What is this?"]


async def test_a_server_that_no_longer_has_the_model() -> None:
    async with TalkingServer(drops=[Drop(after_events=2)]).running() as server:
        async with AsyncClient(server.url, retry=AT_ONCE).conversation() as talk:
            server.refuse["session.update"] = {"code": "model_not_found", "message": "no seer"}
            with pytest.raises(ServerError, match="no seer"):
                await talk.respond().read()


async def test_a_question_too_long_to_say_again() -> None:
    question = RepeatableAudio(_pieces(), keep_seconds=1.0)
    first = [block async for block in question.from_start()]
    assert b"".join(first) == b"".join(chunks()) and not question.repeatable
    options = ConversationOptions(retry=AT_ONCE)
    async with TalkingServer().running() as server:
        async with Conversation(Server(server.url), options) as talk:
            with pytest.raises(ConnectionFailed, match="too long to say again"):
                await talk._say(await talk._connection.channel(), question)


async def _pieces() -> Any:
    for chunk in chunks():
        yield chunk


async def test_a_question_is_read_once_and_said_as_often_as_needed() -> None:
    question = RepeatableAudio(_pieces())
    reading = question.from_start()
    first = await anext(reading)
    await reading.aclose()
    assert len(first) == 48_000
    assert b"".join([block async for block in question.from_start()]) == b"".join(chunks())
    assert b"".join([block async for block in question.from_start()]) == b"".join(chunks())


def test_the_blocking_conversation_says_the_same() -> None:
    server = TalkingServer(drops=[Drop(after_events=5)])
    with on_thread(server.running()), Client(server.url, retry=AT_ONCE) as client:
        with client.conversation(instructions="Be brief.") as talk:
            assert talk.model == "seer"
            picture = talk.add_image(PNG)
            assert talk.add_audio(chunks()) == "60000 samples"
            assert "".join(talk.respond()) == "seen: data:image/png; 60000 samples "
            talk.show_frame(PNG)
            talk.forget_frames()
            talk.delete(picture)
            talk.add_text("And?")
            assert talk.respond(max_tokens=9).read().text.endswith("And? ")
            assert talk.reconnects == 1


def frame_at(milliseconds: int) -> dict[str, Any]:
    return {"type": FRAME, "image": PNG, "timestamp_ms": milliseconds}


def test_the_camera_is_remembered_as_the_server_does() -> None:
    log = ConversationLog(frames=4, frames_per_second=1.0)
    log.created({"id": "a"})
    for tenth in range(200):
        log.seen(frame_at(tenth * 100))
    log.created({"id": "b"})
    times = [e["timestamp_ms"] for item, e in log.events() if item is None]
    assert times[-4:] == [16_000, 17_000, 18_000, 19_000] and len(times) <= 8
    assert times == sorted(times) and times[0] == 0
    assert [item for item, _ in log.events() if item is not None] == ["a", "b"]
    log.forget_frames()
    log.seen(frame_at(0))
    assert [e.get("timestamp_ms") for _, e in log.events()] == [None, None, 0]


@pytest.mark.parametrize("before", [[], [0]])
def test_what_comes_soon_after_a_refused_frame_is_remembered(before: list[int]) -> None:
    log = ConversationLog(frames_per_second=4.0)
    for milliseconds in before:
        log.seen(frame_at(milliseconds))
    log.seen({**frame_at(1000), "event_id": "broken"})
    log.refused("broken")
    log.seen(frame_at(1100))
    log.seen(frame_at(1200))
    assert [event["timestamp_ms"] for _, event in log.events()] == [*before, 1100]


def test_an_answer_keeps_its_place_whatever_goes_meanwhile() -> None:
    log = ConversationLog(frames=4, frames_per_second=1.0)
    for second in range(8):
        log.seen(frame_at(second * 1000))
    log.created({"id": "a"})
    log.created({"id": "asked"})
    place = log.place()
    log.deleted("a")
    for second in range(8, 12):  # older ones are thinned
        log.seen(frame_at(second * 1000))
    log.answered("answer", "Green.", place)
    told = [item or event["timestamp_ms"] for item, event in log.events()]
    assert told[told.index("asked") :] == ["asked", "answer", 8_000, 9_000, 10_000, 11_000]


def test_the_log_is_bounded() -> None:
    log = ConversationLog()
    for number in range(2 * MAX_ITEMS):
        log.created({"id": str(number)})
    log.spoken("silence", "")
    kept = [item for item, _ in log.events()]
    assert len(kept) <= MAX_ITEMS + 32 and kept[-1] == str(2 * MAX_ITEMS - 1)
