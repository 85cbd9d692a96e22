# bare.py
import asyncio
import base64
import json
import wave
from pathlib import Path

from websockets.asyncio.client import connect


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def main() -> None:
    picture = f"data:image/png;base64,{base64_of(Path('scene.png').read_bytes())}"
    with wave.open("question.wav") as file:  # 16 bits, mono, 24 kHz
        samples = file.readframes(file.getnframes())
    content = [{"type": "input_image", "image_url": picture}]
    item = {"type": "message", "role": "user", "content": content}
    session = {
        "type": "realtime",
        "output_modalities": ["text"],
        "audio": {"input": {"turn_detection": None}},  # we say where the question ends
    }
    async with connect("ws://127.0.0.1:8000/v1/realtime?model=demo-qwen3-vl") as socket:
        for event in (
            {"type": "session.update", "session": session},
            {"type": "conversation.item.create", "item": item},
            {"type": "input_audio_buffer.append", "audio": base64_of(samples)},
            {"type": "input_audio_buffer.commit"},
            {"type": "response.create"},
        ):
            await socket.send(json.dumps(event))
        async for frame in socket:
            event = json.loads(frame)
            if event["type"] == "conversation.item.input_audio_transcription.completed":
                print(event["transcript"])
            elif event["type"] == "response.output_text.delta":
                print(event["delta"], end="", flush=True)
            elif event["type"] in ("response.done", "error"):
                print()
                break


asyncio.run(main())
