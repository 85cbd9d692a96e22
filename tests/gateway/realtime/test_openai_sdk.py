"""The openai package, unmodified, against the gateway."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from lookhear.media.audio.decode import decode_audio
from tests.gateway.fake_engine import transcript
from tests.gateway.running import Running, chunks, tone
from tests.media.audio.encoders import encode_pcm16

SPEECH = Path(__file__).parents[2] / "media" / "data" / "speech.flac"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def sdk(shared: Running) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        api_key="none",
        base_url=f"{shared.http}/v1",
        websocket_base_url=f"ws://127.0.0.1:{shared.port}/v1",
        max_retries=0,
    ) as client:
        yield client


async def test_realtime_with_voice_detection(sdk: AsyncOpenAI) -> None:
    pcm = encode_pcm16(decode_audio(SPEECH, target_rate=24_000).samples)
    texts: dict[str, str] = {}
    async with sdk.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        await connection.session.update(
            session={
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24000},
                        "transcription": {"model": "fake/whisper", "language": "en"},
                        "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
                        "noise_reduction": {"type": "near_field"},
                    }
                },
            }
        )
        for chunk in chunks(pcm + tone(1.0), 4801):
            await connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())
        started: list[str] = []
        stopped: list[str] = []
        completed: list[str] = []
        async for event in connection:
            assert event.type != "error", event
            if event.type == "input_audio_buffer.speech_started":
                started.append(event.item_id)
            elif event.type == "input_audio_buffer.speech_stopped":
                stopped.append(event.item_id)
            elif event.type == "conversation.item.input_audio_transcription.delta":
                assert event.item_id in started
                texts[event.item_id] = texts.get(event.item_id, "") + (event.delta or "")
            elif event.type == "conversation.item.input_audio_transcription.completed":
                assert event.transcript == texts[event.item_id]
                assert event.usage.type == "duration" and event.usage.seconds > 0.5
                completed.append(event.item_id)
                if stopped == completed and len(started) == len(stopped):
                    break
    assert started == stopped == completed
    assert completed


async def test_realtime_with_manual_commits(sdk: AsyncOpenAI) -> None:
    async with sdk.realtime.connect(model="fake/whisper") as connection:
        await connection.session.update(
            session={
                "type": "transcription",
                "audio": {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}},
            }
        )
        for _ in range(10):
            await connection.input_audio_buffer.append(
                audio=base64.b64encode(b"\xff" * 800).decode()
            )
        await connection.input_audio_buffer.commit()
        async for event in connection:
            assert event.type != "error", event
            if event.type == "conversation.item.input_audio_transcription.completed":
                assert event.transcript == transcript(16_000)
                await connection.conversation.item.retrieve(item_id=event.item_id)
            elif event.type == "conversation.item.retrieved":
                assert event.item.type == "message"
                break


async def test_files(sdk: AsyncOpenAI, shared: Running) -> None:
    seconds = decode_audio(SPEECH).duration_s
    with SPEECH.open("rb") as file:
        plain = await sdk.audio.transcriptions.create(model="fake/whisper", file=file)
    assert plain.text == f"transcribe {seconds:.1f} seconds."
    with SPEECH.open("rb") as file:
        verbose = await sdk.audio.transcriptions.create(
            model="fake/whisper",
            file=file,
            language="de",
            prompt="Hut",
            temperature=0.2,
            response_format="verbose_json",
            timestamp_granularities=["word", "segment"],
        )
    assert verbose.language == "german"
    assert verbose.segments is not None and verbose.words is not None
    assert verbose.segments[0].text.strip() == verbose.text
    assert verbose.words[0].word == "seconds."
    sent = shared.engine.files[-1]
    assert (sent.settings.language, sent.settings.prompt) == ("de", "Hut")
    assert (sent.timestamps, sent.temperature, sent.settings.words) == (True, 0.2, True)
    with SPEECH.open("rb") as file, pytest.deprecated_call():  # OpenAI's, but still in use
        english = await sdk.audio.translations.create(model="fake/whisper", file=file)
    assert english.text.startswith("translate")


async def test_streamed_file(sdk: AsyncOpenAI) -> None:
    with SPEECH.open("rb") as file:
        stream = await sdk.audio.transcriptions.create(model="fake/whisper", file=file, stream=True)
        events = [event async for event in stream]
    assert [event.type for event in events] == ["transcript.text.delta", "transcript.text.done"]
    assert events[0].delta == events[1].text  # type: ignore[union-attr]


async def test_models(sdk: AsyncOpenAI) -> None:
    listed = await sdk.models.list()
    assert [model.id for model in listed.data] == ["fake/whisper", "fake-english"]
    assert (await sdk.models.retrieve("fake/whisper")).object == "model"  # sent as %2F
    with pytest.raises(openai.NotFoundError) as missing:
        await sdk.models.retrieve("whisper-9")
    assert missing.value.code == "model_not_found"


async def test_errors_are_the_named_ones(sdk: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        await sdk.audio.transcriptions.create(model="fake/whisper", file=("a.wav", b"no audio"))
    assert bad.value.code == "invalid_audio"
    assert bad.value.param == "file"
