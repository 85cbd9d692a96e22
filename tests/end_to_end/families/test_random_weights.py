"""Families of random weights behind the sockets and routes that all have: a Moonshine, a
transducer, a Voxtral and a Parakeet hear, live and in files, a Qwen3 of experts answers, and a
SmolVLM about a picture."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile

from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.live.events import TextDelta, TurnCompleted, TurnFailed
from tests.end_to_end.conftest import SERVE, Talk
from tests.gateway.chatting import data_url, png
from tools.random_checkpoints.moonshine import (
    build_random_moonshine,
    build_random_streaming_moonshine,
)
from tools.random_checkpoints.parakeet import build_random_parakeet
from tools.random_checkpoints.pooling import build_reranker
from tools.random_checkpoints.qwen3 import EXPERTS
from tools.random_checkpoints.smolvlm import build_served_smolvlm
from tools.random_checkpoints.transducer import build_random_transducer
from tools.random_checkpoints.voxtral import build_random_voxtral


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("families")
    build_random_moonshine(folder / "moonshine", seed=2, max_position_embeddings=300)
    build_random_streaming_moonshine(folder / "streaming", seed=7)
    build_random_transducer(folder / "transducer", seed=3)
    build_random_voxtral(folder / "voxtral", seed=3)
    build_random_parakeet(folder / "parakeet", seed=2)
    build_reranker(folder / "experts", seed=3, **EXPERTS)
    arguments = ["--model", f"moonshine={folder / 'moonshine'}"]
    arguments += ["--model", f"streaming={folder / 'streaming'}"]
    arguments += ["--model", f"transducer={folder / 'transducer'}"]
    arguments += ["--model", f"voxtral={folder / 'voxtral'}"]
    arguments += ["--model", f"parakeet={folder / 'parakeet'}"]
    build_served_smolvlm(folder / "smol", seed=3)
    arguments += ["--model", f"smol={folder / 'smol'}"]
    arguments += ["--model", f"experts={folder / 'experts'}", *SERVE]
    with ServerProcess(arguments=arguments, start_seconds=180.0) as process:
        yield process


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address.base_url, timeout=60.0) as client:
        yield client


def recording(samples: np.ndarray, rate: int) -> dict[str, tuple[str, bytes]]:
    held = io.BytesIO()
    soundfile.write(held, samples, rate, format="wav")
    return {"file": ("a.wav", held.getvalue())}


def test_both_are_listed(http: httpx.Client) -> None:
    told = {one["id"]: one for one in http.get("/v1/models").json()["data"]}
    assert told["moonshine"]["architecture"] == "MoonshineForConditionalGeneration"
    assert told["experts"]["architecture"] == "Qwen3MoeForCausalLM"
    assert {"chat", "embed", "score"} <= set(told["experts"]["abilities"])


@pytest.mark.parametrize("model", ["moonshine", "streaming", "transducer", "voxtral", "parakeet"])
async def test_speech_is_heard_live(
    server: ServerProcess, talks: dict[str, Talk], model: str
) -> None:
    client = AsyncClient(server.address.base_url)
    stream = client.transcribe(talks["en"].samples, rate=24_000, pace=4.0, model=model)
    events = [event async for event in stream]
    turns = [event for event in events if isinstance(event, TurnCompleted)]
    assert turns and any(turn.text for turn in turns)
    assert not any(isinstance(event, TurnFailed) for event in events)
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert said == "".join(turn.text for turn in turns)


@pytest.mark.parametrize("model", ["moonshine", "streaming", "transducer", "voxtral", "parakeet"])
def test_a_file_is_heard(http: httpx.Client, talks: dict[str, Talk], model: str) -> None:
    files = recording(talks["en"].samples, 24_000)
    data = {"model": model, "response_format": "verbose_json"}
    answer = http.post("/v1/audio/transcriptions", files=files, data=data)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["text"] and told["segments"]
    assert told["text"] == "".join(segment["text"] for segment in told["segments"]).strip()


@pytest.mark.parametrize("model", ["transducer", "voxtral", "parakeet"])
def test_a_file_is_told_as_it_is_heard(
    http: httpx.Client, talks: dict[str, Talk], model: str
) -> None:
    files = recording(talks["en"].samples, 24_000)
    data = {"model": model, "stream": "true"}
    answer = http.post("/v1/audio/transcriptions", files=files, data=data)
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    events = [json.loads(line) for line in lines if line.startswith("{")]
    said = [event["delta"] for event in events if event["type"] == "transcript.text.delta"]
    (done,) = [event for event in events if event["type"] == "transcript.text.done"]
    assert said and "".join(said) == done["text"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("timestamp_granularities[]", "word"), ("prompt", "before"), ("keywords[]", "Moon")],
)
def test_what_it_cannot_do_is_refused(
    http: httpx.Client, talks: dict[str, Talk], field: str, value: str
) -> None:
    files = recording(talks["en"].samples, 24_000)
    data = {"model": "moonshine", "response_format": "verbose_json", field: value}
    answer = http.post("/v1/audio/transcriptions", files=files, data=data)
    assert answer.status_code == 400, answer.text
    assert field.split("[")[0] in answer.json()["error"]["message"]


@pytest.mark.parametrize("model", ["transducer", "voxtral"])
async def test_who_streams_by_itself_writes_while_somebody_speaks(
    server: ServerProcess, talks: dict[str, Talk], model: str
) -> None:
    """Words with their times, sooner for who asks for that; joined, they are the whole turn."""
    client = AsyncClient(server.address.base_url)
    samples = talks["en"].samples
    for delay in (None, "minimal"):
        stream = client.transcribe(
            samples, rate=24_000, pace=1.0, model=model, words=True, delay=delay
        )
        events = [event async for event in stream]
        (deltas, turns) = (
            [event for event in events if isinstance(event, kind)]
            for kind in (TextDelta, TurnCompleted)
        )
        assert len(deltas) > len(turns) > 0
        assert "".join(event.text for event in deltas) == "".join(turn.text for turn in turns)


@pytest.mark.parametrize("model", ["transducer", "voxtral"])
def test_words_of_a_file_are_timed(http: httpx.Client, talks: dict[str, Talk], model: str) -> None:
    files = recording(talks["en"].samples, 24_000)
    data = {
        "model": model,
        "response_format": "verbose_json",
        "timestamp_granularities[]": "word",
    }
    answer = http.post("/v1/audio/transcriptions", files=files, data=data)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["words"] and [word["word"] for word in told["words"]] == told["text"].split()


def test_experts_answer_alike_whole_and_streamed(http: httpx.Client) -> None:
    body = {
        "model": "experts",
        "messages": [{"role": "user", "content": "Tell me about the red circle."}],
        "max_tokens": 12,
        "temperature": 0,
    }
    whole = http.post("/v1/chat/completions", json=body)
    assert whole.status_code == 200, whole.text
    text = whole.json()["choices"][0]["message"]["content"]
    again = http.post("/v1/chat/completions", json=body).json()
    assert text and again["choices"][0]["message"]["content"] == text
    with http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as stream:
        lines = [line for line in stream.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]" and len(lines) > 2
    vectors = http.post("/v1/embeddings", json={"model": "experts", "input": ["a", "b"]}).json()
    assert len(vectors["data"]) == 2


def test_a_small_model_sees_a_picture(http: httpx.Client) -> None:
    def told(shade: int, detail: str) -> httpx.Response:
        url = data_url(png(40, 40, (shade, 9, 200)))
        parts = [
            {"type": "image_url", "image_url": {"url": url, "detail": detail}},
            {"type": "text", "text": "What is it?"},
        ]
        body = {
            "model": "smol",
            "messages": [{"role": "user", "content": parts}],
            "max_tokens": 8,
            "temperature": 0,
            "ignore_eos": True,
            "logprobs": True,
        }
        answer = http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        return answer

    def logprobs(answer: httpx.Response) -> list[float]:
        content = answer.json()["choices"][0]["logprobs"]["content"]
        return [round(one["logprob"], 4) for one in content]

    first = told(30, "high")
    assert first.json()["usage"]["prompt_tokens_details"]["image_tokens"] == 4 * 10
    assert logprobs(told(30, "high")) == logprobs(first) != logprobs(told(220, "high"))
    assert told(30, "low").json()["usage"]["prompt_tokens_details"]["image_tokens"] == 4
    part = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,"}}
    body = {"model": "smol", "messages": [{"role": "user", "content": [part]}]}
    refused = http.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400 and "smol takes no videos" in refused.text
