"""Models that hear, of random weights, behind their routes and sockets: a Qwen3-Omni is asked about
text, a picture, a video and a recording, and spoken to; a Voxtral about recordings; and what they
do not do."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from PIL import Image as pillow

from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.conftest import SERVE, Talk
from tests.gateway.running import Client
from tools.random_checkpoints.qwen3_omni import build_served_qwen3_omni, make_whole
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl
from tools.random_checkpoints.voxtral_chat import build_random_voxtral_chat

URL = "/v1/chat/completions"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("omni")
    build_served_qwen3_omni(folder / "omni", seed=5)
    make_whole(folder / "omni")
    build_served_qwen3_vl(folder / "sees", seed=3)
    arguments = ["--model", f"sees={folder / 'sees'}", "--model", f"omni={folder / 'omni'}", *SERVE]
    with ServerProcess(arguments=arguments, start_seconds=180.0) as process:
        yield process


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address.base_url, timeout=60.0) as client:
        yield client


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Beside a model that transcribes: a Voxtral, which answers, too."""
    folder: Path = tmp_path_factory.mktemp("omni")
    build_served_qwen3_omni(folder / "omni", seed=5)
    build_random_voxtral_chat(folder / "voxtral", seed=5)
    models = ["--model", f"omni={folder / 'omni'}", "--model", f"voxtral={folder / 'voxtral'}"]
    with ServerProcess(arguments=[*models, *SERVE], start_seconds=180.0) as process:
        yield process


@pytest.fixture
def voxtral(listening: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=listening.address.base_url, timeout=60.0) as client:
        yield client


def picture(shade: int = 90, kind: str = "png") -> str:
    held = io.BytesIO()
    pillow.new("RGB", (40, 24), (shade, 20, 200)).save(held, kind)
    return base64.b64encode(held.getvalue()).decode()


def recording(seconds: float, rate: int = 24_000) -> dict[str, Any]:
    samples = np.random.default_rng(3).normal(0.0, 0.1, round(seconds * rate))
    held = io.BytesIO()
    soundfile.write(held, samples, rate, format="wav")
    data = base64.b64encode(held.getvalue()).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def question(*, seconds: float = 2.0, shade: int = 90) -> dict[str, Any]:
    stills = ",".join(picture(shade, "jpeg") for shade in (10, 60, 110, 160))
    content: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture(shade)}"}},
        recording(seconds),
        {"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{stills}"}},
        {"type": "text", "text": "What is all that?"},
    ]
    return {
        "model": "omni",
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 12,
        "temperature": 0,
        "ignore_eos": True,
        "logprobs": True,
    }


def tokens_of(answer: httpx.Response) -> list[tuple[str, float]]:
    assert answer.status_code == 200, answer.text
    found = answer.json()["choices"][0]["logprobs"]["content"]
    return [(one["token"], round(one["logprob"], 4)) for one in found]


def test_it_says_what_it_can(http: httpx.Client) -> None:
    told = {one["id"]: one for one in http.get("/v1/models").json()["data"]}
    assert told["omni"]["architecture"] == "Qwen3OmniMoeForConditionalGeneration"
    assert told["omni"]["abilities"] == ["chat", "image", "video", "audio"]


def test_text_picture_video_and_recording_in_one_question(http: httpx.Client) -> None:
    whole = http.post(URL, json=question())
    tokens = tokens_of(whole)
    assert len(tokens) == 12
    usage = whole.json()["usage"]
    details = usage["prompt_tokens_details"]
    assert details["audio_tokens"] == 26  # 13 a second
    # Frames are enlarged to 128 tokens, or, as here, to the 64 that the file allows: to 7 x 11.
    assert details["image_tokens"] == 15 and details["video_tokens"] == 2 * 77
    assert usage["prompt_tokens"] > 26 + 15 + 2 * 77
    again = http.post(URL, json=question())
    assert tokens_of(again) == tokens
    assert again.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 64
    assert tokens_of(http.post(URL, json=question(seconds=1.0))) != tokens
    assert tokens_of(http.post(URL, json=question(shade=200))) != tokens


def test_streamed(http: httpx.Client) -> None:
    whole = http.post(URL, json=question()).json()["choices"][0]["message"]["content"]
    with http.stream("POST", URL, json={**question(), "stream": True}) as stream:
        lines = [line[6:] for line in stream.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    pieces = [json.loads(line)["choices"][0]["delta"].get("content") for line in lines[:-1]]
    assert "".join(piece or "" for piece in pieces) == whole


def test_a_model_without_ears_says_so(http: httpx.Client) -> None:
    answer = http.post(URL, json={**question(), "model": "sees"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "messages[0].content[1]"
    assert "sees does not hear, and no served model transcribes" in error["message"]


def test_who_names_no_model_gets_the_one_that_hears(http: httpx.Client) -> None:
    body = {name: value for name, value in question().items() if name != "model"}
    assert http.post(URL, json=body).json()["model"] == "omni"


def test_a_recording_beyond_the_context_is_named(http: httpx.Client) -> None:
    answer = http.post(URL, json=question(seconds=60.0))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "messages[0].content[1].input_audio.data"
    assert error["code"] == "context_length_exceeded"
    assert "780 tokens" in error["message"]


def test_sound_of_videos_is_not_heard(http: httpx.Client) -> None:
    body = {**question(), "mm_processor_kwargs": {"use_audio_in_video": True}}
    error = http.post(URL, json=body).json()["error"]
    assert error["param"] == "mm_processor_kwargs.use_audio_in_video"


def test_a_voxtral_says_what_it_can(voxtral: httpx.Client) -> None:
    told = {one["id"]: one for one in voxtral.get("/v1/models").json()["data"]}["voxtral"]
    assert told["architecture"] == "VoxtralForConditionalGeneration"
    assert told["abilities"] == ["transcribe", "chat", "audio", "adapters"]


def test_a_voxtral_hears_recordings_in_whole_windows(voxtral: httpx.Client) -> None:
    """Of 2 s and 25 tokens each; told how to answer, too."""
    text = {"type": "text", "text": "Alike?"}
    content = [recording(1.0), recording(3.0), text]
    told = {"role": "system", "content": "Be brief."}
    body = {
        **question(),
        "model": "voxtral",
        "messages": [told, {"role": "user", "content": content}],
    }
    first, again = (voxtral.post(URL, json=body) for _ in range(2))
    assert len(tokens := tokens_of(first)) == 12 and tokens_of(again) == tokens
    details = again.json()["usage"]["prompt_tokens_details"]
    assert details["audio_tokens"] == 75 and details["cached_tokens"] > 64
    told_later = {**body, "messages": [{"role": "user", "content": content}]}
    assert tokens_of(voxtral.post(URL, json=told_later)) != tokens


def test_a_voxtral_says_what_it_does_not(voxtral: httpx.Client) -> None:
    for seconds, part, message in ((2.0, 0, "voxtral takes no images"), (90.0, 1, "1125 tokens")):
        body = {**question(seconds=seconds), "model": "voxtral"}
        if part:
            del body["messages"][0]["content"][0], body["messages"][0]["content"][1]
        answer = voxtral.post(URL, json=body)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert message in error["message"], error


def test_a_voxtral_answers_responses(voxtral: httpx.Client) -> None:
    sound = recording(1.0)["input_audio"]
    content = [
        {"type": "input_audio", "input_audio": sound},
        {"type": "input_text", "text": "What is it?"},
    ]
    body = {"model": "voxtral", "input": [{"role": "user", "content": content}]}
    answer = voxtral.post("/v1/responses", json={**body, "max_output_tokens": 16})
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["input_tokens"] > 25


SHORT = {"type": "realtime", "max_output_tokens": 4, "lookhear": {"temperature": 0.0}}


def socket_of(server: ServerProcess, model: str = "omni") -> Client:
    url = server.address.base_url.replace("http", "ws", 1)
    return Client(f"{url}/v1/realtime?model={model}")


async def answer_of(client: Client) -> dict[str, Any]:
    response: dict[str, Any] = (await client.until("response.done"))["response"]
    assert response["status"] in ("completed", "incomplete"), response
    details: dict[str, Any] = response["usage"]["input_token_details"]
    return details


async def test_an_item_is_heard_on_the_socket(server: ServerProcess) -> None:
    """Where nobody transcribes; a second question hears it again, out of the cache."""
    async with socket_of(server) as client:
        await client.send("session.update", session=SHORT)
        await client.until("session.updated")
        noise = np.random.default_rng(1).integers(-3000, 3000, 2 * 24_000).astype("<i2")
        parts = [
            {"type": "input_audio", "audio": base64.b64encode(noise.tobytes()).decode()},
            {"type": "input_image", "image_url": f"data:image/png;base64,{picture()}"},
            {"type": "input_text", "text": "What is it?"},
        ]
        item = {"type": "message", "role": "user", "content": parts}
        await client.send("conversation.item.create", item=item)
        await client.send("response.create")
        first = await answer_of(client)
        assert (first["audio_tokens"], first["image_tokens"]) == (26, 15)
        text = [{"type": "input_text", "text": "And?"}]
        more = {"type": "message", "role": "user", "content": text}
        await client.send("conversation.item.create", item=more)
        await client.send("response.create")
        second = await answer_of(client)
        assert second["audio_tokens"] == 26 and second["cached_tokens"] >= 48


async def test_a_voxtral_hears_an_item_on_the_socket(listening: ServerProcess) -> None:
    async with socket_of(listening, "voxtral") as client:
        await client.send("session.update", session={**SHORT, "instructions": "Be brief."})
        await client.until("session.updated")
        noise = np.random.default_rng(1).integers(-3000, 3000, 3 * 24_000).astype("<i2")
        parts = [{"type": "input_audio", "audio": base64.b64encode(noise.tobytes()).decode()}]
        item = {"type": "message", "role": "user", "content": parts}
        await client.send("conversation.item.create", item=item)
        await client.send("response.create")
        assert (await answer_of(client))["audio_tokens"] == 50


def test_a_voxtral_writes_recordings_down(voxtral: httpx.Client) -> None:
    samples = np.random.default_rng(3).normal(0.0, 0.1, 2 * 16_000)
    held = io.BytesIO()
    soundfile.write(held, samples, 16_000, format="wav")
    files = {"file": ("a.wav", held.getvalue())}
    fields = {"model": "voxtral", "language": "en", "response_format": "json"}
    answer = voxtral.post("/v1/audio/transcriptions", data=fields, files=files)
    assert answer.status_code == 200, answer.text
    assert "text" in answer.json()
    refused = voxtral.post(
        "/v1/audio/transcriptions", data={**fields, "model": "omni"}, files=files
    )
    assert refused.status_code in (400, 404)


async def test_a_voxtral_hears_writes_down_and_answers(
    listening: ServerProcess, talks: dict[str, Talk]
) -> None:
    """One engine transcribes a session's turns and answers them."""
    async with socket_of(listening, "voxtral") as client:
        await said_and_answered(client, talks)


async def test_what_is_said_is_heard(listening: ServerProcess, talks: dict[str, Talk]) -> None:
    async with socket_of(listening) as client:
        await said_and_answered(client, talks)


async def said_and_answered(client: Client, talks: dict[str, Talk]) -> None:
    session = {**SHORT, "audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}}}}
    await client.send("session.update", session=session)
    await client.until("session.updated")
    said = np.concatenate([talks["en"].first, np.zeros(36_000, np.float32)])
    pcm = (said * 32_767).astype("<i2").tobytes()
    for start in range(0, len(pcm), 48_000):
        await client.append(pcm[start : start + 48_000])
    details = await answer_of(client)
    assert details["audio_tokens"] >= 13
    transcripts = [e for e in client.seen if e["type"].endswith("transcription.completed")]
    assert transcripts and transcripts[0]["transcript"]
