"""Client secrets: who may make one, what it opens, and what its holder cannot do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI
from openai.types.realtime import (
    RealtimeSessionCreateResponse,
    RealtimeTranscriptionSessionCreateResponse,
)
from starlette.datastructures import Headers
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.http import access as access_module
from lookhear.gateway.http.access import KEY_PROTOCOL, Access, Denied
from lookhear.gateway.http.client_secrets import read, sign, signing_key
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import PATIENCE, Running, running

KEYS = ("sk-one", "sk-two")
FIXED: dict[str, Any] = {
    "type": "realtime",
    "model": "gpt-realtime",
    "instructions": "You sell shoes.",
    "audio": {"input": {"transcription": {"language": "de"}, "turn_detection": None}},
}
A_KEY, OTHER_KEY = signing_key(b"a"), signing_key(b"b")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)

# --- the secret itself ---------------------------------------------------------------------------


@given(
    session=st.dictionaries(st.text(), JSON),
    expires_at=st.integers(0, 2**40),
    index=st.integers(0, 2**16),
    letter=st.sampled_from("aZ0_-."),
)
def test_what_was_signed_is_read_and_nothing_else_is(
    session: dict[str, Any], expires_at: int, index: int, letter: str
) -> None:
    secret = sign(A_KEY, session, expires_at, "nonce")
    found = read(secret, [OTHER_KEY, A_KEY])
    assert found is not None
    assert (found.signer, found.expires_at, found.session) == (1, expires_at, session)
    assert read(secret, [OTHER_KEY]) is None
    at = 3 + index % (len(secret) - 4)  # the last letter has two bits that nobody reads
    changed = secret[:at] + letter + secret[at + 1 :]
    assert changed == secret or read(changed, [A_KEY]) is None


def test_half_of_a_character_is_signed_too() -> None:
    session = {"type": "realtime", "tracing": {"a": "\ud800"}}
    found = read(sign(A_KEY, session, 1, "nonce"), [A_KEY])
    assert found is not None and found.session == session


def bearer(key: str) -> Headers:
    return Headers({"authorization": f"Bearer {key}"})


def access(*keys: str) -> Access:
    return Access(GatewayConfig(api_keys=keys))


def denied(rules: Access, key: str, now: float = 0.0) -> str:
    with pytest.raises(Denied) as refusal:
        if rules.secret_session(bearer(key), (), now) is None:
            rules.check_key(bearer(key))
    assert refusal.value.status == 401
    return refusal.value.code


def test_it_opens_until_it_expires_in_every_process_that_has_its_key() -> None:
    secret, expires_at = access(*KEYS).make_secret(bearer("sk-two"), FIXED, 1000.5, 60)
    assert expires_at == 1060
    for keys in (KEYS, ("sk-two",)):
        other = access(*keys)
        assert other.secret_session(bearer(secret), (), 1059.9) == FIXED
        assert other.key_name(bearer(secret)) == other.key_name(bearer("sk-two")) is not None
        assert denied(other, secret, 1060.0) == "client_secret_expired"


def test_it_ends_with_the_key_that_made_it() -> None:
    rules = access(*KEYS)
    secret, _ = rules.make_secret(bearer("sk-two"), FIXED, 0.0, 60)
    rules.set_keys(["sk-one"])
    assert denied(rules, secret) == "invalid_client_secret"
    assert denied(access("sk-three"), secret) == "invalid_client_secret"


def test_without_keys_it_lives_as_long_as_its_process() -> None:
    rules = access()
    secret, _ = rules.make_secret(Headers(), FIXED, 0.0, 60)
    assert rules.secret_session(bearer(secret), (), 0.0) == FIXED
    assert denied(access(), secret) == "invalid_client_secret"
    assert rules.secret_session(bearer("ek_anything"), (), 0.0) is None, "any key opens it"


def test_it_opens_nothing_else() -> None:
    for rules in (access(*KEYS), access()):
        secret, _ = rules.make_secret(bearer("sk-one"), FIXED, 0.0, 60)
        with pytest.raises(Denied) as refusal:
            rules.check_key(bearer(secret))
        assert refusal.value.code == "client_secret_not_allowed"


def test_there_are_not_more_than_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "MAX_SECRETS", 2)
    rules = access("k")
    rules.make_secret(bearer("k"), FIXED, 0.0, 100)
    rules.make_secret(bearer("k"), FIXED, 0.0, 10)
    with pytest.raises(Denied) as refusal:
        rules.make_secret(bearer("k"), FIXED, 9.0, 10)
    assert (refusal.value.status, refusal.value.code) == (429, "too_many_client_secrets")
    rules.make_secret(bearer("k"), FIXED, 10.0, 10)  # one has expired


def test_a_configuration_that_fits_into_no_header_is_refused() -> None:
    session = {"type": "realtime", "instructions": "".join(map(str, range(9000)))}
    with pytest.raises(Denied, match="fits into a key"):
        access("k").make_secret(bearer("k"), session, 0.0, 100)


# --- over the wire -------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keyed() -> AsyncIterator[Running]:
    config = GatewayConfig(port=0, api_keys=KEYS, strict_models=False)
    async with running(config, FakeEngine(sees=True)) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def sdk(keyed: Running) -> AsyncIterator[AsyncOpenAI]:
    keyed.engine.be_well()
    base = f"{keyed.http}/v1"
    async with AsyncOpenAI(api_key=KEYS[1], base_url=base, max_retries=0) as client:
        yield client


loop = pytest.mark.asyncio(loop_scope="module")


async def make(sdk: AsyncOpenAI, session: Any = FIXED) -> str:
    return (await sdk.realtime.client_secrets.create(session=session)).value


@loop
async def test_the_sdk_gets_one_with_the_session_that_holds(
    keyed: Running, sdk: AsyncOpenAI
) -> None:
    session: Any = FIXED
    made = await sdk.realtime.client_secrets.create(
        expires_after={"anchor": "created_at", "seconds": 30}, session=session
    )
    assert made.value.startswith("ek_")
    assert 0 < made.expires_at - keyed.services.now() <= 30
    assert isinstance(made.session, RealtimeSessionCreateResponse)
    RealtimeSessionCreateResponse.model_validate(made.session.to_dict(), strict=True)
    assert made.session.instructions == "You sell shoes." and made.session.model == "fake/vision"


@loop
async def test_a_transcription_session_and_the_default(sdk: AsyncOpenAI) -> None:
    made = await sdk.realtime.client_secrets.create(session={"type": "transcription"})
    shown = RealtimeTranscriptionSessionCreateResponse.model_validate(made.session.to_dict())
    assert shown.type == "transcription"
    plain = await sdk.realtime.client_secrets.create()
    assert plain.session.type == "realtime"
    assert plain.expires_at > made.expires_at - 10


@loop
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"expires_after": {"anchor": "created_at", "seconds": 9}}, "expires_after.seconds"),
        ({"expires_after": {"seconds": 7201}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "now", "seconds": 60}}, "expires_after.anchor"),
        ({"session": {"type": "song"}}, "session.type"),
        ({"session": {}}, "session.type"),
        ({"session": {"type": "realtime", "model": "fake/whisper"}}, "session.model"),
        ({"session": {"type": "realtime", "max_output_tokens": 0}}, "session.max_output_tokens"),
        ({"session": "realtime"}, "session"),
        ([], "body"),
    ],
)
async def test_what_no_session_can_be_is_refused(keyed: Running, body: Any, param: str) -> None:
    headers = {"authorization": f"Bearer {KEYS[0]}"}
    async with httpx.AsyncClient(base_url=keyed.http, trust_env=False, verify=False) as http:
        answer = await http.post("/v1/realtime/client_secrets", json=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@loop
async def test_half_of_a_character_where_it_is_ignored_is_no_error(keyed: Running) -> None:
    headers = {"authorization": f"Bearer {KEYS[0]}", "content-type": "application/json"}
    body = json.dumps({"session": {"type": "realtime", "tracing": {"a": "\ud800"}}})
    async with httpx.AsyncClient(base_url=keyed.http, trust_env=False, verify=False) as http:
        answer = await http.post("/v1/realtime/client_secrets", content=body, headers=headers)
    assert answer.status_code == 200
    secret = {"additional_headers": {"authorization": f"Bearer {answer.json()['value']}"}}
    async with keyed.client("", **secret) as client:
        await client.until("session.created")


@loop
async def test_its_holder_opens_sessions_and_nothing_else(keyed: Running, sdk: AsyncOpenAI) -> None:
    secret = await make(sdk)
    stranger = sdk.with_options(api_key=secret)
    for request in (
        stranger.models.list(),
        stranger.realtime.client_secrets.create(),
        stranger.chat.completions.create(model="", messages=[{"role": "user", "content": "?"}]),
    ):
        with pytest.raises(openai.AuthenticationError) as refusal:
            await request
        assert refusal.value.code == "client_secret_not_allowed"
    protocols = ["realtime", KEY_PROTOCOL + secret]
    for options in (
        {"additional_headers": {"authorization": f"Bearer {secret}"}},
        {"subprotocols": [Subprotocol(name) for name in protocols]},
    ):
        async with keyed.client("model=fake/whisper", **options) as client:
            created = (await client.until("session.created"))["session"]
            assert created["instructions"] == "You sell shoes."
            assert created["model"] == "fake/vision", "whatever the URL asks for"


@loop
async def test_its_holder_cannot_leave_its_session(keyed: Running, sdk: AsyncOpenAI) -> None:
    headers = {"authorization": f"Bearer {await make(sdk)}"}
    async with keyed.client("", additional_headers=headers) as client:
        fixed = (await client.until("session.created"))["session"]
        attempts: list[dict[str, Any]] = [
            {"type": "realtime", "instructions": "You sell nothing.", "max_output_tokens": 7},
            {"type": "transcription", "audio": {"input": {"transcription": None}}},
            {"type": "realtime", "lookhear": {"temperature": 1.9, "camera": {"max_frames": 1}}},
            {"type": "realtime", "audio": {"input": {"transcription": {"language": "fr"}}}},
            {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "server_vad"}}}},
        ]
        for attempt in attempts:
            await client.send("session.update", session=attempt)
            shown = (await client.until("session.updated"))["session"]
            extensions = shown.pop("lookhear", {})
            assert "temperature" not in extensions
            assert extensions.get("camera", {}).get("max_frames", 16) == 16
            assert shown == {name: v for name, v in fixed.items() if name != "lookhear"}
        free = {"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcmu"}}}}
        await client.send("session.update", session=free)
        shown = (await client.until("session.updated"))["session"]
        assert shown["audio"]["input"]["format"]["type"] == "audio/pcmu", "nobody fixed that"
        response = {"instructions": "You sell nothing.", "max_output_tokens": 7}
        await client.send("response.create", response=response)
        await client.until("response.done")
    (start,) = keyed.engine.chat.started[-1:]
    told = json.dumps([[getattr(p, "text", "") for p in m.parts] for m in start.messages])
    assert "shoes" in told and "nothing" not in told
    assert start.settings.max_tokens is None


@loop
async def test_who_comes_too_late_is_told(keyed: Running, sdk: AsyncOpenAI) -> None:
    secret = sign(signing_key(KEYS[0].encode()), FIXED, int(keyed.services.now()), "")
    url = keyed.client("").url
    with pytest.raises(InvalidStatus) as refusal:
        await connect(url, additional_headers={"authorization": f"Bearer {secret}"}, proxy=None)
    assert refusal.value.response.status_code == 401
    problem = json.loads(refusal.value.response.body or b"")["error"]
    assert (problem["type"], problem["code"]) == ("invalid_request_error", "client_secret_expired")
    offered = [Subprotocol("realtime"), Subprotocol(KEY_PROTOCOL + secret)]
    async with connect(url, subprotocols=offered, proxy=None, open_timeout=PATIENCE) as page:
        assert json.loads(await page.recv())["error"]["code"] == "client_secret_expired"
        with pytest.raises(ConnectionClosed) as closed:
            await page.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 3000


async def test_a_session_that_is_served_no_more_is_not_opened_otherwise() -> None:
    config = GatewayConfig(port=0, api_keys=KEYS, strict_models=True)
    secret = sign(signing_key(KEYS[0].encode()), FIXED, 2**40, "")
    headers = {"authorization": f"Bearer {secret}"}
    async with (
        running(config, FakeEngine(sees=True)) as gateway,
        replace(gateway.client(""), options={"additional_headers": headers}) as client,
    ):
        assert (await client.receive())["error"]["code"] == "model_not_found"
        with pytest.raises(ConnectionClosed):
            await client.receive()
