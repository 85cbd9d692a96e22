"""Turns whose detection changes while they are open end, and begin, where they should."""

from __future__ import annotations

from typing import Any

import pytest

from lookhear.media.voice.vad import SpeechStarted, SpeechStopped
from tests.gateway.conversing import Talk
from tests.gateway.fake_engine import transcript
from tests.gateway.running import running, tone
from tests.gateway.scripted import Script, kinds

MANUAL: dict[str, Any] = {"audio": {"input": {"turn_detection": None}}}
VOICE: dict[str, Any] = {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
SECOND = 16_000


def manual() -> Script:
    script = Script()
    script.update(MANUAL)
    return script


def test_after_a_silence_it_is_over() -> None:
    script = manual()
    script.hear(1.0, [SpeechStarted(0)], speaking=True)
    script.hear(1.0, [SpeechStopped(24_000)], voiced_until=SECOND)
    script.update(VOICE)
    frames = script.hear(0.1, voiced_until=SECOND)
    assert kinds(frames) == ["speech_started", "speech_stopped", "committed", "added", "done"]
    assert (frames[0]["audio_start_ms"], frames[1]["audio_end_ms"]) == (0, 2000)
    assert script.samples("item_1") == list(range(2 * SECOND))
    frames = script.hear(0.5, [SpeechStarted(34_000)], speaking=True)
    assert (frames[0]["item_id"], frames[0]["audio_start_ms"]) == ("item_2", 34_000 // 16)


def test_in_a_short_pause_it_waits_for_the_rest_of_the_silence() -> None:
    script = manual()
    script.hear(1.2, voiced_until=SECOND)
    script.update(VOICE)
    assert script.hear(0.2, voiced_until=SECOND) == []
    frames = script.hear(0.2, voiced_until=SECOND)
    assert kinds(frames) == ["speech_started", "speech_stopped", "committed", "added", "done"]
    assert script.samples("item_1") == list(range(25_600))


def test_one_of_the_voice_that_went_on_by_hand_is_told_of_once() -> None:
    script = Script()
    script.hear(1.0, [SpeechStarted(4000)], speaking=True)
    script.update(MANUAL)
    script.hear(1.0, [SpeechStopped(24_000)], voiced_until=SECOND)
    script.update(VOICE)
    frames = script.hear(0.1, voiced_until=SECOND)
    assert kinds(frames) == ["speech_stopped", "committed", "added", "done"]
    assert script.samples("item_1") == list(range(4000, 2 * SECOND))


def test_a_turn_that_a_shorter_silence_ends_ends_where_it_was_heard_to() -> None:
    """The detector names where that silence was over; what came since is the turn's, too."""
    script = Script()
    script.hear(1.0, [SpeechStarted(0)], speaking=True)
    script.hear(2.0, voiced_until=SECOND, speaking=True)
    sooner = {"type": "server_vad", "silence_duration_ms": 300}
    script.update({"audio": {"input": {"turn_detection": sooner}}})
    frames = script.hear(0.1, [SpeechStopped(SECOND + 4800)], voiced_until=SECOND)
    assert kinds(frames) == ["speech_stopped", "committed", "added", "done"]
    assert frames[0]["audio_end_ms"] == len(script.samples("item_1")) // 16 == 3000


def test_where_nobody_has_spoken_there_is_none() -> None:
    script = manual()
    script.hear(2.0, voiced_until=0)
    script.update(VOICE)
    # Somebody speaks right then: what comes before it is still there, padding included.
    frames = script.hear(0.1, [SpeechStarted(28_000)], voiced_until=33_600, speaking=True)
    assert script.cancelled == ["item_1"]
    assert kinds(frames) == ["speech_started"]
    assert (frames[0]["item_id"], frames[0]["audio_start_ms"]) == ("item_2", 28_000 // 16)
    assert script.samples("item_2") == list(range(28_000, 33_600))


def test_text_that_was_told_is_an_items() -> None:
    script = manual()
    script.hear(2.0, voiced_until=0)
    script.say("item_1", "Psst")
    script.update(VOICE)
    assert "committed" in kinds(script.hear(0.1, voiced_until=0))
    assert script.cancelled == []


def test_its_end_interrupts_no_answer_and_it_is_answered_next() -> None:
    talk = Talk()
    talk.update(MANUAL)
    talk.hear(1.0, [SpeechStarted(0)], speaking=True)
    talk.hear(1.0, [SpeechStopped(24_000)], voiced_until=SECOND)
    talk.say_text("Tell me a story")
    talk.respond()
    talk.begin()
    talk.speak("Once")
    talk.update(VOICE)
    frames = talk.hear(0.1, voiced_until=SECOND)
    assert kinds(frames)[:3] == ["speech_started", "speech_stopped", "committed"]
    assert talk.done == []
    item = frames[0]["item_id"]
    talk.say(item, "A short one")
    talk.complete(item)
    talk.end()
    assert [response["status"] for response in talk.done] == ["completed"]
    assert talk.prompt()[-1] == ("user", "A short one")


@pytest.mark.parametrize("voiced_until", [0, SECOND])
@pytest.mark.parametrize("rest", [0.0, 0.01])
def test_a_commit_behind_the_switch_ends_it_whole(voiced_until: int, rest: float) -> None:
    script = manual()
    script.hear(5.0, voiced_until=voiced_until)
    script.update(VOICE)
    assert script.hear(rest, voiced_until=voiced_until, is_rest=True) == []
    frames = script.client("input_audio_buffer.commit")
    assert kinds(frames) == ["committed", "added", "done"]
    assert frames[0]["item_id"] == "item_1"
    assert script.samples("item_1") == list(range(script.position))


async def test_the_rest_of_what_came_before_the_switch_does_not_end_it() -> None:
    async with running() as gateway, gateway.client() as client:
        await client.until("session.created")
        await client.update(MANUAL)
        await client.append(tone(2.0))
        await client.update(VOICE)
        await client.send("input_audio_buffer.commit")
        assert (await client.until(".completed"))["transcript"] == transcript(2 * SECOND)
