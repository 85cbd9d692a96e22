"""Names that clients hard-wire: whom they reach, and how the answer says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI

from lookhear.engine.config import ConfigError
from lookhear.gateway.checks.models import choose, with_names
from lookhear.gateway.commands.arguments import check_aliases, engine_configs, gateway_config
from lookhear.gateway.commands.settings import read_settings
from lookhear.gateway.config import GatewayConfig
from tests.gateway.conversing import MODELS
from tests.gateway.fake_engine import CARDS, FakeEngine
from tests.gateway.files.test_http import wav
from tests.gateway.running import Running, running
from tests.gateway.scripted import Script

ALIASES = (("gpt-4o", "fake/vision"), ("whisper-1", "fake-english"))
NAMED = with_names(MODELS, ALIASES, is_strict=False)
HARD_WIRED = ["gpt-4o-mini-transcribe", "gpt-4o-transcribe", "whisper-large", "my-asr"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def named() -> AsyncIterator[Running]:
    async with running(GatewayConfig(port=0, aliases=ALIASES), FakeEngine(sees=True)) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def http(named: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=named.http, trust_env=False, verify=False, timeout=60
    ) as client:
        named.engine.be_well()
        yield client


def spoken(session: dict[str, Any]) -> str:
    return str(session["audio"]["input"]["transcription"]["model"])


# --- the rule ------------------------------------------------------------------------------------


@given(
    name=st.sampled_from(["fake/whisper", "fake/vision", "whisper-1", "gpt-4o", "nobody's", None]),
    ability=st.sampled_from(["transcribe", "translate", "chat", "image"]),
    is_strict=st.booleans(),
)
def test_nobody_is_asked_who_cannot_and_only_strangers_have_someone_stand_in(
    name: str | None, ability: str, is_strict: bool
) -> None:
    models = with_names(MODELS, ALIASES, is_strict=is_strict)
    able = [card for card in models if card.can(ability)]
    card = choose(name, able, models)
    own = [card for card in models if name is not None and card.is_called(name)]
    if own:
        assert card == (own[0] if own[0] in able else None)
    elif name is None or not is_strict:
        assert card == able[0]
    else:
        assert card is None


def test_a_models_own_name_counts_before_any_alias() -> None:
    first, second = (replace(card, aliases=["fake-english"]) for card in CARDS[:1] * 2)
    assert choose("fake-english", [first, second, CARDS[1]], [first, CARDS[1]]) == CARDS[1]


def test_an_adapter_is_called_as_it_was_loaded_unless_somebody_else_is() -> None:
    names = ["a", "b", "a:shop", "b:shop", "a:b", "a:law"]
    cards = [replace(CARDS[0], id=name, parent=name.partition(":")[0]) for name in names]
    cards[:2] = [replace(card, parent="") for card in cards[:2]]
    named = with_names(cards, [("law", "b")], is_strict=False)
    assert {card.id: card.aliases for card in named if card.aliases} == {
        "b": ["law"],
        "a:shop": ["shop"],
    }


# --- realtime ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HARD_WIRED)
def test_a_url_that_names_a_transcriber_begins_to_transcribe(name: str) -> None:
    (created,) = Script(requested_model=name, models=NAMED).frames
    session = created["session"]
    assert session["type"] == "transcription" and spoken(session) == "fake/whisper"
    assert session["lookhear"] == {"asked": {"audio.input.transcription.model": name}}


@pytest.mark.parametrize("name", ["gpt-realtime", "gpt-realtime-2025-08-28", "no-such-model"])
def test_any_other_name_begins_to_converse(name: str) -> None:
    (created,) = Script(requested_model=name, models=NAMED).frames
    assert created["session"]["model"] == "fake/vision"
    assert created["session"]["lookhear"] == {"asked": {"model": name}}


@pytest.mark.parametrize("name", ["gpt-realtime", "whisper-1", "gpt-live-transcribe"])
def test_intent_decides_whatever_the_name(name: str) -> None:
    (created,) = Script(requested_model=name, transcribes=True, models=NAMED).frames
    assert created["session"]["type"] == "transcription"
    assert spoken(created["session"]) == ("fake-english" if name == "whisper-1" else "fake/whisper")


def test_where_nobody_answers_every_name_transcribes() -> None:
    models = with_names(CARDS, (), is_strict=False)
    (created,) = Script(requested_model="gpt-realtime", models=models).frames
    assert spoken(created["session"]) == "fake/whisper"


def test_what_an_agents_sdk_sends_at_first_is_taken_and_what_it_changes_not_is_named() -> None:
    script = Script(models=NAMED)
    (updated,) = script.client(
        "session.update",
        session={
            "type": "realtime",
            "model": "gpt-realtime",
            "instructions": "Be brief.",
            "output_modalities": ["audio"],
            "tools": [],
            "tracing": "auto",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 24000},
                    "noise_reduction": None,
                    "transcription": {"model": "gpt-4o-mini-transcribe", "delay": "low"},
                    "turn_detection": {"type": "semantic_vad", "idle_timeout_ms": 9000},
                },
                "output": {"voice": "alloy", "speed": 1.0},
            },
        },
    )
    session = updated["session"]
    assert (session["model"], session["instructions"]) == ("fake/vision", "Be brief.")
    assert (session["output_modalities"], spoken(session)) == (["text"], "fake/whisper")
    assert session["audio"]["input"]["transcription"]["delay"] == "low"
    told = session["lookhear"]
    assert told["asked"] == {
        "model": "gpt-realtime",
        "audio.input.transcription.model": "gpt-4o-mini-transcribe",
    }
    assert set(told["ignored"]) == {
        *("output_modalities", "tracing", "audio.output"),
        "audio.input.turn_detection.idle_timeout_ms",
    }
    calm: dict[str, Any] = {
        "type": "realtime",
        "tracing": None,
        "output_modalities": ["text"],
        "audio": {},
    }
    (updated,) = script.client("session.update", session={**calm, "model": "fake/vision"})
    told = updated["session"]["lookhear"]
    assert "tracing" not in told["ignored"] and "output_modalities" not in told["ignored"]
    assert set(told["asked"]) == {"audio.input.transcription.model"}, "called by its name now"


def test_keywords_are_told_to_the_model_with_the_prompt() -> None:
    script = Script(models=NAMED)
    hints = {"prompt": "About ships.", "keywords": ["bow", "stern"], "model": "fake/whisper"}
    detection = {"turn_detection": None, "transcription": hints}
    (updated,) = script.update({"audio": {"input": detection}})
    assert updated["session"]["audio"]["input"]["transcription"] == hints
    script.hear(0.2)
    settings = script.started["item_1"].settings
    assert (settings.prompt, settings.keywords) == ("About ships.", ("bow", "stern"))
    assert settings.context == "About ships. bow, stern", "for a model that has but one text"


def test_nobody_who_asked_for_nothing_unusual_hears_of_it() -> None:
    script = Script(models=NAMED)
    assert "lookhear" not in script.frames[0]["session"]
    (updated,) = script.update({"audio": {"input": {"turn_detection": None}}})
    assert "lookhear" not in updated["session"]


def test_a_flood_of_unknown_fields_is_not_repeated() -> None:
    script = Script(models=NAMED)
    for number in range(3):
        fields = {f"field-{number}-{i}": 1 for i in range(1000)}
        (updated,) = script.update(fields)
    assert len(updated["session"]["lookhear"]["ignored"]) == 32


# --- over HTTP -----------------------------------------------------------------------------------

loop = pytest.mark.asyncio(loop_scope="module")


@loop
@pytest.mark.parametrize(
    ("name", "model"),
    [("gpt-4o", "fake/vision"), ("gpt-5", "fake/vision"), ("fake/vision", "fake/vision")],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_chat_says_who_answered_and_what_it_did_not_read(
    http: httpx.AsyncClient, name: str, model: str, stream: bool
) -> None:
    asked = {
        "model": name,
        "messages": [{"role": "user", "content": "hello"}],
        "stream": stream,
        "skip_special_tokens": True,
        "mm_processor_kwargs": {"fps": 1},
        "user": "me",
        "verbosity": "low",
    }
    answer = await http.post("/v1/chat/completions", json=asked)
    assert answer.status_code == 200 and f'"{model}"' in answer.text
    assert answer.headers["x-lookhear-model"] == model
    assert answer.headers["x-lookhear-ignored"] == "mm_processor_kwargs, verbosity"


@loop
async def test_a_schema_is_read_and_what_stands_beside_it_is_not(http: httpx.AsyncClient) -> None:
    schema = {"name": "x", "schema": {"type": "object"}, "content": {"no": "schema"}}
    format = {"type": "json_schema", "json_schema": schema}
    body = {"messages": [{"role": "user", "content": "hello"}], "response_format": format}
    answer = await http.post("/v1/chat/completions", json=body)
    assert answer.headers["x-lookhear-ignored"] == "response_format.json_schema.content"
    told = {"input": "hello", "text": {"format": {"type": "json_schema", **schema}}}
    answer = await http.post("/v1/responses", json=told)
    assert answer.headers["x-lookhear-ignored"] == "text.format.content"


@loop
async def test_a_cache_salt_reaches_the_engine(named: Running, http: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "hello"}]
    for salt in (None, "tenant"):
        body = {"messages": messages, "cache_salt": salt}
        answer = await http.post("/v1/chat/completions", json=body)
        assert "x-lookhear-ignored" not in answer.headers
    salts = [start.settings.cache_salt for start in named.engine.chat.started[-2:]]
    assert salts == ["", "tenant"]


@loop
@pytest.mark.parametrize("name", ["whisper-1", "gpt-4o-transcribe", "gpt-realtime"])
async def test_a_file_is_transcribed_whatever_the_model_is_called(
    named: Running, http: httpx.AsyncClient, name: str
) -> None:
    words = {"keywords[]": ["bow", "stern"], "hotwords": "keel,  poop deck,bow,"}
    fields = {"model": name, **words, "delay": "low", "prompt": "Ships."}
    answer = await http.post(
        "/v1/audio/transcriptions", files={"file": ("a.wav", wav(1.0))}, data=fields
    )
    model = "fake-english" if name == "whisper-1" else "fake/whisper"
    assert answer.status_code == 200
    assert answer.headers["x-lookhear-model"] == model
    assert answer.headers["x-lookhear-ignored"] == "delay"
    settings = named.engine.files[-1].settings
    assert settings.prompt == "Ships."
    assert settings.keywords == ("bow", "stern", "keel", "poop deck")


@loop
@pytest.mark.parametrize(
    ("fields", "ignored"),
    [
        ({"response_format": "srt"}, "response_format"),
        (
            {"response_format": "verbose_json", "timestamp_granularities[]": "segment"},
            "response_format, timestamp_granularities",
        ),
        ({"response_format": "json"}, None),
        ({"response_format": "srt", "lookhear_progress": "true"}, None),
        ({"response_format": "srt", "stream": "false"}, None),
    ],
)
async def test_a_stream_says_that_it_has_one_format(
    http: httpx.AsyncClient, fields: dict[str, str], ignored: str | None
) -> None:
    file = {"file": ("a.wav", wav(1.0))}
    data = {"stream": "true", **fields}
    answer = await http.post("/v1/audio/transcriptions", files=file, data=data)
    assert answer.status_code == 200
    assert answer.headers.get("x-lookhear-ignored") == ignored


@loop
async def test_the_list_has_the_aliases_and_each_can_be_retrieved(named: Running) -> None:
    async with AsyncOpenAI(api_key="none", base_url=f"{named.http}/v1", max_retries=0) as sdk:
        listed = {model.id: model async for model in sdk.models.list()}
        assert list(listed)[:3] == [card.id for card in MODELS]
        for name, own in ALIASES:
            assert listed[name].to_dict()["root"] == own
            alias = await sdk.models.retrieve(name)
            assert alias.to_dict()["lookhear"] == {"alias_of": own} and alias.id == name
        with pytest.raises(Exception, match="no-such-model"):
            await sdk.models.retrieve("no-such-model")


async def test_strict_models_refuses_strangers() -> None:
    config = GatewayConfig(port=0, aliases=ALIASES, strict_models=True)
    async with running(config, FakeEngine(sees=True)) as gateway:
        body = {"messages": [{"role": "user", "content": "hello"}]}
        async with httpx.AsyncClient(base_url=gateway.http, trust_env=False, verify=False) as http:
            for name, status in (("gpt-4o", 200), ("gpt-5", 404), ("whisper-1", 400)):
                answer = await http.post("/v1/chat/completions", json={**body, "model": name})
                assert answer.status_code == status


# --- the option ----------------------------------------------------------------------------------


def configured(*argv: str, **environ: str) -> GatewayConfig:
    options = read_settings(argv, environ).options
    config = gateway_config(options)
    check_aliases(config, engine_configs(options))
    return config


def test_an_alias_is_a_setting_like_all_others() -> None:
    models = ("--model", "ears=a/b", "--model", "c/d")
    config = configured(*models, "--alias", "x=ears", "--alias", "y=c/d", "--strict-models")
    assert config.aliases == (("x", "ears"), ("y", "c/d")) and config.strict_models
    config = configured(*models, LOOKHEAR_ALIAS="[x=ears, y=ears]", LOOKHEAR_STRICT_MODELS="true")
    assert config.aliases == (("x", "ears"), ("y", "ears")) and config.strict_models


@pytest.mark.parametrize("alias", ["x", "=ears", "x=", "x y=ears", "x=mouth", "c/d=ears"])
def test_an_alias_of_nothing_is_refused(alias: str) -> None:
    with pytest.raises(ConfigError, match="alias: expected"):
        configured("--model", "ears=a/b", "--model", "c/d", "--alias", alias)
    with pytest.raises(ConfigError, match="no other model"):
        configured("--model", "ears=a/b", "--alias", "x=ears", "--alias", "x=ears")


@pytest.mark.parametrize("name", ["fake-english", "whisper-1"])
async def test_an_alias_of_a_model_that_is_down_is_down(name: str) -> None:
    async with running(GatewayConfig(port=0, aliases=ALIASES), FakeEngine(sees=True)) as gateway:
        gateway.engine.down = {"fake-english"}
        refused = await gateway.refused(f"model={name}")
        assert (refused.status, refused.error["code"]) == (503, "engine_not_ready")
