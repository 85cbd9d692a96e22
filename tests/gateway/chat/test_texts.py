"""Texts that are gone on with: the openai package unmodified, bodies and chunks checked."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from openai.types import Completion, CompletionChoice

from lookhear.engine.messages import (
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    ChosenToken,
    PromptTokens,
    TextPart,
    TokenLogprob,
)
from lookhear.gateway.chat.answers import ChoiceEvent
from lookhear.gateway.chat.completions.text_reply import TextReply
from tests.gateway.chatting import client, each, frames
from tests.gateway.running import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")

URL = "/v1/completions"


@pytest_asyncio.fixture(loop_scope="module")
async def http(seeing: Running) -> AsyncIterator[httpx.AsyncClient]:
    async for it in each(seeing):
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def sdk(seeing: Running) -> AsyncIterator[AsyncOpenAI]:
    seeing.engine.be_well()
    async with AsyncOpenAI(api_key="none", base_url=f"{seeing.http}/v1", max_retries=0) as client:
        yield client


async def test_the_sdk_has_a_text_gone_on_with(sdk: AsyncOpenAI, seeing: Running) -> None:
    answer = await sdk.completions.create(model="fake/vision", prompt="Once upon", seed=3)
    [choice] = answer.choices
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-")
    assert (choice.text, choice.finish_reason) == ("you said Once upon", "stop")
    assert choice.logprobs is None and answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 4)
    start = seeing.engine.chat.started[-1]
    assert start.settings.is_plain and start.settings.seed == 3
    assert start.settings.max_tokens == 16  # as at OpenAI
    [message] = start.messages
    assert message.parts == [TextPart("Once upon")]


@pytest.mark.parametrize("asked", [{}, {"echo": True}, {"logprobs": 2}, {"n": 2, "max_tokens": 2}])
async def test_a_stream_makes_up_what_is_whole(
    http: httpx.AsyncClient, asked: dict[str, Any]
) -> None:
    body = {"prompt": ["a b"], **asked}
    whole = Completion.model_validate((await http.post(URL, json=body)).json(), strict=True)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    told = frames(await http.post(URL, json={**body, **options}))
    assert told.pop() == "[DONE]"
    *chunks, last = [json.loads(each) for each in told]
    assert last["choices"] == [] and Completion.model_validate(last).usage == whole.usage
    for choice in whole.choices:
        found = [part for chunk in chunks for part in chunk["choices"]]
        told_parts = [part for part in found if part["index"] == choice.index]
        *reasons, reason = [part.pop("finish_reason") for part in told_parts]
        assert reason == choice.finish_reason and not any(reasons)  # null, as at OpenAI
        ended = [{**part, "finish_reason": reason} for part in told_parts]
        parts = [CompletionChoice.model_validate(part, strict=True) for part in ended]
        assert "".join(part.text for part in parts) == choice.text
        assert choice.text.startswith("a b") is ("echo" in asked)
        assert (choice.logprobs is not None) is ("logprobs" in asked)
        if (logprobs := choice.logprobs) is None:
            continue
        assert logprobs.tokens is not None and "".join(logprobs.tokens) == choice.text
        for token, at in zip(logprobs.tokens, logprobs.text_offset or [], strict=True):
            assert choice.text[at:].startswith(token)
        for token, top in zip(logprobs.tokens, logprobs.top_logprobs or [], strict=True):
            assert token in top
        heard = [part.logprobs.tokens for part in parts if part.logprobs is not None]
        assert [token for tokens in heard for token in tokens or ()] == logprobs.tokens


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ...}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": 1}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt[1]"),
        ({"prompt": ["a", None]}, "prompt[1]"),
        ({"prompt": ["a"] * 33}, "prompt"),
        ({"prompt": ["a"] * 5, "n": 7}, "n"),
        ({"prompt": [1, -2]}, "prompt[1]"),
        ({"prompt": [1, True]}, "prompt[1]"),
        ({"prompt": [1, "a"]}, "prompt[0]"),
        ({"prompt": [[1, 2], []]}, "prompt[1]"),
        ({"prompt": [[1, 2], [2**31]]}, "prompt[1][0]"),
        ({"prompt": [[1, [2]]]}, "prompt[0][1]"),
        ({"suffix": "b"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"best_of": [], "n": 2}, "best_of"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0, "min_tokens": 1}, "min_tokens"),
        ({"min_tokens": 17}, "min_tokens"),
        ({"logprobs": True}, "logprobs"),
        ({"prompt_logprobs": 1}, "prompt_logprobs"),
        ({"prompt": [[1] * 30_000] * 6, "echo": True, "logprobs": 1}, "prompt"),
        ({"prompt": "word " * 40_000, "echo": True, "logprobs": 3}, "prompt"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
async def test_what_cannot_be_had_is_refused_by_name(
    http: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    body = {key: value for key, value in ({"prompt": "a"} | fields).items() if value != ...}
    refused = await http.post(URL, json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


async def test_each_of_several_prompts_is_asked_by_itself(
    sdk: AsyncOpenAI, seeing: Running
) -> None:
    alone = [await sdk.completions.create(model="fake/vision", prompt=p) for p in ("a b", "c")]
    both = await sdk.completions.create(
        model="fake/vision", prompt=["a b", "c"], n=2, best_of=2, echo=True, seed=5
    )
    assert [choice.index for choice in both.choices] == [0, 1, 2, 3]
    said = ["a byou said a b"] * 2 + ["cyou said c"] * 2
    assert [choice.text for choice in both.choices] == said
    assert both.usage is not None
    used = [answer.usage for answer in alone if answer.usage is not None]
    assert both.usage.prompt_tokens == sum(each.prompt_tokens for each in used)
    assert both.usage.completion_tokens == 2 * sum(each.completion_tokens for each in used)
    started = seeing.engine.chat.started[-4:]
    assert [start.messages[0].parts for start in started] == [
        [TextPart(text)] for text in ("a b", "a b", "c", "c")
    ]
    assert [start.settings.seed for start in started] == [5, 6, 5, 6]


async def test_without_a_seed_the_same_prompt_twice_is_two_draws(
    http: httpx.AsyncClient, seeing: Running
) -> None:
    answer = await http.post(URL, json={"prompt": ["a", "a"], "n": 2, "best_of": 2})
    assert answer.status_code == 200
    assert len({start.settings.seed for start in seeing.engine.chat.started[-4:]}) == 4


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("most", [0, 2])
async def test_it_is_told_how_probable_a_prompt_is(
    sdk: AsyncOpenAI, seeing: Running, most: int, stream: bool
) -> None:
    """As those ask that compare models by what they think of texts."""
    body: dict[str, Any] = {"model": "fake/vision", "prompt": "a b c", "max_tokens": 1}
    asked = {**body, "echo": True, "logprobs": most}
    if stream:
        parts = [
            chunk.choices[0] async for chunk in await sdk.completions.create(**asked, stream=True)
        ]
        choice, *others = [part for part in parts if part.logprobs is not None]
        assert "".join(part.text for part in parts) == "a b cyou"
    else:
        [choice] = (await sdk.completions.create(**asked)).choices
        others = []
        assert choice.text == "a b cyou"
    told = [found.logprobs for found in (choice, *others) if found.logprobs is not None]
    assert [token for each in told for token in each.tokens or ()] == ["a", " b", " c", "you"]
    probable = [value for each in told for value in each.token_logprobs or ()]
    assert probable == [None, -0.25, -0.25, -0.25]
    assert [at for each in told for at in each.text_offset or ()] == [0, 1, 3, 5]
    nothing, *tops = [top for each in told for top in each.top_logprobs or ()]
    assert nothing is None and [len(top) for top in tops] == [max(1, most)] * 3
    assert seeing.engine.chat.started[-1].settings.prompt_logprobs == most
    await sdk.completions.create(**body, logprobs=most)
    assert seeing.engine.chat.started[-1].settings.prompt_logprobs is None


async def test_where_nothing_is_to_be_written_nothing_is(sdk: AsyncOpenAI) -> None:
    answer = await sdk.completions.create(
        model="fake/vision", prompt="a b", max_tokens=0, echo=True, logprobs=1
    )
    [choice] = answer.choices
    assert (choice.text, choice.finish_reason) == ("a b", "length")
    assert choice.logprobs is not None and choice.logprobs.tokens == ["a", " b"]
    assert answer.usage is not None and answer.usage.completion_tokens == 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens == 2


@pytest.mark.parametrize("logprobs", [None, 1])
async def test_prompts_may_be_tokens(
    sdk: AsyncOpenAI, seeing: Running, logprobs: int | None
) -> None:
    answer = await sdk.completions.create(
        model="fake/vision", prompt=[[1, 22], [3]], echo=True, logprobs=logprobs
    )
    said = ["<1> <22>you said <1> <22>", "<3>you said <3>"]
    assert [choice.text for choice in answer.choices] == said
    assert all((choice.logprobs is None) is (logprobs is None) for choice in answer.choices)
    started = seeing.engine.chat.started[-2:]
    assert [start.messages[0].tokens for start in started] == [[1, 22], [3]]
    assert [start.messages[0].parts for start in started] == [[], []]
    [choice] = (await sdk.completions.create(model="fake/vision", prompt=[7, 8])).choices
    assert choice.text == "you said <7> <8>"


async def test_errors_are_those_of_the_sdk(sdk: AsyncOpenAI, seeing: Running) -> None:
    seeing.engine.chat.fail_next("context_length_exceeded", "messages: expected at most 9 tokens")
    with pytest.raises(openai.BadRequestError, match="prompt: expected at most 9 tokens"):
        await sdk.completions.create(model="fake/vision", prompt="a")


async def test_what_changes_nothing_is_named(seeing: Running) -> None:
    async with client(seeing) as http:
        body = {
            "prompt": "a",
            "user": "b",
            "suffix": None,
            "best_of": 1,
            "add_special_tokens": True,
        }
        answer = await http.post(URL, json=body)
    assert answer.headers["x-lookhear-ignored"] == "add_special_tokens"


async def test_tokens_are_where_their_text_is_though_some_of_it_was_held_back() -> None:
    """As of what a stop text may begin with, and of the half of a character."""

    def event(text: str, *pieces: bytes) -> tuple[int, AnswerText]:
        told = [ChosenToken(p.decode("utf-8", "replace"), -1.0, [*p], []) for p in pieces]
        return 0, AnswerText("s", "a", text, tokens=told)

    reply = TextReply({}, 1, ["ab"], has_logprobs=True, is_written=True, include_usage=False)
    prompt = PromptTokens([b"a", b"b"], [0, 1], [0.0, 0.0], [[], []], [[], []])
    events: list[tuple[int, ChoiceEvent]] = [
        (0, AnswerStarted("s", "a", AnswerUsage(), prompt)),
        event("hell", b"hello"),
        event("o w\u00e9", b" w", b"\xc3", b"\xa9"),
        event("ird", b"ird"),
    ]
    (choice,) = reply.whole(events)["choices"]
    assert choice["text"] == "abhello w\u00e9ird"
    assert choice["logprobs"]["text_offset"] == [0, 1, 2, 7, 9, 9, 10]


async def test_special_tokens_have_names_and_take_no_place_in_the_text() -> None:
    first, second = (TokenLogprob(name, -1.0, []) for name in ("<|end|>", "<|start|>"))
    tokens = [
        ChosenToken("a", -0.5, [97], [first, second]),
        ChosenToken("<|end|>", -1.0, [], [first, second]),
        ChosenToken("b", -0.5, [98], []),
    ]
    reply = TextReply({}, 1, [""], has_logprobs=True, is_written=True, include_usage=False)
    (choice,) = reply.whole([(0, AnswerText("s", "a", "ab", tokens=tokens))])["choices"]
    assert choice["logprobs"]["tokens"] == ["a", "<|end|>", "b"]
    likeliest = {"<|end|>": -1.0, "<|start|>": -1.0}
    assert choice["logprobs"]["top_logprobs"] == [likeliest | {"a": -0.5}, likeliest, {"b": -0.5}]
    assert choice["logprobs"]["text_offset"] == [0, 1, 1]


async def test_of_a_prompt_all_is_told_but_what_is_likelier_than_its_first_token() -> None:
    pieces = [b"a", b"\xc3", b"\xa9", b"c"]
    tops, probable = [[], [3, 0], [2, 3]], [[], [-0.5, -1.0], [-0.125, -0.25]]
    prompt = PromptTokens(pieces, [0, 1, 2], [0.0, -math.inf, -0.125], tops, probable)
    reply = TextReply({}, 1, [None], has_logprobs=True, is_written=False, include_usage=False)
    started = AnswerStarted("s", "a", AnswerUsage(), prompt)
    (choice,) = reply.whole([(0, started)])["choices"]
    assert choice["text"] == "a\u00e9"
    assert choice["logprobs"] == {
        "tokens": ["a", r"bytes:\xc3", r"bytes:\xa9"],
        "token_logprobs": [None, -9999.0, -0.125],
        "top_logprobs": [
            None,
            {"c": -0.5, "a": -1.0, r"bytes:\xc3": -9999.0},
            {r"bytes:\xa9": -0.125, "c": -0.25},
        ],
        "text_offset": [0, 1, 1],
    }


@pytest.mark.timeout(60)  # many minutes, where each token copies those in front of it
async def test_a_long_answer_is_put_together_at_once() -> None:
    number = 150_000
    reply = TextReply({}, 1, [""], has_logprobs=True, is_written=True, include_usage=False)
    one = AnswerText("s", "a", "ab", tokens=[ChosenToken("ab", -1.0, [97, 98], [])])
    (choice,) = reply.whole([(0, one)] * number)["choices"]
    assert choice["text"] == "ab" * number
    assert choice["logprobs"]["token_logprobs"] == [-1.0] * number
    assert choice["logprobs"]["text_offset"] == [*range(0, 2 * number, 2)]
