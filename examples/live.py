# README: live
"""Text while it is spoken: what is sure is printed at once, the turns in the order of speaking."""

import asyncio

from lookhear import AsyncClient, SpeechStarted, TextDelta, TurnCompleted


async def main() -> None:
    client = AsyncClient("http://127.0.0.1:8000")
    turns: dict[str, str] = {}  # what of each is not printed yet, the oldest first
    done: set[str] = set()  # a short turn may be done before a long one that was said earlier
    async for event in client.transcribe("talk.wav"):  # or Microphone(), or chunks of PCM
        match event:
            case SpeechStarted():
                turns[event.item_id] = ""
            case TextDelta():
                # Nothing of it is ever taken back. Without voice detection no start is told.
                turns[event.item_id] = turns.get(event.item_id, "") + event.text
            case TurnCompleted():
                done.add(event.item_id)
        for turn in list(turns):
            print(turns[turn], end="", flush=True)
            turns[turn] = ""
            if turn not in done:
                break
            del turns[turn]
            print()


asyncio.run(main())
