"""Chat over HTTP: what is asked, how the answer comes, and what goes wrong."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from lookhear import (
    AnswerCompleted,
    AnswerDelta,
    AsyncClient,
    AuthenticationError,
    Client,
    ConnectionFailed,
    InvalidRequest,
    ModelNotFound,
    ProtocolError,
    ReasoningDelta,
    ServerError,
    SourceError,
    Usage,
    blocking,
    message,
)
from lookhear.chat.content import audio_part, medium_url, named
from lookhear.commands.private_server import free_port
from tests.clients.chat_server import ChatServer, answer, chunk

PNG = b"\x89PNG\r\n\x1a\n, or so it begins"
WAV = b"RIFF....WAVEfmt "


async def test_text_comes_as_it_is_written_and_says_how_it_ended() -> None:
    with ChatServer(answer("A ", "red ", "circle.")).running() as server:
        asked = AsyncClient(server.url).chat("What is it?")
        assert asked.completed is None
        assert [text async for text in asked] == ["A ", "red ", "circle."]
    usage = Usage(prompt=70, output=3, cached=64, image=49)
    assert asked.completed == AnswerCompleted("A red circle.", "stop", usage=usage)


async def test_what_is_asked_reaches_the_server(tmp_path: Path) -> None:
    picture = tmp_path / "picture.dat"
    picture.write_bytes(PNG)
    with ChatServer(answer("yes")).running() as server:
        asked = AsyncClient(server.url + "/v1/", "secret").chat(
            "Which?",
            images=[picture, PNG, "https://example.org/b.jpg"],
            videos=["data:video/mp4;base64,AAAA"],
            audio=[WAV],
            detail="low",
            system="Be brief.",
            model="a/b",
            max_tokens=5,
            temperature=0.0,
            stop=["\n"],
            extra={"top_k": 3},
        )
        assert (await asked.read()).text == "yes"
    (request,) = server.requests
    system, user = request.pop("messages")
    assert system == {"role": "system", "content": "Be brief."}
    local = "data:image/png;base64," + base64.b64encode(PNG).decode()
    urls = [local, local, "https://example.org/b.jpg"]
    assert user["content"] == [
        *({"type": "image_url", "image_url": {"url": url, "detail": "low"}} for url in urls),
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {
            "type": "input_audio",
            "input_audio": {"data": "UklGRi4uLi5XQVZFZm10IA==", "format": "wav"},
        },
        {"type": "text", "text": "Which?"},
    ]
    assert request == {
        "model": "a/b",
        "max_completion_tokens": 5,
        "temperature": 0.0,
        "stop": ["\n"],
        "top_k": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert server.headers[0]["Authorization"] == "Bearer secret"


async def test_messages_are_passed_on() -> None:
    said = [message("user", "Hello"), message("assistant", "Hi"), message("user", "And?")]
    with ChatServer(answer("so")).running() as server:
        await AsyncClient(server.url).chat(said).read()
    assert server.requests[0]["messages"] == said
    with pytest.raises(ValueError, match="part of them"):
        AsyncClient(server.url).chat(said, images=[PNG])


async def test_reasoning_is_told_apart() -> None:
    frames = [chunk(reasoning_content="Hm."), chunk(reasoning_content=" Ah."), *answer("Two")]
    with ChatServer(frames).running() as server:
        events = [event async for event in AsyncClient(server.url).chat("How many?").events()]
    assert events[:3] == [ReasoningDelta("Hm."), ReasoningDelta(" Ah."), AnswerDelta("Two")]
    completed = events[3]
    assert isinstance(completed, AnswerCompleted)
    assert (completed.text, completed.reasoning) == ("Two", "Hm. Ah.")


async def test_other_choices_are_not_mixed_in() -> None:
    other = json.loads(chunk(content="Three"))
    other["choices"][0]["index"] = 1
    with ChatServer([json.dumps(other), *answer("Two")]).running() as server:
        assert (await AsyncClient(server.url).chat("How many?").read()).text == "Two"


async def test_an_answer_longer_than_what_may_wait_comes_whole() -> None:
    words = [f"{number} " for number in range(3000)]
    with ChatServer(answer(*words)).running() as server:
        said = [text async for text in AsyncClient(server.url).chat("Count?")]
    assert said == words


async def test_leaving_an_answer_that_waits_for_us_hangs_up() -> None:
    """Its thread stands still, with more to read than may wait, and ends all the same."""
    with ChatServer(answer(*["word "] * 3000)).running() as server:
        async with AsyncClient(server.url).chat("A story?") as story:
            assert await anext(story) == "word "
            (thread,) = [t for t in threading.enumerate() if t.name == "lookhear-answer"]
        await asyncio.to_thread(thread.join, 60)
        assert not thread.is_alive()


async def test_leaving_early_hangs_up() -> None:
    with ChatServer([chunk(content="Once upon")], hold=True).running() as server:
        async with AsyncClient(server.url).chat("A story?") as story:
            async for text in story:
                assert text == "Once upon"
                break
        assert await asyncio.to_thread(server.hung_up.wait, 60)
        assert [text async for text in story] == [] and story.completed is None
        with pytest.raises(ProtocolError, match="closed before"):
            await story.read()


async def test_cancelling_the_task_hangs_up() -> None:
    with ChatServer([chunk(content="Once")], hold=True).running() as server:
        started = asyncio.Event()

        async def ask() -> None:
            async with AsyncClient(server.url).chat("A story?") as story:
                async for _ in story:
                    started.set()

        task = asyncio.create_task(ask())
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
        assert await asyncio.to_thread(server.hung_up.wait, 60)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"code": "invalid_image", "param": "messages[0].content[0]"}, InvalidRequest),
        (401, {"code": "invalid_api_key"}, AuthenticationError),
        (404, {"code": "model_not_found"}, ModelNotFound),
        (503, {"code": "engine_not_ready"}, ServerError),
    ],
)
async def test_refusals_are_typed(
    status: int, error: dict[str, str], kind: type[ServerError]
) -> None:
    body = json.dumps({"error": {"message": "expected a picture", **error}}).encode()
    with ChatServer(refusal=(status, body)).running() as server:
        with pytest.raises(kind, match="expected a picture") as caught:
            await AsyncClient(server.url).chat("What?").read()
    assert (caught.value.code, caught.value.param) == (error["code"], error.get("param"))


async def test_an_error_in_the_middle_of_the_answer() -> None:
    error = {"error": {"message": "the engine stopped", "type": "server_error", "code": "x"}}
    with ChatServer([chunk(content="Wel"), json.dumps(error)]).running() as server:
        asked, said = AsyncClient(server.url).chat("What?"), []
        with pytest.raises(ServerError, match="the engine stopped"):
            async for text in asked:
                said.append(text)
    assert said == ["Wel"]


@pytest.mark.parametrize("frame", ["{", "[]", '{"choices": [1]}', '{"error": 3}'])
async def test_nonsense_is_a_protocol_error(frame: str) -> None:
    with ChatServer([frame]).running() as server:
        with pytest.raises(ProtocolError, match="not well formed"):
            await AsyncClient(server.url).chat("What?").read()


async def test_an_answer_that_breaks_off_is_not_taken_for_whole() -> None:
    with ChatServer([chunk(content="Well")]).running() as server:
        with pytest.raises(ConnectionFailed, match="broke off"):
            await AsyncClient(server.url).chat("What?").read()


async def test_no_server_and_no_file() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionFailed, match=url):
        await AsyncClient(url).chat("What?").read()
    with pytest.raises(SourceError, match="cannot read /no/such.png: No such file"):
        await AsyncClient(url).chat("What?", images=["/no/such.png"]).read()


def test_the_blocking_client_says_the_same() -> None:
    with ChatServer(answer("A ", "circle.")).running() as server, Client(server.url) as client:
        asked = client.chat("What?", images=[PNG])
        assert list(asked) == ["A ", "circle."]
        assert asked.completed is not None and asked.completed.finish_reason == "stop"
        assert client.chat("What?").read().text == "A circle."
        assert list(client.chat("What?").events())[-1] == asked.completed
        server.hold, server.frames = True, [chunk(content="Once")]
        with client.chat("A story?") as story:
            assert next(story) == "Once"
        assert server.hung_up.wait(60)


class CtrlC:
    """Pressed at a step, counted from 0, of what the blocking client does in this thread."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != blocking.__file__:
            return None
        self.left -= 1
        if self.left == -1:
            raise KeyboardInterrupt
        return self


def test_ctrl_c_at_any_moment_leaves_nothing_under_way() -> None:
    server = ChatServer([chunk(content="Once")], hold=True)
    with server.running(), Client(server.url) as client:
        for step in itertools.count():
            story = client.chat("A story?")
            sys.settrace(CtrlC(step))
            try:
                with story:
                    assert next(story) == "Once"
                break
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            story.close()
            assert list(story) == [] and story.completed is None
        assert step > 10
        server.hold, server.frames = False, answer("so")
        assert client.chat("What?").read().text == "so"


def test_a_file_goes_as_what_it_is() -> None:
    assert medium_url(b"GIF89a").startswith("data:image/gif;base64,")
    assert audio_part(b"OggS")["audio_url"]["url"] == "data:audio/ogg;base64,T2dnUw=="


def test_a_refused_medium_is_called_by_its_name() -> None:
    place = "messages[2].content[1].image_url.url"
    refusal = InvalidRequest(f"{place}: expected a picture", "invalid_image", place)
    told = named(refusal, ["a.png", Path("b.png")], 2)
    assert (str(told), told.code, told.param) == ("b.png: expected a picture", refusal.code, place)
    assert str(named(refusal, [b"", b""], 2)) == "the given bytes: expected a picture"
    for untouched in (named(refusal, ["a.png"], 2), named(refusal, ["a", "b"], 0)):
        assert untouched is refusal
    assert named(other := InvalidRequest("no"), ["a"], 0) is other
