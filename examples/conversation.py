# README: conversation
"""Pictures, speech and text over one WebSocket: a picture is sent once, however much is asked."""

import asyncio

from lookhear import AsyncClient


async def main() -> None:
    client = AsyncClient("http://127.0.0.1:8000")
    async with client.conversation() as talk:
        await talk.add_image("scene.png")  # a live camera: await talk.show_frame(jpeg)
        print(await talk.add_audio("question.wav"))  # what was asked; or Microphone()
        async for text in talk.respond():
            print(text, end="", flush=True)
        print()
        await talk.add_text("What colour is the square?")
        print((await talk.respond().read()).text)


asyncio.run(main())
