"""Keys, origins and hosts."""

from __future__ import annotations

import json

import pytest
from starlette.datastructures import Headers
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from lookhear.engine.config import ConfigError
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.http.access import KEY_PROTOCOL, Access, Denied
from tests.gateway.running import Running, running

KEY = "sk-secret-1"


def access(**options: object) -> Access:
    return Access(GatewayConfig(**options))  # type: ignore[arg-type]


def place(rules: Access, **headers: str) -> None:
    rules.check_place(Headers({"host": "127.0.0.1:8000", **headers}))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://127.0.0.1:8000"},
        {"host": "localhost:8000", "origin": "http://localhost:8000"},
        {"host": "[::1]:8000", "origin": "http://[::1]:8000"},
        {"host": "LOCALHOST:8000", "origin": "http://localhost:8000"},
        {"host": "localhost", "origin": "https://localhost"},
    ],
)
def test_our_own_pages_come_in(headers: dict[str, str]) -> None:
    place(access(), **headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "http://localhost:8000"},  # another name, another origin
        {"origin": "null"},
        {"origin": ""},
        {"origin": "file://"},
        {"origin": "http://127.0.0.1:notaport"},
        {"origin": "chrome-extension://127.0.0.1:8000"},
        {"host": "localhost", "origin": "http://localhost:3000"},
    ],
)
def test_other_pages_do_not(headers: dict[str, str]) -> None:
    with pytest.raises(Denied) as denied:
        place(access(), **headers)
    assert (denied.value.status, denied.value.code) == (403, "origin_not_allowed")
    assert "expected" in denied.value.message


@pytest.mark.parametrize("host", ["[", "[::1", "", ":8000", "evil.example"])
def test_odd_hosts_are_refused(host: str) -> None:
    with pytest.raises(Denied) as denied:
        place(access(), host=host)
    assert denied.value.code == "host_not_allowed"


def test_named_origins_come_in() -> None:
    place(access(allow_origins=("https://app.example",)), origin="https://app.example")
    place(access(allow_origins=("*",)), origin="http://anywhere.example")
    with pytest.raises(Denied):
        place(access(allow_origins=("https://app.example",)), origin="https://app.example.evil")


def test_a_rebound_name_does_not_reach_a_keyless_local_server() -> None:
    rebound = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}
    with pytest.raises(Denied) as denied:
        place(access(), **rebound)
    assert denied.value.code == "host_not_allowed"
    place(access(allow_hosts=("evil.example",)), **rebound)
    place(access(api_keys=(KEY,)), **rebound)  # the key decides
    place(access(host="0.0.0.0", allow_unauthenticated=True), **rebound)


@pytest.mark.parametrize(
    ("headers", "protocols", "allowed"),
    [
        ({"authorization": f"Bearer {KEY}"}, [], True),
        ({"authorization": f"bearer  {KEY}"}, [], True),
        ({}, ["realtime", f"openai-insecure-api-key.{KEY}"], True),
        ({"authorization": f"Bearer {KEY}x"}, [], False),
        ({"authorization": KEY}, [], False),
        ({"authorization": "Bearer "}, [], False),
        ({}, ["realtime"], False),
        ({}, ["openai-insecure-api-key."], False),
        ({"authorization": "Bearer ключ"}, [], False),
        ({}, [], False),
    ],
)
def test_keys(headers: dict[str, str], protocols: list[str], allowed: bool) -> None:
    rules = access(api_keys=("other", KEY))
    raw = [(k.encode(), v.encode("utf-8")) for k, v in headers.items()]
    if allowed:
        rules.check_key(Headers(raw=raw), protocols)
    else:
        with pytest.raises(Denied) as denied:
            rules.check_key(Headers(raw=raw), protocols)
        assert (denied.value.status, denied.value.code) == (401, "invalid_api_key")
        assert KEY not in denied.value.message


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_no_public_server_without_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match="--allow-unauthenticated"):
        GatewayConfig(host=host)
    GatewayConfig(host=host, api_keys=(KEY,))
    GatewayConfig(host=host, allow_unauthenticated=True)


def test_a_key_keeps_its_name_while_others_come_and_go() -> None:
    config, signer = GatewayConfig(api_keys=("gone", KEY, "other")), b"of all workers"
    rules, sibling = Access(config, signer), Access(config, signer)
    bearer = Headers({"authorization": f"Bearer {KEY}"})
    name, client = rules.key_name(bearer), rules.client(bearer, "::1")
    assert name is not None and KEY not in name
    assert name != rules.key_name(Headers({"authorization": "Bearer other"}))
    assert name == sibling.key_name(bearer) != Access(config).key_name(bearer)
    rules.set_keys([KEY, "new"])
    assert (rules.key_name(bearer), rules.client(bearer, "::1")) == (name, client)


# --- over sockets --------------------------------------------------------------------------------


def test_who_counts_as_one_client() -> None:
    """An address, of IPv6 a network; and a key, where keys are checked, however it comes."""
    plain, bearer = Headers({}), Headers({"authorization": "Bearer k"})
    keyless = access()
    assert keyless.client(bearer, "192.0.2.1") == keyless.client(plain, "192.0.2.1")
    assert keyless.client(plain, "192.0.2.1") != keyless.client(plain, "192.0.2.2")
    assert keyless.client(plain, "2001:db8::1") == keyless.client(plain, "2001:db8::2:3")
    assert keyless.client(plain, "2001:db8::1") != keyless.client(plain, "2001:db8:0:1::1")
    keyed = access(api_keys=("k", "l"))
    assert keyed.client(bearer, "::1", [f"{KEY_PROTOCOL}k"]) == keyed.client(bearer, "::1")
    assert keyed.client(plain, "::1", [f"{KEY_PROTOCOL}k"]) == keyed.client(bearer, "::1")
    assert keyed.client(plain, "::1", [f"{KEY_PROTOCOL}l"]) != keyed.client(bearer, "::1")
    assert "k" not in keyed.client(bearer, "::1").split()


async def test_realtime_is_echoed_whenever_offered(gateway: Running) -> None:
    for offered, echoed in (
        (["realtime"], "realtime"),
        (["x", "realtime", f"openai-insecure-api-key.{KEY}"], "realtime"),
        ([f"openai-insecure-api-key.{KEY}"], None),
        ([], None),
    ):
        protocols = [Subprotocol(name) for name in offered] or None
        async with gateway.client(subprotocols=protocols) as client:
            await client.until("session.created")
            assert client.socket.subprotocol == echoed


async def test_header_clients_are_refused_before_the_handshake() -> None:
    async with running(GatewayConfig(port=0, api_keys=(KEY,))) as gateway:
        for headers in ({}, {"authorization": "Bearer wrong"}):
            with pytest.raises(InvalidStatus) as refused:
                async with gateway.client(additional_headers=headers):
                    pass
            assert refused.value.response.status_code == 401
            body = json.loads(refused.value.response.body or b"")
            assert body["error"]["code"] == "invalid_api_key"
            is_known_by = body["error"]["message"].startswith("Incorrect API key provided: ")
            assert is_known_by is bool(headers)
        good = {"authorization": f"Bearer {KEY}"}
        async with gateway.client(additional_headers=good) as client:
            await client.until("session.created")


async def test_browser_clients_are_told_inside() -> None:
    async with running(GatewayConfig(port=0, api_keys=(KEY,))) as gateway:
        for protocols in (["realtime"], ["realtime", "openai-insecure-api-key.wrong"]):
            offered = [Subprotocol(name) for name in protocols]
            async with gateway.client(subprotocols=offered) as client:
                problem = await client.receive()
                assert problem["error"]["code"] == "invalid_api_key"
                assert "wrong" not in problem["error"]["message"]
                await client.socket.wait_closed()
                assert client.socket.close_code == 3000
                assert client.socket.close_reason == "invalid_request_error.invalid_api_key"
        offered = [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{KEY}")]
        async with gateway.client(subprotocols=offered) as client:
            await client.until("session.created")
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


async def test_foreign_pages_are_refused(gateway: Running) -> None:
    url = f"ws://127.0.0.1:{gateway.port}/v1/realtime"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, proxy=None, origin="http://evil.example"):  # type: ignore[arg-type]
            pass
    assert refused.value.response.status_code == 403
    assert b"origin_not_allowed" in (refused.value.response.body or b"")
    own = f"http://127.0.0.1:{gateway.port}"
    async with connect(url, proxy=None, origin=own) as socket:  # type: ignore[arg-type]
        assert "session.created" in str(await socket.recv())
