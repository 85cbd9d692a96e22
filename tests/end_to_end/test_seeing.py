"""Pictures, end to end: demo-qwen3-vl and demo-qwen3-asr behind one gateway, as users meet them."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from PIL import Image, ImageDraw

from benchmarks.conversation.eager import questions, talk
from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess

ROOT = Path(__file__).parent.parent.parent
RECORDINGS = ROOT / "tools" / "demo" / "lookhear_demo" / "recordings"
COLOUR, COUNT = "What colour is the circle?", "How many shapes are there?"


@pytest.fixture
async def openai(seeing_server: ServerProcess) -> AsyncIterator[AsyncOpenAI]:
    base = f"127.0.0.1:{seeing_server.port}/v1"
    async with AsyncOpenAI(
        api_key="unused", base_url=f"http://{base}", websocket_base_url=f"ws://{base}"
    ) as client:
        yield client


def scene(circle: str = "red", square: str | None = "blue", scale: int = 1) -> bytes:
    """A PNG: a circle at the top left and perhaps a square at the bottom right."""
    image = Image.new("RGB", (192 * scale, 192 * scale), (244, 242, 236))
    brush = ImageDraw.Draw(image)
    brush.ellipse([10 * scale, 10 * scale, 54 * scale, 54 * scale], fill=circle)
    if square is not None:
        brush.rectangle([138 * scale, 138 * scale, 182 * scale, 182 * scale], fill=square)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def url(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def asked(image: bytes, question: str) -> list[Any]:
    picture = {"type": "image_url", "image_url": {"url": url(image)}}
    return [{"role": "user", "content": [picture, {"type": "text", "text": question}]}]


async def test_a_question_about_a_picture_over_http(openai: AsyncOpenAI) -> None:
    for colour in ("red", "green", "blue"):
        completion = await openai.chat.completions.create(
            model="demo-qwen3-vl", messages=asked(scene(colour, "black"), COLOUR)
        )
        assert completion.choices[0].message.content == f"{colour.capitalize()}."
        assert completion.choices[0].finish_reason == "stop"


async def test_a_streamed_answer_and_its_usage(openai: AsyncOpenAI) -> None:
    stream = await openai.chat.completions.create(
        model="demo-qwen3-vl",
        messages=asked(scene(), COUNT),
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "Two."
    usage = chunks[-1].usage
    assert usage is not None and usage.completion_tokens > 0


async def test_the_second_question_finds_the_picture(openai: AsyncOpenAI) -> None:
    image = scene("green", "red")
    cached = []
    for question in (COUNT, COLOUR):
        completion = await openai.chat.completions.create(
            model="demo-qwen3-vl", messages=asked(image, question)
        )
        assert completion.usage is not None and completion.usage.prompt_tokens_details is not None
        cached.append(completion.usage.prompt_tokens_details.cached_tokens or 0)
    assert cached[1] >= 32 > cached[0]


async def test_a_large_drawing_is_seen_as_a_small_one(openai: AsyncOpenAI) -> None:
    completion = await openai.chat.completions.create(
        model="demo-qwen3-vl", messages=asked(scene("blue", None, scale=6), COLOUR)
    )
    assert completion.choices[0].message.content == "Blue."


async def test_what_is_not_there(openai: AsyncOpenAI) -> None:
    completion = await openai.chat.completions.create(
        model="demo-qwen3-vl", messages=asked(scene(), "Is there a green star?")
    )
    assert completion.choices[0].message.content == "No."


async def test_a_question_over_the_realtime_socket(openai: AsyncOpenAI) -> None:
    text = ""
    async with openai.realtime.connect(model="demo-qwen3-vl") as connection:
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        await connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": url(scene("blue"))},
                    {"type": "input_text", "text": COLOUR},
                ],
            }
        )
        await connection.response.create()
        async for event in connection:
            assert event.type != "error", event
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "response.done":
                assert event.response.status == "completed"
                break
    assert text == "Blue."


async def test_a_spoken_question_about_a_picture_on_one_socket(
    seeing_server: ServerProcess,
) -> None:
    async with AsyncClient(seeing_server.address.base_url).conversation() as talk:
        await talk.add_image(scene("green", "purple"))
        question = await talk.add_audio(RECORDINGS / "question-colour.opus")
        assert question == COLOUR
        assert "".join([text async for text in talk.respond()]) == "Green."
        assert await talk.add_audio(RECORDINGS / "question-count.opus") == COUNT
        assert "".join([text async for text in talk.respond()]) == "Two."


def test_the_command_answers_a_spoken_question(
    seeing_server: ServerProcess, tmp_path: Path
) -> None:
    image = tmp_path / "scene.png"
    image.write_bytes(scene("blue", "red"))
    spoken = str(RECORDINGS / "question-colour.opus")
    command = [sys.executable, "-m", "lookhear", "chat", "--server", seeing_server.address.base_url]
    done = subprocess.run(
        [*command, "--image", str(image), "--audio", spoken],
        capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert COLOUR in done.stdout + done.stderr and "Blue." in done.stdout


async def test_a_spoken_question_over_http(openai: AsyncOpenAI) -> None:
    """The audio part is heard by the model that transcribes."""
    speech = base64.b64encode((RECORDINGS / "question-colour.opus").read_bytes()).decode()
    content: list[Any] = [
        {"type": "image_url", "image_url": {"url": url(scene("red"))}},
        {"type": "input_audio", "input_audio": {"data": speech, "format": "mp3"}},
    ]
    completion = await openai.chat.completions.create(
        model="demo-qwen3-vl", messages=[{"role": "user", "content": content}]
    )
    assert completion.choices[0].message.content == "Red."


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "image_url", "image_url": {"url": url(scene()[:200])}}, "image_url"),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}},
            "image_url",
        ),
        ({"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}}, "image_url"),
        ({"type": "hologram"}, "type"),
    ],
)
async def test_bad_parts_are_named_and_disturb_nobody(
    seeing_server: ServerProcess, openai: AsyncOpenAI, part: Any, path: str
) -> None:
    body = {"model": "demo-qwen3-vl", "messages": [{"role": "user", "content": [part]}]}
    upload = (json.dumps(body).encode(), "application/json")
    status, answer = seeing_server.address.exchange("/v1/chat/completions", upload)
    error = json.loads(answer)["error"]
    assert status == 400 and error["param"].startswith("messages[0].content[0]"), error
    assert path in error["param"]
    completion = await openai.chat.completions.create(
        model="demo-qwen3-vl", messages=asked(scene(), COLOUR)
    )
    assert completion.choices[0].message.content == "Red."


@pytest.mark.parametrize("pause", [0.0, 0.35])
async def test_an_eager_answer_is_seen_once_the_turn_is_over(
    seeing_server: ServerProcess, pause: float
) -> None:
    asked = await asyncio.to_thread(talk, seeing_server.port, 0, questions()[:1], True, [pause])
    assert (asked.turns, asked.unanswered, asked.wrong) == (1, 0, 0)
