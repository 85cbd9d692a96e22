"""Bad input over a real socket, one by one: a clear error, a session that goes on, no neighbours
disturbed."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from lookhear.gateway.checks.checks import MAX_APPEND_BYTES, shown
from tests.gateway.fake_engine import transcript
from tests.gateway.running import MANUAL, Client, Running, tone

pytestmark = pytest.mark.asyncio(loop_scope="module")


def update(**session: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": {"type": "transcription", **session}}


def audio(**fields: Any) -> dict[str, Any]:
    return update(audio={"input": fields})


APPEND = "input_audio_buffer.append"
AUDIO = "session.audio.input"

# frame, code, field, words of the message
BAD: dict[str, tuple[Any, str, str | None, list[str]]] = {
    "no JSON": ("{nope", "invalid_json", None, ["expected a JSON object", "{nope"]),
    "not an object": ("[1, 2]", "invalid_json", None, ["expected a JSON object", "an array"]),
    "deep": ("[" * 100_000, "invalid_json", None, ["expected"]),
    "not a number": (
        '{"type":"session.update","session":{"type":"transcription","audio":{"input":'
        '{"turn_detection":{"type":"server_vad","threshold":NaN}}}}}',
        "invalid_json", None, ["expected a JSON object", "NaN"],
    ),
    "too many values": (
        '{"type":"session.update","session":[' + "[]," * 300_000 + "0]}",
        "event_too_large", "event", ["expected at most 250000 values"],
    ),
    "too large": (
        '{"type":"session.update","session":"' + "\\n" * 3_000_000 + '"}',
        "event_too_large", "event", [f"expected at most {4 * 1024 * 1024} bytes"],
    ),
    "binary": (b"\x00\x01", "invalid_frame", "frame", ["expected a text frame", "2 bytes"]),
    "no type": ({}, "missing_required_parameter", "type", ["expected", "missing"]),
    "type no string": ({"type": 7}, "invalid_type", "type", ["expected", "7"]),
    "unknown event": (
        {"type": "session.begin"}, "unknown_event", "type",
        ["expected one of session.update", "session.begin"],
    ),
    "event of the beta": (
        {"type": "transcription_session.update", "session": {"input_audio_format": "pcm16"}},
        "beta_api_shape_disabled", "type",
        ["expected session.update", "transcription_session.update", "beta"],
    ),
    "session of the beta": (
        {"type": "session.update", "session": {"modalities": ["text"], "instructions": "x"}},
        "beta_api_shape_disabled", "session.type", ["expected", "no type and modalities", "beta"],
    ),
    "session of no type": (
        {"type": "session.update", "session": {"instructions": "x"}},
        "missing_required_parameter", "session.type", ["expected", "missing"],
    ),
    "event_id no string": (
        {"type": "input_audio_buffer.commit", "event_id": 5}, "invalid_value", "event_id",
        ["expected a string", "5"],
    ),
    "append without audio": (
        {"type": APPEND}, "missing_required_parameter", "audio", ["expected", "missing"],
    ),
    "audio no string": (
        {"type": APPEND, "audio": [1]}, "invalid_type", "audio",
        ["expected a string of base64", "an array"],
    ),
    "bad base64": (
        {"type": APPEND, "audio": "!!!!"}, "invalid_base64", "audio", ["expected base64", "4"],
    ),
    "base64 without padding": (
        {"type": APPEND, "audio": "AAA"}, "invalid_base64", "audio", ["expected base64"],
    ),
    "audio too large": (
        {"type": APPEND, "audio": "A" * ((MAX_APPEND_BYTES // 3 + 2) * 4)},
        "audio_too_large", "audio", [str(MAX_APPEND_BYTES), "smaller"],
    ),
    "empty commit": (
        {"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty",
        "input_audio_buffer", ["expected audio", "got none"],
    ),
    "session missing": (
        {"type": "session.update"}, "missing_required_parameter", "session", ["expected"],
    ),
    "session no object": (
        {"type": "session.update", "session": "x"}, "invalid_value", "session",
        ["expected an object", "a string"],
    ),
    "session type missing": (
        {"type": "session.update", "session": {}}, "missing_required_parameter", "session.type",
        ["expected", "missing"],
    ),
    "session type realtime": (
        {"type": "session.update", "session": {"type": "realtime"}}, "unsupported_session_type",
        "session.type", ["transcription", "realtime"],
    ),
    "session type unknown": (
        {"type": "session.update", "session": {"type": "dance"}}, "invalid_value",
        "session.type", ["transcription", "dance"],
    ),
    "model no string": (
        audio(transcription={"model": 3}), "invalid_value", f"{AUDIO}.transcription.model",
        ["expected a string", "3"],
    ),
    "unknown language": (
        audio(transcription={"language": "xx"}), "invalid_language",
        f"{AUDIO}.transcription.language", ["de, en, fr", "xx"],
    ),
    "prompt no string": (
        audio(transcription={"prompt": ["a"]}), "invalid_value", f"{AUDIO}.transcription.prompt",
        ["expected a string", "an array"],
    ),
    "prompt with half a character": (
        audio(transcription={"prompt": "\ud800"}), "invalid_value",
        f"{AUDIO}.transcription.prompt", ["valid Unicode", "surrogate"],
    ),
    "audio format unknown": (
        audio(format={"type": "audio/mp3"}), "invalid_value", f"{AUDIO}.format.type",
        ["audio/pcm", "audio/mp3"],
    ),
    "rate impossible": (
        audio(format={"type": "audio/pcm", "rate": 3}), "invalid_value", f"{AUDIO}.format.rate",
        ["8000 to 48000", "3"],
    ),
    "rate no number": (
        audio(format={"type": "audio/pcm", "rate": "24000"}), "invalid_value",
        f"{AUDIO}.format.rate", ["expected", "24000"],
    ),
    "turn detection unknown": (
        audio(turn_detection={"type": "telepathy"}), "invalid_value",
        f"{AUDIO}.turn_detection.type", ["server_vad", "telepathy"],
    ),
    "turn detection no object": (
        audio(turn_detection="server_vad"), "invalid_value", f"{AUDIO}.turn_detection",
        ["expected an object", "a string"],
    ),
    "threshold impossible": (
        audio(turn_detection={"type": "server_vad", "threshold": 1.5}), "invalid_value",
        f"{AUDIO}.turn_detection.threshold", ["at most 1", "1.5"],
    ),
    "silence negative": (
        audio(turn_detection={"type": "server_vad", "silence_duration_ms": -1}), "invalid_value",
        f"{AUDIO}.turn_detection.silence_duration_ms", ["at least 0", "-1"],
    ),
    "eagerness unknown": (
        audio(turn_detection={"type": "semantic_vad", "eagerness": "wild"}), "invalid_value",
        f"{AUDIO}.turn_detection.eagerness", ["'low'", "wild"],
    ),
    "include unknown": (
        update(include=["everything"]), "invalid_value", "session.include[0]",
        ["logprobs", "everything"],
    ),
    "extension no boolean": (
        update(lookhear={"words": "yes"}), "invalid_value", "session.lookhear.words",
        ["expected a boolean", "a string"],
    ),
    "unknown item": (
        {"type": "conversation.item.retrieve", "item_id": "item_9"}, "item_not_found", "item_id",
        ["expected", "item_9"],
    ),
    "item_id missing": (
        {"type": "conversation.item.delete"}, "missing_required_parameter", "item_id",
        ["expected"],
    ),
    "response.create": (
        {"type": "response.create"}, "unsupported_event", "type", ["expected", "response.create"],
    ),
}  # fmt: skip


async def a_turn(client: Client) -> None:
    """The session still works from end to end."""
    await client.append(tone(0.5))
    await client.send("input_audio_buffer.commit")
    done = await client.until(".completed")
    assert done["transcript"] == client.deltas(done["item_id"]) == transcript(8000)


@pytest.mark.parametrize("name", BAD)
async def test_bad_input(shared: Running, name: str) -> None:
    frame, code, param, words = BAD[name]
    echoed = isinstance(frame, dict) and "event_id" not in frame
    async with shared.client() as client, shared.client() as neighbour:
        for each in (client, neighbour):
            await each.until("session.created")
            before = await each.update(MANUAL)
        await neighbour.append(tone(0.3))
        if echoed:
            frame = {**frame, "event_id": "mine"}
        await client.socket.send(json.dumps(frame) if isinstance(frame, dict) else frame)
        problem = (await client.receive())["error"]
        assert problem["type"] == "invalid_request_error"
        assert problem["code"] == code
        assert problem["param"] == param
        assert problem["event_id"] == ("mine" if echoed else None)
        for word in words:
            assert word in problem["message"]
        if param is not None and param not in ("frame", "input_audio_buffer"):
            assert problem["message"].startswith(param)
        after = await client.update()
        assert after["audio"] == before["audio"]  # a refused update changes nothing
        await a_turn(client)
        await neighbour.send("input_audio_buffer.commit")
        done = await neighbour.until(".completed")
        assert done["transcript"] == transcript(4800)
        assert "error" not in neighbour.types()


async def test_values_are_shown_whatever_they_are() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "[" * 80 + "…"
    assert shown("a\ud800\u00e4") == '"a\\ud800\u00e4"'
    assert shown("b" * 1_000_000) == '"' + "b" * 79 + "… (1000000 characters)"
    # A list so deep is also too deep to be thrown away at once.
    while deep:
        deep = deep.pop()


async def test_tuning_that_we_do_not_have_is_taken_and_named(shared: Running) -> None:
    async with shared.client() as client:
        await client.until("session.created")
        updated = await client.update(
            {
                "model": "gpt-realtime",
                "tracing": "auto",
                "audio": {
                    "input": {
                        "noise_reduction": {"type": "near_field", "strength": 2},
                        "transcription": {"delay": "low", "keywords": ["x"]},
                        "turn_detection": {
                            "type": "server_vad",
                            "idle_timeout_ms": 6000,  # of a session that does not answer
                            "create_response": True,
                            "interrupt_response": True,
                        },
                    },
                    "output": {"voice": "marin"},
                },
            }
        )
        transcription = updated["audio"]["input"]["transcription"]
        assert transcription == {"model": "fake/whisper", "keywords": ["x"], "delay": "low"}
        assert set(updated["lookhear"]["ignored"]) == {
            *("model", "tracing", "audio.output", "audio.input.noise_reduction.strength"),
            "audio.input.turn_detection.idle_timeout_ms",
        }
        assert "error" not in client.types()


async def test_oversize_message_closes_only_its_own_socket(shared: Running) -> None:
    async with shared.client() as client, shared.client() as neighbour:
        await client.until("session.created")
        await neighbour.until("session.created")
        with contextlib.suppress(ConnectionClosed):  # perhaps before all is sent
            await client.socket.send("x" * (shared.services.config.max_message_bytes + 1))
        await client.socket.wait_closed()
        assert client.socket.close_code == 1009
        await neighbour.update(MANUAL)
        await a_turn(neighbour)


async def test_the_largest_append_is_taken(shared: Running) -> None:
    async with shared.client() as client:
        await client.until("session.created")
        fast = {"turn_detection": None, "format": {"type": "audio/pcm", "rate": 48_000}}
        await client.update({"audio": {"input": fast}})
        await client.append(bytes(MAX_APPEND_BYTES))
        await client.send("input_audio_buffer.commit")
        done = await client.until(".completed")
        assert done["usage"]["seconds"] == round(MAX_APPEND_BYTES / 96_000, 3)


async def test_a_message_may_come_in_fragments(shared: Running) -> None:
    async with shared.client() as client:
        await client.until("session.created")
        text = json.dumps(audio(turn_detection=None))
        await client.socket.send([text[:7], text[7:20], text[20:]])
        await client.until("session.updated")
        await a_turn(client)
