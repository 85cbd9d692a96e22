# vllm_live.py
"""A recording through vLLM's realtime wire: two utterances may follow on one socket, too."""

import asyncio
import base64
import json
import subprocess

from websockets.asyncio.client import connect

DECODE = "ffmpeg -loglevel error -i question.wav -f s16le -ac 1 -ar 16000 -"


async def main() -> None:
    audio = subprocess.run(DECODE.split(), capture_output=True, check=True).stdout
    async with connect("ws://127.0.0.1:8000/v1/realtime") as socket:
        await socket.recv()  # session.created

        async def send(type: str, **fields: object) -> None:
            await socket.send(json.dumps({"type": type, **fields}))

        await send("session.update", model="demo-qwen3-asr")
        await send("input_audio_buffer.commit")  # we are going to speak
        for first in range(0, len(audio), 4096):
            piece = base64.b64encode(audio[first : first + 4096]).decode()
            await send("input_audio_buffer.append", audio=piece)
        await send("input_audio_buffer.commit", final=True)
        async for frame in socket:
            event = json.loads(frame)
            if event["type"] == "transcription.delta":
                print(event["delta"], end="", flush=True)
            elif event["type"] in ("transcription.done", "error"):
                print(event.get("error", ""))
                break


asyncio.run(main())
