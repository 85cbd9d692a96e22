"""Chat and conversations with our own gateway, its engine a fake that tells what it was shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest

from lookhear import (
    AsyncClient,
    InvalidRequest,
    ModelNotFound,
    ReasoningDelta,
    ServerError,
    message,
)
from lookhear.engine.client.client import EngineRequestError
from lookhear.gateway.config import GatewayConfig
from tests.gateway.chatting import jpeg, png
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.fetching.test_fetcher import ok, says, serving
from tests.gateway.files.test_http import wav
from tests.gateway.running import Running, running, tone


@pytest.fixture
async def gateway() -> AsyncIterator[Running]:
    config = GatewayConfig(port=0, strict_models=True)
    async with running(config, FakeEngine(sees=True)) as gateway:
        yield gateway


async def test_questions_over_http(gateway: Running) -> None:
    client = AsyncClient(gateway.http)
    asked = client.chat("What?", images=[png(40, 30), jpeg(64, 32)], detail="low")
    texts = [text async for text in asked]
    assert "".join(texts) == "picture 40x30, picture 64x32, you said What?" and len(texts) > 3
    assert asked.completed is not None and asked.completed.usage is not None
    assert asked.completed.finish_reason == "stop" and asked.completed.usage.image == 4
    said = [message("user", "One", images=[png()]), message("assistant", "a"), message("user", "2")]
    again = await client.chat(said, max_tokens=2).read()
    assert (again.text, again.finish_reason) == ("picture 40x30,", "length")


async def test_thoughts_are_told_apart(gateway: Running) -> None:
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    client = AsyncClient(gateway.http)
    whole = await client.chat("What?", extra=thinking).read()
    assert whole.text == "you said What?" and whole.reasoning.strip() == "let me look"
    async with client.conversation(extension={**thinking, "reasoning": True}) as talk:
        await talk.add_text("What?")
        events = [event async for event in talk.respond().events()]
        assert isinstance(events[0], ReasoningDelta)


async def test_what_is_refused_names_its_place(gateway: Running) -> None:
    client = AsyncClient(gateway.http)
    with pytest.raises(InvalidRequest, match="image") as caught:
        await client.chat("What?", images=[b"no picture"]).read()
    assert caught.value.param is not None and "messages[0].content[0]" in caught.value.param
    with pytest.raises(ModelNotFound):
        await client.chat("What?", model="no/such").read()
    async with client.conversation() as talk:
        with pytest.raises(InvalidRequest) as caught:
            await talk.add_image(b"no picture")
        assert caught.value.param == "item.content[0].image_url"
        await talk.add_text("Still here?")
        assert (await talk.respond().read()).text == "you said Still here?"


@pytest.mark.parametrize("model", [None, "fake/vision"])
async def test_a_conversation(gateway: Running, model: str | None) -> None:
    client = AsyncClient(gateway.http)
    async with client.conversation(model=model, transcription_model="fake/whisper") as talk:
        assert talk.model == "fake/vision"
        picture = await talk.add_image(png())
        assert await talk.add_audio(iter([tone(0.5)])) == "w0 w1 w2 w3 w4"
        answer = talk.respond()
        assert "".join([text async for text in answer]) == (
            "picture 40x30, you said w0 w1 w2 w3 w4"
        )
        assert answer.completed is not None and answer.completed.usage is not None
        assert answer.completed.usage.image == 2
        await talk.delete(picture)
        await talk.add_text("And now?")
        assert (await talk.respond(max_tokens=2).read()).finish_reason == "length"


async def test_a_camera(gateway: Running) -> None:
    async with AsyncClient(gateway.http).conversation() as talk:
        for second in range(5):
            await talk.show_frame(png(color=(50 * second, 0, 0)), float(second))
        await talk.add_text("What now?")
        assert (await talk.respond().read()).text == "video 5 x 40x30, you said What now?"
        await talk.show_frame(b"no picture", 5.0)
        await talk.forget_frames()
        await talk.show_frame(png(), 0.0)
        await talk.show_frame(b"no picture", 1.0)
        await talk.add_text("And now?")  # answered in order, so the error is here
        with pytest.raises(InvalidRequest, match="image"):
            await talk.show_frame(png(), 2.0)
        assert (await talk.respond().read()).text == "video 1 x 40x30, you said And now?"


async def test_leaving_early_cancels(gateway: Running) -> None:
    client, chat = AsyncClient(gateway.http), gateway.engine.chat
    chat.hold = True
    async with client.conversation() as talk:
        await talk.add_text("What?")
        async with talk.respond() as answer:
            assert await anext(answer) == "you"
        assert len(chat.cancelled) == 1
        chat.hold = False
        await talk.add_text("And?")
        assert (await talk.respond().read()).text == "you said And?"


async def test_no_ears_and_no_eyes() -> None:
    engine = FakeEngine(sees=True)
    engine.models = [model for model in engine.models if model.can("chat")]
    async with running(engine=engine) as gateway:
        async with AsyncClient(gateway.http).conversation() as talk:
            with pytest.raises(InvalidRequest, match="transcri"):
                await talk.add_audio(iter([tone(0.5)]))
            await talk.add_text("What?")
            assert (await talk.respond().read()).text == "you said What?"
    async with running() as gateway:
        client = AsyncClient(gateway.http)
        with pytest.raises(InvalidRequest):
            await client.chat("What?").read()
        with pytest.raises(InvalidRequest):
            async with client.conversation():
                raise AssertionError("entered")


@pytest.mark.parametrize("form", ["text", "srt", "verbose_json"])
async def test_a_file_tells_how_far_it_is(gateway: Running, form: str) -> None:
    """And the answer is the one that would have come at once."""
    gateway.engine.file_segments = [" One", " two.", " Three."]
    client, shares = AsyncClient(gateway.http), list[float]()
    told = await client.transcribe_raw(wav(1.0), form, on_share=shares.append)
    assert shares == pytest.approx([1 / 3, 2 / 3, 1.0], abs=0.001)
    assert told == await client.transcribe_raw(wav(1.0), form)


async def test_what_is_wrong_with_a_file_that_tells_is_said_as_ever(gateway: Running) -> None:
    client = AsyncClient(gateway.http)
    with pytest.raises(InvalidRequest) as caught:
        await client.transcribe_raw(b"no audio", "text", on_share=print)
    assert caught.value.param == "file"
    gateway.engine.file_segments = [" One"]
    gateway.engine.file_error = EngineRequestError("server_error", "it broke")
    with pytest.raises(ServerError, match="it broke"):
        await client.transcribe_raw(wav(1.0), "text", on_share=print)


async def test_a_file_is_asked_of_the_first_model_that_transcribes(gateway: Running) -> None:
    gateway.engine.models.sort(key=lambda model: not model.can("chat"))
    client = AsyncClient(gateway.http)
    assert "transcribe" not in (await client.models())[0].abilities
    assert await client.transcribe_raw(wav(1.0), "text") == "transcribe 1.0 seconds.\n"
    assert (await client.transcribe_file(wav(1.0))).text == "transcribe 1.0 seconds."


async def test_a_file_by_its_url_is_fetched_by_the_server() -> None:
    config = GatewayConfig(port=0, allow_networks=(ip_network("127.0.0.0/8"),))
    async with running(config) as gateway, serving(says(ok(wav(1.5)))) as port:
        url, shares = f"http://127.0.0.1:{port}/talk.wav", list[float]()
        client = AsyncClient(gateway.http)
        assert await client.transcribe_raw(url, "text") == "transcribe 1.5 seconds.\n"
        told = await client.transcribe_raw(url, "text", on_share=shares.append)
        assert told == "transcribe 1.5 seconds.\n"
