"""An encoder apart: demo-qwen3-vl in two language engines and one encoder answers as it does whole,
also when the encoder is killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.conftest import SERVE
from tests.end_to_end.test_seeing import COLOUR, COUNT, scene
from tests.gateway.chatting import URL, image, text, user

CIRCLES, SQUARES = ("red", "blue", "green", "yellow"), ("blue", None)
QUESTIONS = [
    user(image(scene(circle, square)), text(question))
    for circle in CIRCLES
    for square in SQUARES
    for question in (COLOUR, COUNT)
]
TWO = [
    user(image(scene("red")), text("and"), image(scene("green")), text(COLOUR)),
    user("Tell me of a circle."),
]


@pytest.fixture(scope="module")
def apart() -> Iterator[ServerProcess]:
    model = ["--model", "demo-qwen3-vl", *SERVE]
    arguments = [*model, "--replicas", "2", "--encoders", "1"]
    with ServerProcess(arguments=arguments, start_seconds=120.0) as process:
        yield process


@pytest.fixture(scope="module")
def expected(seeing_server: ServerProcess) -> list[Any]:
    """What one engine answers that has all of the model."""
    return asyncio.run(answers(seeing_server, [*QUESTIONS, *TWO]))


async def answers(server: ServerProcess, questions: list[dict[str, Any]]) -> list[Any]:
    """Of all at once: text, tokens with their alternatives, and the prompt's tokens."""
    base = server.address.base_url
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=120) as http:
        return await asyncio.gather(*(answered(http, question) for question in questions))


async def answered(http: httpx.AsyncClient, question: dict[str, Any]) -> Any:
    body = {"model": "demo-qwen3-vl", "messages": [question], "logprobs": True, "top_logprobs": 2}
    answer = await http.post(URL, json={**body, "temperature": 0, "max_tokens": 12})
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    tokens = [token["token"] for token in choice["logprobs"]["content"]]
    scores = [token["logprob"] for token in choice["logprobs"]["content"]]
    return choice["message"]["content"], tokens, scores, answer.json()["usage"]["prompt_tokens"]


def assert_same(found: list[Any], expected: list[Any]) -> None:
    """What is computed beside others may differ in the last digit."""
    for one, other in zip(found, expected, strict=True):
        assert (one[:2], one[3]) == (other[:2], other[3])
        assert one[2] == pytest.approx(other[2], abs=1e-3)


def engines(server: ServerProcess) -> dict[str, list[psutil.Process]]:
    """The processes by role."""
    found: dict[str, list[psutil.Process]] = {}
    for process in psutil.Process(server.pid).children():
        line = process.cmdline()
        if "lookhear.engine.process" in line:
            found.setdefault(json.loads(line[-1])["role"], []).append(process)
    return found


def counted(server: ServerProcess, name: str, engine: str) -> float:
    lines = server.address.request("/metrics").decode().splitlines()
    (value,) = [
        float(line.split()[-1])
        for line in lines
        if line.startswith(f"lookhear_{name}{{") and f'"{engine}"' in line
    ]
    return value


async def test_answers_are_those_of_the_whole_model(
    apart: ServerProcess, expected: list[Any]
) -> None:
    assert {role: len(held) for role, held in engines(apart).items()} == {
        "language": 2,
        "encoder": 1,
    }
    assert_same(await answers(apart, [*QUESTIONS, *TWO]), expected)
    assert {text for text, *_ in expected[: len(QUESTIONS)]} > {"Red.", "Green."}
    ready = json.loads(apart.address.request("/ready"))
    parts = [(m.get("replica"), m.get("encoder"), m["state"]) for m in ready["models"]]
    assert parts == [(1, None, "ready"), (2, None, "ready"), (None, 1, "ready")]


async def test_a_killed_encoder_costs_nobody_an_answer(
    apart: ServerProcess, expected: list[Any]
) -> None:
    """It stands still until questions wait for it, and is killed then; texts go on meanwhile."""
    (encoder,) = engines(apart)["encoder"]
    os.kill(encoder.pid, signal.SIGSTOP)
    fresh = [user(image(scene(c, "blue", scale=2)), text(COLOUR)) for c in CIRCLES]
    waiting = asyncio.create_task(answers(apart, fresh))
    texts = await answers(apart, TWO[1:])
    assert_same(texts, expected[-1:])
    await asyncio.to_thread(until_asked, apart)
    assert not waiting.done()
    os.kill(encoder.pid, signal.SIGKILL)
    told = await waiting
    assert [text for text, *_ in told] == ["Red.", "Blue.", "Green.", "Yellow."]
    (again,) = engines(apart)["encoder"]
    assert again.pid != encoder.pid


def until_asked(server: ServerProcess) -> None:
    """Until a language engine says that it awaits media."""
    while not sum(counted(server, "engine_media_awaited", str(n)) for n in (1, 2)):
        psutil.Process(server.pid).status()  # raises if it is gone


def test_a_model_without_parts_ends_the_start_with_a_line() -> None:
    command = [sys.executable, "-m", "lookhear", "serve", "demo-whisper", "--encoders", "1"]
    done = subprocess.run([*command, "--port", "0"], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "encoders:" in line]
    assert "expected a model whose encoder can be apart (Qwen3-VL, Qwen3-VL-MoE)" in line
    assert "got a Whisper" in line and "Traceback" not in done.stderr
