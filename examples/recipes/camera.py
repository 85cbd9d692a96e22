# camera.py
import asyncio
from pathlib import Path

from lookhear import AsyncClient


async def main() -> None:
    frame = Path("scene.png").read_bytes()  # cv2.imencode(".jpg", image)[1].tobytes(), for example
    async with AsyncClient("http://127.0.0.1:8000").conversation() as talk:
        for tenth in range(20):
            await talk.show_frame(frame, tenth / 10)
        await talk.add_text("How many shapes are there?")
        async for text in talk.respond():
            print(text, end="", flush=True)
        print()
        print(await talk.add_audio("question.wav"))  # or a Microphone()
        print((await talk.respond().read()).text)


asyncio.run(main())
