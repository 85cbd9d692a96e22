# openai_realtime.py
import asyncio
import base64
import wave

from openai import AsyncOpenAI

client = AsyncOpenAI(base_url="http://127.0.0.1:8000/v1", api_key="unused")
TRANSCRIPTION = "conversation.item.input_audio_transcription."


async def main() -> None:
    with wave.open("question.wav") as file:  # 16 bits, mono, 24 kHz
        samples = file.readframes(file.getnframes()) + bytes(48_000)  # and a second of silence
    async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        for first in range(0, len(samples), 4800):
            piece = base64.b64encode(samples[first : first + 4800]).decode()
            await connection.input_audio_buffer.append(audio=piece)
        async for event in connection:
            if event.type == TRANSCRIPTION + "delta":
                print(event.delta, end="", flush=True)
            elif event.type == TRANSCRIPTION + "completed":
                print()
                break


asyncio.run(main())
