"""The openai package's realtime client, unmodified, against the real thing."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from lookhear.commands.private_server import ServerProcess
from lookhear.wer import word_errors
from tests.end_to_end.conftest import Talk
from tests.gateway.strict import check

DATA = Path(__file__).parents[1] / "data"


async def test_it_transcribes_a_file_and_every_frame_is_valid(
    server: ServerProcess, talks: dict[str, Talk]
) -> None:
    talk = talks["en"]
    texts: dict[str, str] = {}  # joined deltas
    turns: dict[str, str] = {}  # transcripts
    order: list[str] = []  # of speaking; turns may complete in another
    async with AsyncOpenAI(
        api_key="none", base_url=f"{server.address.base_url}/v1", max_retries=0
    ) as sdk:
        extra = {"intent": "transcription"}
        async with sdk.realtime.connect(extra_query=extra) as connection:
            await connection.session.update(
                session={
                    "type": "transcription",
                    "audio": {
                        "input": {
                            "format": {"type": "audio/pcm", "rate": 24000},
                            "turn_detection": {"type": "server_vad"},
                        }
                    },
                }
            )
            data = talk.pcm.tobytes()
            for first in range(0, len(data), 48_000):
                chunk = base64.b64encode(data[first : first + 48_000]).decode()
                await connection.input_audio_buffer.append(audio=chunk)
            while len(order) < len(talk.utterances) or len(turns) < len(order):
                frame = await connection.recv_bytes()
                check(json.loads(frame))
                event = connection.parse_event(frame)
                assert event.type != "error", event
                if event.type == "input_audio_buffer.speech_stopped":
                    order.append(event.item_id)
                elif event.type == "conversation.item.input_audio_transcription.delta":
                    texts[event.item_id] = texts.get(event.item_id, "") + (event.delta or "")
                elif event.type == "conversation.item.input_audio_transcription.completed":
                    assert texts[event.item_id] == event.transcript
                    turns[event.item_id] = event.transcript
    text = " ".join(turns[item] for item in order)
    assert word_errors(talk.text, text).rate <= 0.15, text


@pytest.mark.parametrize("language", ["en", "de"])
async def test_a_long_file_is_streamed_as_it_is_written(
    server: ServerProcess, language: str
) -> None:
    """By the package unmodified; and it is the text that comes at once."""
    url = f"{server.address.base_url}/v1"
    async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as sdk:
        files = sdk.audio.transcriptions
        deltas: list[str] = []
        asked: dict[str, Any] = {"model": "demo-whisper", "language": language}
        with (DATA / f"long_{language}.opus").open("rb") as file:
            async for event in await files.create(**asked, file=file, stream=True):
                if event.type == "transcript.text.delta":
                    deltas.append(event.delta)
                    continue
                assert event.type == "transcript.text.done" and event.usage is not None
                done, used = event.text, event.usage
        with (DATA / f"long_{language}.opus").open("rb") as file:
            whole = await files.create(**asked, file=file, response_format="verbose_json")
    assert "".join(deltas) == done == whole.text and whole.segments is not None
    assert len(deltas) > 3 and len(deltas) <= len(whole.segments)
    assert used.input_token_details is not None
    audio = used.input_token_details.audio_tokens
    # Of each window all was read, and of pauses not all: fifty places a second.
    assert audio is not None and 0.5 <= audio / (50 * whole.duration) <= 3.0
    assert used.output_tokens == sum(len(segment.tokens) for segment in whole.segments)
    assert used.total_tokens == used.input_tokens + used.output_tokens
