# README: openai_realtime
"""Live transcription with the unmodified `openai` package."""

import asyncio
import base64
import wave

from openai import AsyncOpenAI

client = AsyncOpenAI(
    api_key="unused",
    base_url="http://127.0.0.1:8000/v1",
    websocket_base_url="ws://127.0.0.1:8000/v1",
)


async def main() -> None:
    with wave.open("question.wav", "rb") as sound:  # 16-bit mono at 24 kHz
        pcm = sound.readframes(sound.getnframes())
    async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        await connection.session.update(
            session={
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24_000},
                        "turn_detection": None,  # this program says where it ends
                    }
                },
            }
        )
        for start in range(0, len(pcm), 9_600):  # 0.2 seconds
            audio = base64.b64encode(pcm[start : start + 9_600]).decode()
            await connection.input_audio_buffer.append(audio=audio)
        await connection.input_audio_buffer.commit()
        async for event in connection:
            if event.type == "conversation.item.input_audio_transcription.delta":
                print(event.delta, end="", flush=True)
            elif event.type == "conversation.item.input_audio_transcription.completed":
                print()
                break


asyncio.run(main())
