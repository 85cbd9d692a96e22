"""Chat completions over HTTP: the openai package unmodified, and every body and chunk checked."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from pydantic import ValidationError

from lookhear.engine.client.client import EngineRequestError
from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerSettings,
    ChatMessage,
    ImagePart,
    TextPart,
    VideoPart,
)
from lookhear.gateway.chat.answers import Answers
from lookhear.gateway.chat.loading import Question
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.http.errors import ApiError
from tests.gateway.chatting import (
    URL,
    ask,
    client,
    data_url,
    each,
    frames,
    image,
    jpeg,
    png,
    text,
    user,
)
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.files.test_http import wav
from tests.gateway.running import Running, running
from tests.gateway.strict import check_chunks, check_completion

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def http(seeing: Running) -> AsyncIterator[httpx.AsyncClient]:
    async for it in each(seeing):
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def sdk(seeing: Running) -> AsyncIterator[AsyncOpenAI]:
    seeing.engine.be_well()
    async with AsyncOpenAI(api_key="none", base_url=f"{seeing.http}/v1", max_retries=0) as client:
        yield client


async def test_the_sdk_asks_about_a_picture(sdk: AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(
        model="fake/vision",
        messages=[
            {"role": "system", "content": "be short"},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": data_url(png()), "detail": "low"}},
                    {"type": "text", "text": "what is it"},
                ],
            },
        ],
        logprobs=True,
        top_logprobs=2,
    )
    choice = answer.choices[0]
    assert choice.message.content == "picture 40x30, you said what is it"
    assert choice.finish_reason == "stop"
    assert choice.logprobs is not None and choice.logprobs.content is not None
    tokens = choice.logprobs.content
    assert "".join(token.token for token in tokens) == choice.message.content
    assert [len(token.top_logprobs) for token in tokens] == [2] * len(tokens)
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage is not None and answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens == 7  # five words and two tokens of the picture
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


async def test_the_sdk_streams(sdk: AsyncOpenAI) -> None:
    stream = await sdk.chat.completions.create(
        model="fake/vision",
        messages=[{"role": "user", "content": "hello there"}],
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"chat_template_kwargs": {"enable_thinking": True}, "top_k": 5},
    )
    content, reasoning, usage = "", "", None
    async for chunk in stream:
        usage = chunk.usage
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", "")
    assert (content, reasoning) == ("you said hello there", "let me look")
    assert usage is not None and usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 3
    assert (usage.prompt_tokens, usage.completion_tokens) == (2, 7)


async def test_the_sdks_stream_helper(sdk: AsyncOpenAI) -> None:
    """It checks more than `create` does, and puts the whole together itself."""
    messages: Any = [{"role": "user", "content": "a b"}]
    async with sdk.chat.completions.stream(model="fake/vision", messages=messages) as stream:
        async for _ in stream:
            pass
        whole = await stream.get_final_completion()
    assert whole.choices[0].message.content == "you said a b"


async def test_errors_reach_the_sdk_as_its_own(sdk: AsyncOpenAI, seeing: Running) -> None:
    messages: Any = [user(image("http://127.0.0.1/a.png"))]
    with pytest.raises(openai.BadRequestError) as bad:
        await sdk.chat.completions.create(model="fake/vision", messages=messages)
    assert bad.value.param == "messages[0].content[0].image_url.url"
    messages = [user("hello")]
    with pytest.raises(openai.BadRequestError, match="fake/whisper"):
        await sdk.chat.completions.create(model="fake/whisper", messages=messages)
    seeing.engine.chat.fail_next("server_error")
    stream = await sdk.chat.completions.create(model="fake/vision", messages=messages, stream=True)
    with pytest.raises(openai.APIError, match="asked to fail"):
        async for _ in stream:
            pass


async def test_every_chunk_and_body_is_valid(http: httpx.AsyncClient) -> None:
    question = user(image(png()), text("so"))
    for fields in (
        {},
        {"n": 3, "seed": 1},
        {"logprobs": True},
        {"logprobs": True, "top_logprobs": 3, "max_tokens": 2},
        {"stop": "said", "chat_template_kwargs": {"enable_thinking": True}},
    ):
        whole = check_completion((await ask(http, question, **fields)).json())
        for usage in (False, True):
            answer = await ask(
                http, question, stream=True, stream_options={"include_usage": usage}, **fields
            )
            chunks = check_chunks(frames(answer), usage=usage)
            for choice in whole.choices:
                mine = [c.choices[0] for c in chunks if c.choices]
                mine = [c for c in mine if c.index == choice.index]
                assert "".join(c.delta.content or "" for c in mine) == choice.message.content
                assert mine[-1].finish_reason == choice.finish_reason
                thoughts = "".join(getattr(c.delta, "reasoning_content", "") for c in mine)
                assert thoughts == getattr(choice.message, "reasoning_content", "")
                tokens = [t for c in mine if c.logprobs for t in c.logprobs.content or []]
                wanted = choice.logprobs.content if choice.logprobs else None
                assert tokens == (wanted or [])
            if usage:
                assert chunks[-1].usage == whole.usage


async def test_parameters_reach_the_engine(http: httpx.AsyncClient, seeing: Running) -> None:
    await ask(
        http, user("x"), n=2, seed=5, stop=["a", "b"], temperature=0.5, top_p=0.9, top_k=4,
        min_p=0.1, presence_penalty=1, frequency_penalty=-1, repetition_penalty=1.1,
        logit_bias={"007": -100}, logprobs=True, top_logprobs=2, max_tokens=9,
        max_completion_tokens=7, min_tokens=1, stop_token_ids=[9, 3, 9], ignore_eos=True,
        chat_template_kwargs={"enable_thinking": False}, user="me", metadata={"a": "b"},
        store=False, tools=[], tool_choice="none", response_format={"type": "text"},
        modalities=["text"], parallel_tool_calls=True, unheard_of=1,
    )  # fmt: skip
    first, second = seeing.engine.chat.started
    assert first.settings == AnswerSettings(
        model="fake/vision",
        max_tokens=7,
        min_tokens=1,
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=1,
        frequency_penalty=-1,
        logit_bias={"7": -100},
        seed=5,
        stop=["a", "b"],
        stop_tokens=[3, 9],
        ignore_end=True,
        logprobs=2,
        template={"enable_thinking": False},
    )
    assert second.settings.seed == 6 and second.session == first.session
    seeing.engine.chat.started.clear()
    await ask(http, user("x"), model=...)
    await ask(http, user("x"), model=None, top_k=-1, stop=None, max_tokens=None)
    plain, off = (start.settings for start in seeing.engine.chat.started)
    assert plain.seed != off.seed, "none named: drawn anew"
    assert (plain.model, plain.temperature, plain.top_k, off.top_k) == (
        "fake/vision",
        None,
        None,
        0,
    )
    assert (plain.logprobs, plain.max_tokens) == (None, None)


async def test_a_function_that_is_forced_is_called_once(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    for choice, parallel in ((tool, False), ("required", True), ("auto", True)):
        await ask(http, user("x"), tools=[tool], tool_choice=choice, parallel_tool_calls=True)
        assert seeing.engine.chat.started[-1].settings.parallel_calls is parallel


async def test_roles_and_parts_reach_the_engine(http: httpx.AsyncClient, seeing: Running) -> None:
    picture = png()
    await ask(
        http,
        {"role": "developer", "content": [text("be"), text("kind")]},
        user(image(picture, detail="high"), text("one")),
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "tool_calls": []},
        user({"type": "image_url", "image_url": data_url(picture)}, image(jpeg(), detail=None)),
    )
    (start,) = seeing.engine.chat.started
    assert [message.role for message in start.messages] == ["system", "user", "assistant", "user"]
    assert start.messages[0].parts == [TextPart("be"), TextPart("kind")]
    shown, said = start.messages[1].parts
    assert said == TextPart("one")
    again, other = start.messages[3].parts
    assert isinstance(shown, ImagePart) and isinstance(again, ImagePart)
    assert isinstance(other, ImagePart)
    assert (shown.detail, again.detail) == ("high", "auto")
    assert shown.picture == again.picture != other.picture
    held = [hold.picture for hold in seeing.engine.chat.held]
    assert sorted(held) == sorted({shown.picture, other.picture}), "each is sent once"


async def test_the_last_message_is_gone_on_with(http: httpx.AsyncClient, seeing: Running) -> None:
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "The"}]
    asked = {"messages": said, "continue_final_message": True, "add_generation_prompt": False}
    answer = await http.post(URL, json=asked)
    assert answer.status_code == 200 and "x-lookhear-ignored" not in answer.headers
    start = seeing.engine.chat.started[-1]
    assert start.settings.continues and start.messages[-1].parts == [TextPart("The")]
    assert (await http.post(URL, json={"messages": said})).status_code == 200
    assert not seeing.engine.chat.started[-1].settings.continues


@pytest.mark.parametrize(
    ("said", "fields", "told"),
    [
        ([], {}, "messages[0]: expected a text of the assistant in the end"),
        ([{"role": "assistant", "content": "The"}], {"add_generation_prompt": True}, "false with"),
        ([{"role": "assistant", "content": ""}], {}, "messages[1]: expected a text"),
    ],
)
async def test_what_cannot_be_gone_on_with(
    http: httpx.AsyncClient, said: list[Any], fields: dict[str, Any], told: str
) -> None:
    messages = [{"role": "user", "content": "a"}, *said]
    asked = {"messages": messages, "continue_final_message": True, **fields}
    answer = await http.post(URL, json=asked)
    assert answer.status_code == 400 and told in answer.json()["error"]["message"]


async def test_videos_and_recordings(http: httpx.AsyncClient, seeing: Running) -> None:
    stills = ",".join([base64.b64encode(jpeg()).decode()] * 3)
    recording = base64.b64encode(wav(0.5)).decode()
    answer = await ask(
        http,
        user(
            {"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{stills}"}},
            {"type": "audio_url", "audio_url": {"url": data_url(wav(1.0), "audio/wav")}},
            {"type": "input_audio", "input_audio": {"data": recording, "format": "wav"}},
        ),
    )
    body = check_completion(answer.json())
    said = body.choices[0].message.content
    assert said == "video 3 x 40x30, you said transcribe 0.5 seconds."
    (start,) = seeing.engine.chat.started
    video, long, short = start.messages[0].parts
    assert isinstance(video, VideoPart) and video.seconds == [0.0, 0.5, 1.0]
    assert (long, short) == (
        TextPart("transcribe 1.0 seconds."),
        TextPart("transcribe 0.5 seconds."),
    )
    assert {file.settings.model for file in seeing.engine.files} == {"fake/whisper"}
    assert [file.speech for file in seeing.engine.files] == [[], []]  # nobody speaks in tones
    usage = answer.json()["usage"]["prompt_tokens_details"]
    assert (usage["image_tokens"], usage["video_tokens"], usage["audio_tokens"]) == (0, 6, 0)


async def test_a_call_that_was_cut_off_is_read_as_far_as_it_goes(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    """A client that gives it back with what was wrong with it can go on."""
    function = {"name": "f", "arguments": '{"a":1,"b":"tw'}
    call = {"id": "c", "type": "function", "function": function}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = await ask(
        http, user("a"), asked, {"role": "tool", "tool_call_id": "c", "content": "no JSON"}
    )
    assert answer.status_code == 200, answer.text
    told = seeing.engine.chat.started[-1].messages[1]
    assert [each.arguments for each in told.calls] == ['{"a": 1}']


async def test_what_a_model_would_not_say_is_given_back(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    """As OpenAI's SDK has it: beside a content that is null."""
    refused = {"role": "assistant", "content": None, "refusal": "no"}
    assert (await ask(http, user("a"), refused, user("b"))).status_code == 200
    assert seeing.engine.chat.started[-1].messages[1].parts == [TextPart("no")]


async def test_a_client_that_hangs_up_cancels_its_answers(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    engine = seeing.engine
    engine.chat.hold = True
    request = asyncio.create_task(ask(http, user("a b"), n=2))
    await engine.wait_for(lambda: len(engine.chat.answers) == 2)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await engine.wait_for(lambda: sorted(engine.chat.cancelled) == ["answer_0", "answer_1"])
    await engine.wait_for(lambda: not engine.sessions)


async def test_a_stream_nobody_reads_any_more_is_cancelled(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    engine = seeing.engine
    engine.chat.hold = True
    body = {"messages": [user("a b")], "stream": True}
    async with http.stream("POST", URL, json=body) as answer:
        seen = ""
        async for piece in answer.aiter_text():
            seen += piece
            if '"content":"you"' in seen:
                break
    await engine.wait_for(lambda: engine.chat.cancelled == ["answer_0"])
    await engine.wait_for(lambda: not engine.sessions)


async def test_a_client_that_hangs_up_while_its_picture_is_fetched(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    engine = seeing.engine
    engine.file_gate = asyncio.Event()
    recording = {"data": base64.b64encode(wav(0.5)).decode(), "format": "wav"}
    part = {"type": "input_audio", "input_audio": recording}
    request = asyncio.create_task(ask(http, user(part)))
    await engine.wait_for(lambda: bool(engine.files))
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await engine.wait_for(lambda: bool(engine.cancelled_files))
    assert not engine.chat.started


async def test_answers_of_one_request_come_as_they_are_made(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    seeing.engine.chat.hold = True
    body = {"messages": [user("a")], "stream": True}
    async with http.stream("POST", URL, json=body) as answer:
        lines = answer.aiter_lines()
        async for line in lines:
            if '"content":"you"' in line:
                break
        seeing.engine.chat.release()
        rest = [line async for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert [json.loads(line[6:])["choices"][0]["delta"] for line in rest[:-1]] == [
        {"content": " said"},
        {"content": " a"},
        {},
    ]


async def test_the_engine_forgets_before_a_slow_client_has_read(seeing: Running) -> None:
    seeing.engine.be_well()
    picture = Picture("name", np.zeros((3, 4, 3), np.uint8))
    messages = [ChatMessage("user", [ImagePart("name"), TextPart("a b")])]
    question = Question(messages, ["m"], [["x", "y"]], {"name": picture})
    answers = Answers(seeing.services, lambda: None)
    answers.ask(question, AnswerSettings("fake/vision"), 2)
    assert not question.pictures, "handed over"
    await seeing.engine.wait_for(lambda: not seeing.engine.sessions)
    assert not seeing.engine.chat.pictures
    events = [event async for _, event in answers.events()]
    assert [type(event) for event in events[-2:]] == [AnswerCompleted] * 2
    answers.close()
    assert not seeing.engine.chat.cancelled


async def test_who_does_not_read_at_all_is_given_up(
    seeing: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookhear.gateway.chat.answers.MOST_UNREAD", 3)
    seeing.engine.be_well()
    answers = Answers(seeing.services, lambda: None)
    question = Question([ChatMessage("user", [TextPart("a b")])], ["m"], [["x"]])
    answers.ask(question, AnswerSettings("fake/vision"), 2)
    await seeing.engine.wait_for(lambda: not seeing.engine.sessions)
    read = []
    with pytest.raises(ApiError, match="reads too slowly"):
        async for _, event in answers.events():
            read.append(event)
    assert len(read) == 3
    assert seeing.engine.chat.cancelled


async def test_the_death_of_the_engine() -> None:
    async with running(engine=FakeEngine(sees=True)) as gateway, client(gateway) as http:
        engine = gateway.engine
        engine.chat.hold = True
        whole = asyncio.create_task(ask(http, user("a b")))
        stream = asyncio.create_task(ask(http, user("a b"), stream=True))
        await engine.wait_for(
            lambda: (
                len(engine.chat.answers) == 2
                and all(answer.is_held for answer in engine.chat.answers.values())
            )
        )
        engine.die("fake/vision")
        answer = await whole
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "engine_died"
        *_, last = frames(await stream)
        assert json.loads(last)["error"]["code"] == "engine_died"
        await engine.wait_for(lambda: not engine.sessions)
        refused = await ask(http, user("a"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_not_ready")
        engine.be_well()
        check_completion((await ask(http, user("a"))).json())
        engine.ready = False
        assert (await ask(http, user("a"))).status_code == 503


async def test_an_engine_that_goes_while_a_question_is_prepared(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    engine = seeing.engine
    engine.file_gate = asyncio.Event()
    recording = {"data": base64.b64encode(wav(0.5)).decode(), "format": "wav"}
    part = {"type": "input_audio", "input_audio": recording}
    request = asyncio.create_task(ask(http, user(part)))
    await engine.wait_for(lambda: bool(engine.files))
    engine.down.add("fake/vision")
    engine.file_gate.set()
    answer = await request
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "engine_unavailable"
    assert not engine.sessions


async def test_another_model_transcribes_while_the_first_is_down(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    seeing.engine.down.add("fake/whisper")
    part = {"type": "audio_url", "audio_url": data_url(wav(0.5), "audio/wav")}
    check_completion((await ask(http, user(part))).json())
    assert [file.settings.model for file in seeing.engine.files] == ["fake-english"]
    seeing.engine.file_error = EngineRequestError("audio_too_long", "file: expected at most 5 s")
    answer = await ask(http, user(part))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages[0].content[0].audio_url"


async def test_models_that_do_not_chat(http: httpx.AsyncClient) -> None:
    answer = await ask(http, user("a"), model="fake/whisper")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == ("model", "unsupported_model")
    assert '"fake/vision"' in error["message"] and '"fake/whisper"' in error["message"]
    wrong_way = await http.post(
        "/v1/audio/transcriptions", files={"file": wav(0.1)}, data={"model": "fake/vision"}
    )
    assert (wrong_way.status_code, wrong_way.json()["error"]["param"]) == (400, "model")
    cards = (await http.get("/v1/models")).json()["data"]
    assert [card["abilities"] for card in cards] == [
        ["transcribe", "translate"], ["transcribe"], ["chat", "image", "video"],
    ]  # fmt: skip
    assert [card["toy"] for card in cards] == [False] * 3 and "reason" not in cards[0]
    assert [card.get("max_model_len") for card in cards] == [None, None, 4096]
    async with running() as deaf, client(deaf) as other:
        answer = await ask(other, user("a"), model=...)
        assert answer.status_code == 400
        assert "none is served" in answer.json()["error"]["message"]


async def test_metrics_and_keys() -> None:
    config = GatewayConfig(port=0, api_keys=("secret",))
    async with running(config, FakeEngine(sees=True)) as gateway, client(gateway) as http:
        assert (await ask(http, user("a"))).status_code == 401
        http.headers["authorization"] = "Bearer secret"
        await ask(http, user("a"))
        await ask(http, user("a"), max_tokens=1)
        numbers = (await http.get("/metrics")).text
        assert 'lookhear_answers_total{outcome="stop"} 1.0' in numbers
        assert 'lookhear_answers_total{outcome="length"} 1.0' in numbers
        assert "lookhear_first_token_seconds_count 2.0" in numbers
        assert '{path="/v1/chat/completions",status="200"} 2.0' in numbers


async def test_the_oracle_refuses_what_a_strict_client_would(http: httpx.AsyncClient) -> None:
    good = frames(await ask(http, user("a"), stream=True))
    check_chunks(good)
    first = json.loads(good[0])
    wrong: dict[str, list[str]] = {
        "no end": good[:-1],
        "no role": good[1:],
        "no reason": [*good[:-2], good[-1]],
        "two ends": [*good[:-1], good[-2], good[-1]],
        "another id": [json.dumps({**first, "id": "other"}), *good[1:]],
        "usage unasked": [json.dumps({**first, "usage": None}), *good[1:]],
        "a number as text": [json.dumps({**first, "created": "1"}), *good[1:]],
    }
    for name, chunks in wrong.items():
        with pytest.raises((AssertionError, ValidationError)):
            check_chunks(chunks)
            raise LookupError(name)


async def test_without_effort_nothing_is_thought(http: httpx.AsyncClient, seeing: Running) -> None:
    for asked, template in (
        ({"reasoning_effort": "none"}, {"enable_thinking": False}),
        ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}, None),
        ({"reasoning_effort": "low"}, {}),
    ):
        seeing.engine.chat.started.clear()
        answer = await ask(http, user(text("a")), **asked)
        (start,) = seeing.engine.chat.started
        wanted = asked["chat_template_kwargs"] if template is None else template
        assert start.settings.template == wanted
        assert ("x-lookhear-ignored" in answer.headers) is (template == {})
