"""A recording's text while it is written; recordings by their URL; what has no answer here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import httpx
import pytest
from openai.types.audio import TranscriptionStreamEvent
from pydantic import TypeAdapter

from lookhear.engine.client.client import EngineRequestError
from lookhear.gateway.config import GatewayConfig
from tests.gateway.fetching.test_fetcher import ok, says, serving
from tests.gateway.files.test_http import post, wav
from tests.gateway.running import PATIENCE, Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
EVENTS = TypeAdapter[Any](TranscriptionStreamEvent)
SEGMENTS = (" One", " two. ", "", " Three.")


def told(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream, checked against the openai package's models."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    *lines, last = [line for line in answer.text.split("\n\n") if line]
    assert last == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    for event in events:
        if not event["type"].startswith("lookhear."):
            EVENTS.validate_python(event, strict=True)
    return events


async def test_text_comes_segment_by_segment(shared: Running, http: httpx.AsyncClient) -> None:
    shared.engine.file_segments = SEGMENTS
    *deltas, done = told(await post(http, stream="true"))
    assert [delta["delta"] for delta in deltas] == ["One", " two.", "  Three."]
    assert done["text"] == "".join(delta["delta"] for delta in deltas)
    assert done["usage"] == {
        "type": "tokens",
        "input_tokens": 54,
        "input_token_details": {"audio_tokens": 50, "text_tokens": 4},
        "output_tokens": 5,
        "total_tokens": 59,
    }
    assert "lookhear" not in done


async def test_it_comes_before_the_rest_is_known(shared: Running, http: httpx.AsyncClient) -> None:
    shared.engine.file_segments = SEGMENTS
    shared.engine.file_gate = gate = asyncio.Event()
    files = {"file": ("a.wav", wav(1.0))}
    path = "/v1/audio/transcriptions"
    async with http.stream("POST", path, files=files, data={"stream": "true"}) as answer:
        lines = answer.aiter_lines()
        async with asyncio.timeout(PATIENCE):
            assert json.loads((await anext(lines)).removeprefix("data: "))["delta"] == "One"
        gate.set()
        rest = [line async for line in lines]
    assert rest[-2:] == ["data: [DONE]", ""]


async def test_without_news_there_is_one_delta(http: httpx.AsyncClient) -> None:
    delta, done = told(await post(http, stream="true"))
    assert delta["delta"] == done["text"] == "transcribe 1.0 seconds."


async def test_a_long_one_is_told_from_its_first_minutes_on(
    shared: Running, http: httpx.AsyncClient
) -> None:
    recording = wav(150.0)
    *deltas, done = told(await post(http, stream="true", file=recording))
    first, rest = shared.engine.files
    assert len(first.samples) + len(rest.samples) == 150 * 16_000
    assert len(first.samples) < 120 * 16_000 and not first.continues
    assert rest.continues and rest.language_before == "en"
    assert rest.settings.language is None, "it may change"
    assert "".join(event["delta"] for event in deltas) == done["text"]
    assert done["text"].count("transcribe") == 2 and done["usage"]["total_tokens"] == 2 * 59


async def test_one_that_breaks_off_late_has_been_told_of(
    shared: Running, http: httpx.AsyncClient
) -> None:
    recording = wav(150.0)
    shared.engine.file_segments = SEGMENTS[:1]
    answer = await post(http, stream="true", file=recording[: len(recording) * 9 // 10])
    delta, error = [line for line in answer.text.split("\n\n") if line]
    assert json.loads(delta.removeprefix("data: "))["delta"] == "One"
    failed = json.loads(error.removeprefix("data: "))["error"]
    assert (failed["code"], failed["param"]) == ("invalid_audio", "file")


async def test_how_far_it_is_and_the_whole_answer_on_request(
    shared: Running, http: httpx.AsyncClient
) -> None:
    shared.engine.file_segments = SEGMENTS
    options: dict[str, Any] = {"stream": "true", "response_format": "srt"}
    events = told(await post(http, lookhear_progress="true", **options))
    far = [e for e in events if e["type"] == "lookhear.progress"]
    assert [event["seconds"] for event in far] == [0.25, 0.5, 0.75, 1.0]
    assert {event["duration"] for event in far} == {1.0}
    whole = await post(http, response_format="srt")
    assert events[-1]["lookhear"] == {"answer": whole.text}


async def test_what_is_refused_before_any_text_is_an_answer_of_its_own(
    shared: Running, http: httpx.AsyncClient
) -> None:
    shared.engine.file_error = EngineRequestError("audio_too_long", "file: expected less")
    answer = await post(http, stream="true")
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "audio_too_long"
    answer = await post(http, stream="true", file=b"no audio")
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "file"


async def test_what_fails_in_the_middle_is_an_event(
    shared: Running, http: httpx.AsyncClient
) -> None:
    shared.engine.file_segments = SEGMENTS
    shared.engine.file_error = EngineRequestError("server_error", "it broke")
    answer = await post(http, stream="true")
    *_, last = [line for line in answer.text.split("\n\n") if line]
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == "it broke"


async def test_who_hangs_up_in_the_middle_stops_the_work(
    shared: Running, http: httpx.AsyncClient
) -> None:
    shared.engine.file_segments = SEGMENTS
    shared.engine.file_gate = asyncio.Event()
    files = {"file": ("a.wav", wav(1.0))}
    path = "/v1/audio/transcriptions"
    async with http.stream("POST", path, files=files, data={"stream": "true"}) as answer:
        async for _ in answer.aiter_lines():
            break
    await shared.engine.wait_for(lambda: bool(shared.engine.cancelled_files))


async def test_who_tells_speakers_apart_is_missing(http: httpx.AsyncClient) -> None:
    answer = await post(http, response_format="diarized_json")
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (
        400,
        "response_format",
        "no_diariser",
    )
    assert "no model here tells speakers apart" in error["message"]


@pytest.mark.parametrize("field", ["url", "file_url"])
@pytest.mark.parametrize("is_form", [True, False])
async def test_a_recording_by_its_url(field: str, is_form: bool) -> None:
    config = GatewayConfig(port=0, allow_networks=(ip_network("127.0.0.0/8"),))
    audio = wav(1.5)
    async with running(config) as gateway, serving(says(ok(audio))) as port:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False
        ) as client:
            data = {field: f"http://127.0.0.1:{port}/talk.wav", "response_format": "text"}
            parts = {name: (None, value) for name, value in data.items()}
            asked: dict[str, Any] = {"data": data} if is_form else {"files": parts}
            answer = await client.post("/v1/audio/transcriptions", **asked, timeout=PATIENCE)
            assert (answer.status_code, answer.text) == (200, "transcribe 1.5 seconds.\n")


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/listen"])
async def test_a_recording_by_its_url_is_as_large_as_an_upload(path: str) -> None:
    """What a question may hold is less; and what is too large for either is refused."""
    audio = wav(1.5)
    for most, status in ((len(audio), 200), (len(audio) - 1, 400)):
        config = GatewayConfig(
            port=0,
            allow_networks=(ip_network("127.0.0.0/8"),),
            max_media_bytes=len(audio) // 2,
            max_upload_bytes=most,
        )
        async with running(config) as gateway, serving(says(ok(audio))) as port:
            async with httpx.AsyncClient(
                base_url=gateway.http, trust_env=False, verify=False
            ) as client:
                asked = {"url": f"http://127.0.0.1:{port}/talk.wav"}
                given: dict[str, Any] = {"json": asked} if "listen" in path else {"data": asked}
                answer = await client.post(path, **given, timeout=PATIENCE)
                assert answer.status_code == status, answer.text


async def test_a_body_may_come_in_pieces(http: httpx.AsyncClient) -> None:
    request = http.build_request(
        "POST", "/v1/audio/transcriptions", files={"file": ("a.wav", wav(1.0))}
    )
    body = request.read()

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 5000):
            yield body[at : at + 5000]

    kind = {"content-type": request.headers["content-type"]}
    answer = await http.post("/v1/audio/transcriptions", content=pieces(), headers=kind)
    assert answer.json()["text"] == "transcribe 1.0 seconds."


async def test_a_url_that_leads_nowhere_names_its_field(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/audio/transcriptions", data={"url": "http://127.0.0.1:1/a.wav"})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "url")
    answer = await post(http, url="http://127.0.0.1:1/a.wav")
    assert answer.json()["error"]["message"].startswith("url: expected none beside a file")
    answer = await http.post("/v1/audio/transcriptions", data={"model": "fake/whisper"})
    assert "or its url" in answer.json()["error"]["message"]
