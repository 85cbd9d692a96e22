"""Realtime sessions that converse, over real sockets: the openai package, pictures, speech."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.slots import Claim
from lookhear.media.audio.decode import decode_audio
from tests.gateway.chat.test_bad_input import bomb
from tests.gateway.chatting import data_url, jpeg, png
from tests.gateway.conversing import said
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.fetching.test_fetcher import drip, moved, says, serving
from tests.gateway.logged import logged
from tests.gateway.running import Client, Running, chunks, running, tone
from tests.media.audio.encoders import encode_pcm16

SPEECH = Path(__file__).parents[2] / "media" / "data" / "speech.flac"
MANUAL: dict[str, Any] = {"audio": {"input": {"turn_detection": None}}}
# Who leaves has left: nobody comes back here.
LIMITS = GatewayConfig(port=0, max_image_pixels=5_000_000, resume_seconds=0)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strictly() -> AsyncIterator[Running]:
    """Also serves a model that cannot see."""
    engine = FakeEngine(sees=True)
    engine.models.append(replace(VISION, id="fake/text", abilities=["chat"]))
    async with running(LIMITS, engine) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def talk(strictly: Running) -> AsyncIterator[Client]:
    strictly.engine.be_well()
    async with strictly.client("model=fake/vision") as client:
        await client.until("session.created")
        yield client


def showing(url: str, text: str = "What is this?") -> dict[str, Any]:
    image = {"type": "input_image", "image_url": url}
    return {**said(text), "content": [image, {"type": "input_text", "text": text}]}


async def update(client: Client, **session: Any) -> dict[str, Any]:
    await client.send("session.update", session={"type": "realtime", **session})
    return dict((await client.until("session.updated"))["session"])


async def answer(client: Client) -> str:
    """The text of the next response that is done."""
    done = await client.until("response.done")
    response = done["response"]
    assert response["status"] == "completed", response
    return str(response["output"][0]["content"][0]["text"])


async def ask(client: Client, item: dict[str, Any]) -> str:
    await client.send("conversation.item.create", item=item)
    await client.send("response.create")
    return await answer(client)


async def problem_of(client: Client, type: str, **fields: Any) -> dict[str, Any]:
    """The error that an event causes; the next question is answered."""
    await client.send(type, event_id="e", **fields)
    while (event := await client.receive())["type"] != "error":
        pass
    error: dict[str, Any] = event["error"]
    assert error["event_id"] == "e"
    await client.send("response.create", response={"input": [said("still there?")]})
    assert await answer(client) == "you said still there?"
    return error


async def test_the_sdk_asks_about_a_picture(strictly: Running) -> None:
    strictly.engine.be_well()
    async with AsyncOpenAI(
        api_key="none", websocket_base_url=f"ws://127.0.0.1:{strictly.port}/v1", max_retries=0
    ) as sdk:
        async with sdk.realtime.connect(model="fake/vision") as connection:
            await connection.session.update(
                session={
                    "type": "realtime",
                    "instructions": "Be brief.",
                    "output_modalities": ["text"],
                    "max_output_tokens": 50,
                    "audio": {"input": {"turn_detection": None}},
                }
            )
            await connection.conversation.item.create(
                item={
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_image", "image_url": data_url(png(40, 30))},
                        {"type": "input_text", "text": "What is this?"},
                    ],
                }
            )
            await connection.response.create(response={"metadata": {"question": "1"}})
            text, texts = "", []
            async for event in connection:
                assert event.type != "error", event
                if event.type == "response.output_text.delta":
                    text += event.delta
                elif event.type == "response.output_text.done":
                    texts.append(event.text)
                elif event.type == "response.done":
                    response = event.response
                    assert response.status == "completed" and response.usage is not None
                    assert response.metadata == {"question": "1"}
                    details = response.usage.input_token_details
                    assert details is not None and details.image_tokens == 2
                    if len(texts) == 2:
                        assert details.cached_tokens == 2
                        break
                    await connection.conversation.item.create(
                        item={
                            "type": "message",
                            "role": "user",
                            "content": [{"type": "input_text", "text": "And now?"}],
                        }
                    )
                    await connection.response.create(response={"metadata": {"question": "1"}})
    assert texts == ["picture 40x30, you said What is this?", "picture 40x30, you said And now?"]
    assert text == "".join(texts)
    assert len(strictly.engine.chat.held) == 1  # sent once


async def test_a_spoken_question_about_a_picture(strictly: Running, talk: Client) -> None:
    pcm = encode_pcm16(decode_audio(SPEECH, target_rate=24_000).samples)
    await update(talk, audio={"input": {"turn_detection": {"type": "server_vad"}}})
    image = {"type": "input_image", "image_url": data_url(jpeg(64, 32), "image/jpeg")}
    item = {"type": "message", "role": "user", "content": [image]}
    await talk.send("conversation.item.create", item=item)
    for chunk in chunks(pcm + tone(2.0), 24_000):
        await talk.append(chunk)
    while (text := await answer_or_none(talk)) is None:
        pass
    asked = [f["transcript"] for f in talk.seen if f["type"].endswith("transcription.completed")]
    assert asked[-1] and text == f"picture 64x32, you said {asked[-1]}"


async def answer_or_none(client: Client) -> str | None:
    """None: it was interrupted, as the person spoke on."""
    response = (await client.until("response.done"))["response"]
    if response["status"] == "cancelled":
        assert response["status_details"]["reason"] == "turn_detected"
        return None
    return str(response["output"][0]["content"][0]["text"])


async def test_audio_in_an_item(talk: Client) -> None:
    await update(talk, **MANUAL)
    audio = base64.b64encode(tone(0.5)).decode()
    item = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio}]}
    assert await ask(talk, item) == f"you said {transcript(8000)}"


async def test_a_commit_by_hand_and_a_response(talk: Client) -> None:
    await update(talk, **MANUAL)
    await talk.append(tone(0.3))
    await talk.send("input_audio_buffer.commit")
    await talk.send("response.create")
    assert await answer(talk) == f"you said {transcript(4800)}"


async def test_cancelling_reaches_the_engine(strictly: Running, talk: Client) -> None:
    chat = strictly.engine.chat
    chat.hold = True
    await talk.send("conversation.item.create", item=said("Tell me a long story"))
    await talk.send("response.create")
    await talk.until("output_text.delta")
    await talk.send("response.cancel")
    done = (await talk.until("response.done"))["response"]
    assert done["status"] == "cancelled"
    assert chat.cancelled == [done["id"]]
    assert done["output"][0]["content"][0]["text"] == "you"


async def test_who_leaves_takes_the_answer_along(strictly: Running) -> None:
    strictly.engine.be_well()
    strictly.engine.chat.hold = True
    async with strictly.client("model=fake/vision") as client:
        await client.send("conversation.item.create", item=showing(data_url(png())))
        await client.send("response.create")
        await client.until("output_text.delta")
        client.socket.transport.abort()
        await strictly.engine.wait_for(lambda: not strictly.engine.sessions)
    assert strictly.engine.chat.answers == {}
    assert strictly.engine.chat.pictures == {}


async def test_a_failing_answer_is_told_and_the_next_one_works(
    strictly: Running, talk: Client
) -> None:
    strictly.engine.chat.fail_next("server_error", "it broke")
    await talk.send("conversation.item.create", item=said("Hi"))
    await talk.send("response.create")
    done = (await talk.until("response.done"))["response"]
    assert done["status"] == "failed"
    assert done["status_details"]["error"]["message"] == "it broke"
    assert await ask(talk, said("Again")) == "you said Again"


async def test_an_image_larger_than_the_context(talk: Client) -> None:
    item = {**showing(data_url(png(2200, 2200))), "id": "big"}
    await talk.send("conversation.item.create", item=item)
    await talk.send("response.create")
    done = (await talk.until("response.done"))["response"]
    error = done["status_details"]["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["message"].startswith("big.content[0].image_url: expected at most 4096")
    await talk.send("conversation.item.delete", item_id="big")
    assert await ask(talk, said("Hi")) == "you said Hi"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("max_output_tokens", 1 << 70, "2147483647"),
        ("lookhear.top_k", 1 << 70, "2147483648"),
        ("lookhear.stop", ["a", ""], "not empty"),
        ("lookhear.chat_template_kwargs", {"x": 1 << 70}, "64 bits"),
        ("lookhear.chat_template_kwargs", {"x": "\ud800"}, "surrogate"),
        ("lookhear.chat_template_kwargs", {"messages": []}, "variables of the chat template"),
        ("lookhear.response_format", {"type": "json_schema"}, "json_schema with it"),
    ],
)
async def test_settings_that_no_engine_can_be_told(
    talk: Client, field: str, value: Any, words: str
) -> None:
    outer, _, inner = field.partition(".")
    given = {outer: {inner: value} if inner else value}
    for kind, fields in (
        ("session", {"session": {"type": "realtime", **given}}),
        ("response", {"response": {"input": [said("Hi")], **given}}),
    ):
        event = "session.update" if kind == "session" else "response.create"
        error = await problem_of(talk, event, **fields)
        assert error["param"] == f"{kind}.{field}"
        assert error["message"].startswith(f"{kind}.{field}: expected ")
        assert words in error["message"]


async def test_answers_keep_to_a_schema_of_the_session_or_of_a_response(
    strictly: Running, talk: Client
) -> None:
    schemas = [{"type": "array"}, {"type": "object"}]
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schemas[0]}}
    updated = await update(talk, lookhear={"response_format": form})
    assert updated["lookhear"]["response_format"] == form
    assert await ask(talk, said("Hi")) == "you said Hi"
    for format in ({"type": "json_object"}, None):
        fields = {"lookhear": {"response_format": format}}
        await talk.send("response.create", response={"input": [said("Hi")], **fields})
        await talk.until("response.done")
    told = [start.settings.schema for start in strictly.engine.chat.started]
    assert [None if text is None else json.loads(text) for text in told] == [*schemas, None]


async def test_sampling_is_set_as_in_chat_completions(strictly: Running, talk: Client) -> None:
    await update(talk, lookhear={"top_k": -1, "top_p": 0, "stop": "nothing of it"})
    await talk.send("response.create", response={"input": [said("Hi")]})
    assert await answer(talk) == "you said Hi"
    settings = strictly.engine.chat.started[-1].settings
    assert (settings.top_k, settings.top_p, settings.stop) == (0, 0, ["nothing of it"])


@pytest.mark.parametrize(
    "url",
    [
        data_url(bomb()),
        data_url(jpeg()[:200], "image/jpeg"),
        data_url(b"just text"),
        data_url(png(3000, 2000)),
        "data:image/png;base64,???",
        "file:///etc/passwd",
        "http://127.0.0.1:1/a.png",
        "http://localhost/a.png",
        "nonsense",
    ],
    ids=lambda url: url[:30],
)
async def test_pictures_that_cannot_be_used(talk: Client, url: str) -> None:
    error = await problem_of(talk, "conversation.item.create", item=showing(url))
    assert error["param"] == "item.content[0].image_url"
    assert error["message"].startswith("item.content[0].image_url: expected ")
    response = {"input": [said("Hi"), showing(url)]}
    error = await problem_of(talk, "response.create", response=response)
    assert error["param"] == "response.input[1].content[0].image_url"
    if url.startswith("data:"):
        error = await problem_of(
            talk, "lookhear.input_video_frame.append", image=url, timestamp_ms=0
        )
        assert error["param"] == "image"


@pytest.mark.parametrize(
    ("server", "expected"),
    [(says(moved("http://10.0.0.1/a.png")), "public"), (drip, "within 0.3 s")],
    ids=["astray", "dripping"],
)
async def test_servers_that_mislead_or_drip(
    strictly: Running, talk: Client, monkeypatch: pytest.MonkeyPatch, server: Any, expected: str
) -> None:
    pictures = strictly.services.pictures
    seconds = 0.3 if server is drip else 60.0
    loopback = (ip_network("127.0.0.0/8"),)
    policy = replace(pictures.policy, allow_networks=loopback, timeout_s=seconds)
    monkeypatch.setattr(pictures, "policy", policy)
    async with serving(server) as port:
        url = f"http://127.0.0.1:{port}/a.png"
        error = await problem_of(talk, "conversation.item.create", item=showing(url))
    assert error["param"] == "item.content[0].image_url"
    assert expected in error["message"]


async def test_a_model_that_cannot_see(strictly: Running) -> None:
    async with strictly.client("model=fake/text") as client:
        await client.until("session.created")
        await client.send("conversation.item.create", item=showing(data_url(png())))
        error = (await client.receive())["error"]
        assert (error["code"], error["param"]) == ("unsupported_image", "item.content[0].image_url")
        assert await ask(client, said("Hi")) == "you said Hi"


async def test_no_model_that_hears() -> None:
    engine = FakeEngine(sees=True)
    engine.models = [VISION]
    async with running(engine=engine) as gateway, gateway.client("") as client:
        created = await client.until("session.created")
        assert created["session"]["type"] == "realtime"
        await client.append(tone(0.1))
        assert (await client.receive())["error"]["code"] == "unsupported_audio"
        await client.append(tone(0.1))
        await client.send("input_audio_buffer.commit")
        assert (await client.receive())["error"]["code"] == "input_audio_buffer_commit_empty"
        assert (
            await ask(client, showing(data_url(png()))) == "picture 40x30, you said What is this?"
        )


async def test_the_death_of_either_engine(strictly: Running) -> None:
    engine = strictly.engine
    try:
        async with strictly.client("model=fake/vision") as client:
            engine.chat.hold = True
            await client.send("conversation.item.create", item=said("Hi"))
            await client.send("response.create")
            await client.until("output_text.delta")
            engine.die("fake/vision")
            done = (await client.until("response.done"))["response"]
            assert done["status_details"]["error"]["code"] == "engine_died"
            assert (await client.receive())["error"]["code"] == "engine_died"
            await client.socket.wait_closed()
            assert client.socket.close_code == 1012
        engine.be_well()
        async with strictly.client("model=fake/vision") as client:
            await client.until("session.created")
            engine.die("fake/whisper")
            assert await ask(client, said("Hi")) == "you said Hi"  # it needs no ears for that
            await update(client, **MANUAL)
            await client.append(tone(0.1))
            assert (await client.receive())["error"]["code"] == "engine_unavailable"
    finally:
        engine.be_well()


async def test_an_engine_that_is_not_used_now_may_be_started_anew(strictly: Running) -> None:
    engine = strictly.engine
    engine.be_well()
    async with strictly.client("model=fake/vision") as client:
        await client.until("session.created")
        assert await ask(client, showing(data_url(png())))
        assert len(engine.chat.pictures) == 1
        await client.update()  # to a transcription session
        assert engine.chat.pictures == {}
        engine.die("fake/vision")
        engine.be_well()
        await update(client, model="fake/vision")
        assert await ask(client, said("And now?")) == "picture 40x30, you said And now?"


async def test_a_camera_over_the_socket(strictly: Running, talk: Client) -> None:
    await update(talk, lookhear={"camera": {"max_frames": 4, "report": True}})
    kept = 0
    for number in range(20):
        shade = 40 * (number % 5)
        frame = base64.b64encode(png(64, 48, (shade, shade, shade))).decode()
        await talk.send("lookhear.input_video_frame.append", image=frame, timestamp_ms=500 * number)
        kept += (await talk.until("frame.kept"))["frames"] > 0
    assert kept == 20
    assert await ask(talk, said("What now?")) == "video 8 x 64x48, you said What now?"
    chat = strictly.engine.chat
    assert len(chat.pictures) == 5  # the same picture has the same name
    assert chat.read_ahead
    await talk.send("lookhear.input_video_frame.clear")
    await talk.until("frame.cleared")
    assert chat.pictures == {}


async def test_a_slow_picture_delays_only_its_own_session(
    strictly: Running, talk: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    image = strictly.services.pictures.image

    async def slow(url: str, path: str, claim: Claim) -> Any:
        if url.startswith("http"):
            await gate.wait()
            return await image(data_url(png()), path, claim)
        return await image(url, path, claim)

    monkeypatch.setattr(strictly.services.pictures, "image", slow)
    item = showing("https://example.org/a.png")
    await talk.send("conversation.item.create", item=item)
    await talk.send("response.create")
    async with strictly.client("model=fake/vision") as other:
        await other.until("session.created")
        assert await ask(other, said("Hi")) == "you said Hi"
    gate.set()
    assert await answer(talk) == "picture 40x30, you said What is this?"


async def test_log_of_a_session_names_its_model(
    strictly: Running, caplog: pytest.LogCaptureFixture
) -> None:
    await strictly.engine.wait_for(lambda: not strictly.engine.sessions)  # of the test before
    caplog.set_level("INFO", "lookhear.gateway")
    strictly.engine.be_well()
    async with strictly.client("model=fake/vision") as client:
        await ask(client, said("Hi"))
    await strictly.engine.wait_for(lambda: not strictly.engine.sessions)
    (end,) = logged(caplog, "session.end")
    assert (end["model"], end["responses"]) == ("fake/vision", 1)
    counted = strictly.services.metrics.registry.get_sample_value
    assert (counted("lookhear_answers_total", {"outcome": "stop"}) or 0) >= 1
    assert (counted("lookhear_first_token_seconds_count") or 0) >= 1


async def test_an_answer_whose_client_leaves_was_cancelled(
    strictly: Running, caplog: pytest.LogCaptureFixture
) -> None:
    await strictly.engine.wait_for(lambda: not strictly.engine.sessions)  # of the test before
    caplog.set_level("INFO", "lookhear.gateway")
    strictly.engine.be_well()
    counted = strictly.services.metrics.registry.get_sample_value
    before = counted("lookhear_answers_total", {"outcome": "cancelled"}) or 0
    async with strictly.client("model=fake/vision") as client:
        strictly.engine.chat.hold = True
        await client.send("conversation.item.create", item=said("Tell me a long story"))
        await client.send("response.create")
        await client.until("output_text.delta")
    await strictly.engine.wait_for(lambda: not strictly.engine.sessions)
    (end,) = logged(caplog, "session.end")
    assert end["responses"] == 1
    assert counted("lookhear_answers_total", {"outcome": "cancelled"}) == before + 1
