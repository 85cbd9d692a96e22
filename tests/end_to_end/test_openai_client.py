"""The openai package's realtime client, unmodified, against the real thing."""

from __future__ import annotations

import base64
import json

from openai import AsyncOpenAI

from lookhear.commands.private_server import ServerProcess
from lookhear.wer import word_errors
from tests.end_to_end.conftest import Talk
from tests.gateway.strict import check


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
