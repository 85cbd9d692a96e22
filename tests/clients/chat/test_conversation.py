"""A conversation over one socket: what is said, heard and answered, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from lookhear import (
    AnswerCompleted,
    AnswerDelta,
    AsyncClient,
    AuthenticationError,
    ConnectionFailed,
    Conversation,
    InvalidRequest,
    ProtocolError,
    ServerError,
    SourceError,
    Usage,
)
from lookhear.chat.answers import Answer
from lookhear.chat.reconnecting import ConversationOptions
from lookhear.commands.private_server import free_port
from lookhear.transport.address import Server
from tests.clients.talking_server import TalkingServer

PNG = b"\x89PNG\r\n\x1a\n, or so it begins"


def chunks() -> Iterator[bytes]:
    """Two seconds and a half, unevenly cut."""
    yield bytes(48_000 * 2 + 1)
    yield bytes(23_999)


async def test_a_picture_a_spoken_question_and_an_answer() -> None:
    async with TalkingServer().running() as server:
        async with AsyncClient(server.url).conversation(language="en") as talk:
            assert talk.model == "seer"
            await talk.add_image(PNG, detail="high")
            assert await talk.add_audio(chunks()) == "60000 samples"
            answer = talk.respond()
            words = [text async for text in answer]
            assert words == ["seen: ", "data:image/png; ", "60000 ", "samples "]
            usage = Usage(prompt=70, output=3, cached=64, image=49)
            assert answer.completed == AnswerCompleted("".join(words), "stop", usage=usage)
            await talk.add_text("And?")
            assert (await talk.respond().read()).text.endswith("samples And? ")
    (update,) = server.events("session.update")
    assert update["session"] == {
        "type": "realtime",
        "output_modalities": ["text"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24_000},
                "transcription": {"language": "en"},
                "turn_detection": None,
            }
        },
    }
    image = server.events("conversation.item.create")[0]["item"]
    assert image["role"] == "user" and image["content"][0]["detail"] == "high"
    assert server.paths == ["/v1/realtime"] and len(server.events("input_audio_buffer.commit")) == 1


async def test_what_is_asked_for_reaches_the_server() -> None:
    async with TalkingServer().running() as server:
        client = AsyncClient(server.url)
        async with client.conversation(
            model="a/b", instructions="Be brief.", max_tokens=9, transcription_model="ear"
        ) as talk:
            item = await talk.add("What?", images=["https://example.org/a.png", PNG])
            await talk.add_text("Yes.", role="assistant")
            await talk.delete(item)
            await talk.respond(instructions="Shout.", max_tokens=2, extra={"metadata": {}}).read()
    session = server.events("session.update")[0]["session"]
    assert session["model"] == "a/b" and session["instructions"] == "Be brief."
    assert session["max_output_tokens"] == 9
    assert session["audio"]["input"]["transcription"] == {"model": "ear"}
    first, second = (event["item"] for event in server.events("conversation.item.create"))
    assert first["id"] == item
    assert [part["type"] for part in first["content"]] == ["input_image"] * 2 + ["input_text"]
    assert second["content"] == [{"type": "output_text", "text": "Yes."}]
    assert server.events("conversation.item.delete")[0]["item_id"] == item
    wanted = {"instructions": "Shout.", "max_output_tokens": 2, "metadata": {}}
    assert server.events("response.create")[0]["response"] == wanted
    assert server.paths == ["/v1/realtime?model=a%2Fb"]


async def first_word(answer: Answer) -> str:
    return await anext(answer)


async def test_leaving_an_answer_cancels_it_and_the_next_begins() -> None:
    async with TalkingServer(hold=True).running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            async with talk.respond() as answer:
                assert await first_word(answer) == "seen: "
            assert len(server.events("response.cancel")) == 1
            forgotten = talk.respond()
            assert await first_word(forgotten) == "seen: "
            server.hold = False
            assert (await talk.respond().read()).finish_reason == "stop"
            assert len(server.events("response.cancel")) == 2
            # What was still told about it is kept: it ends as what it is.
            completed = await forgotten.read()
            assert completed == AnswerCompleted("seen: ", "cancelled", usage=completed.usage)


async def test_cancelling_the_task_cancels_the_answer() -> None:
    async with TalkingServer(hold=True).running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            started = asyncio.Event()

            async def ask() -> None:
                async with talk.respond() as answer:
                    async for _ in answer:
                        started.set()

            task = asyncio.create_task(ask())
            await started.wait()
            task.cancel()
            await asyncio.wait([task])
            assert len(server.events("response.cancel")) == 1
            server.hold = False
            assert (await talk.respond().read()).text == "seen: "


@pytest.mark.parametrize(
    ("status", "details", "reason"),
    [
        ("incomplete", {"reason": "max_output_tokens"}, "length"),
        ("incomplete", {"reason": "content_filter"}, "content_filter"),
        ("cancelled", {"reason": "turn_detected"}, "cancelled"),
    ],
)
async def test_how_an_answer_ended(status: str, details: dict[str, Any], reason: str) -> None:
    async with TalkingServer(status=status, details=details).running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            events = [event async for event in talk.respond().events()]
    assert events[0] == AnswerDelta("seen: ")
    assert isinstance(events[-1], AnswerCompleted) and events[-1].finish_reason == reason


async def test_an_answer_that_fails_leaves_the_conversation_usable() -> None:
    error = {"type": "server_error", "code": "x", "message": "too much"}
    async with TalkingServer(status="failed", details={"error": error}).running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            with pytest.raises(ServerError, match="too much"):
                await talk.respond().read()
            server.status = "completed"
            assert (await talk.respond().read()).text == "seen: "


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
async def test_refusals_are_raised_where_they_belong(named: bool) -> None:
    refusal: dict[str, Any] = {"code": "invalid_value", "param": "item.content[0].image_url"}
    if not named:
        refusal["event_id"] = None
    kinds = ("conversation.item.create", "response.create", "conversation.item.delete")
    async with TalkingServer(refuse=dict.fromkeys(kinds, refusal)).running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            with pytest.raises(InvalidRequest) as caught:
                await talk.add_image(PNG)
            assert caught.value.param == "item.content[0].image_url"
            with pytest.raises(InvalidRequest):
                await talk.respond().read()
            with pytest.raises(InvalidRequest):
                await talk.delete("item_1")
            server.refuse.clear()
            await talk.add_text("still here")
            assert (await talk.respond().read()).text == "seen: still here "
    assert not server.events("response.cancel")


async def test_a_refused_session_is_not_entered() -> None:
    refusal = {"session.update": {"code": "model_not_found", "message": "no model can chat"}}
    async with TalkingServer(refuse=refusal).running() as server:
        with pytest.raises(ServerError, match="no model can chat"):
            async with AsyncClient(server.url).conversation():
                raise AssertionError("entered")


@pytest.mark.parametrize("kinds", [["append"], ["commit"], ["append", "commit", "clear"]])
async def test_speech_that_is_refused(kinds: list[str]) -> None:
    refusal = {"message": "no model can transcribe"}
    refuse = {f"input_audio_buffer.{kind}": refusal for kind in kinds}
    async with TalkingServer(refuse=refuse).running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            with pytest.raises(InvalidRequest, match="no model can transcribe"):
                await talk.add_audio(chunks())
            # What is still said about those pieces is about nothing that is waited for.
            server.refuse.clear()
            assert await talk.add_audio(chunks()) == "60000 samples"


async def test_who_speaks_meanwhile_is_heard_afterwards() -> None:
    async with TalkingServer().running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            said = await asyncio.gather(talk.add_audio(chunks()), talk.add_audio(chunks()))
            assert list(said) == ["60000 samples", "60000 samples"]
            assert (await talk.respond().read()).text == "seen: 60000 samples 60000 samples "


async def test_speech_that_cannot_be_transcribed() -> None:
    async with TalkingServer(deaf=True).running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            with pytest.raises(ServerError, match="cannot hear"):
                await talk.add_audio(chunks())
            server.deaf = False
            assert await talk.add_audio(chunks()) == "120000 samples"


async def test_a_broken_source_leaves_nothing_behind() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield bytes(4_000)
        raise SourceError("the microphone was pulled out")

    async with TalkingServer().running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            with pytest.raises(SourceError, match="pulled out"):
                await talk.add_audio(broken())
            assert await talk.add_audio(chunks()) == "60000 samples"


@pytest.mark.parametrize(
    ("code", "error", "kind", "words"),
    [
        (1008, None, ServerError, "code 1008"),
        (1009, None, ServerError, "code 1009"),
        (3000, None, AuthenticationError, "by the script"),
    ],
)
async def test_a_close_that_is_meant_ends_the_conversation(
    code: int, error: dict[str, Any] | None, kind: type[Exception], words: str
) -> None:
    async with TalkingServer(close=code, error=error).running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            with pytest.raises(kind, match=words):
                await talk.respond().read()
            for again in (talk.add_text("hello?"), talk.add_audio(chunks()), talk.respond().read()):
                with pytest.raises(kind, match=words):
                    await again


async def test_a_malformed_event_ends_it_too() -> None:
    error: Any = "not an object"
    async with TalkingServer(close=1000, error=error).running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            with pytest.raises(ProtocolError, match="expected an object"):
                await talk.respond().read()


async def test_no_server_and_no_entering() -> None:
    client = AsyncClient(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ConnectionFailed, match="cannot reach"):
        async with client.conversation():
            raise AssertionError("entered")
    with pytest.raises(ConnectionFailed, match="async with"):
        await client.conversation().add_text("hello?")


async def test_what_was_closed_says_so() -> None:
    async with TalkingServer().running() as server:
        async with AsyncClient(server.url).conversation() as talk:
            await talk.add_text("hello?")
        uses = (talk.add_text(""), talk.add_audio(chunks()), talk.respond().read())
        for use in (*uses, talk.show_frame(PNG), talk.__aenter__()):
            with pytest.raises(ConnectionFailed, match="the conversation was closed"):
                await use
    assert len(server.told) == 1


async def test_a_server_that_falls_silent() -> None:
    async with TalkingServer(hold=True).running() as server:
        async with Conversation(Server(server.url), ConversationOptions()) as talk:
            channel = await talk._connection.channel()
            channel._answer_seconds = 0.05
            with pytest.raises(ConnectionFailed, match="stopped answering"):
                await talk.respond().read()
