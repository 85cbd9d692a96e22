# livekit_agent.py
import asyncio
import base64
import wave
from pathlib import Path

from livekit import rtc
from livekit.agents import llm, stt, utils
from livekit.plugins import openai

SERVER = "http://127.0.0.1:8000/v1"
hears = openai.STT(base_url=SERVER, api_key="unused", model="demo-qwen3-asr", use_realtime=True)
answers = openai.LLM(base_url=SERVER, api_key="unused", model="demo-qwen3-vl")


async def hear() -> str:
    with wave.open("question.wav") as file:  # 16 bits, mono, 24 kHz
        samples = file.readframes(file.getnframes()) + bytes(48_000)  # and a second of silence
    async with hears.stream() as stream:
        for first in range(0, len(samples), 4800):
            piece = samples[first : first + 4800]
            stream.push_frame(rtc.AudioFrame(piece, 24_000, 1, len(piece) // 2))
        async for event in stream:
            if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT:
                return event.alternatives[0].text
    raise RuntimeError("nothing was heard")


async def main() -> None:
    async with utils.http_context.open():  # an agent's job has one
        question = await hear()
    print(question)
    picture = base64.b64encode(Path("scene.png").read_bytes()).decode()
    image = llm.ImageContent(image=f"data:image/png;base64,{picture}")
    context = llm.ChatContext.empty()
    context.add_message(role="user", content=[image, question])
    async with answers.chat(chat_ctx=context) as reply:
        async for chunk in reply:
            if chunk.delta is not None:
                print(chunk.delta.content or "", end="", flush=True)
    print()


asyncio.run(main())
