"""Live transcription over a real socket: the whole path but the engine."""

from __future__ import annotations

from tests.gateway.fake_engine import transcript
from tests.gateway.running import MANUAL, Running, chunks, tone


async def test_manual_turn_streams_text_before_the_commit(gateway: Running) -> None:
    async with gateway.client() as client:
        created = await client.until("session.created")
        assert created["session"]["audio"]["input"]["transcription"]["model"] == "fake/whisper"
        updated = await client.update(MANUAL)
        assert "turn_detection" not in updated["audio"]["input"]
        for chunk in chunks(tone(1.0), 961):  # odd: samples are split between frames
            await client.append(chunk)
        early = await client.until(".delta")
        await client.send("input_audio_buffer.commit")
        done = await client.until(".completed")
        item = done["item_id"]
        assert early["item_id"] == item
        assert done["transcript"] == client.deltas(item) == transcript(16_000)
        assert done["usage"] == {"type": "duration", "seconds": 1.0}
        assert done["languages"] == [{"code": "en"}]
        order = [t for t in client.types() if not t.endswith(".delta")]
        assert order[2:] == [
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.completed",
        ]
