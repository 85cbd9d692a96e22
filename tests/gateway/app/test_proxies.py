"""Whose a connection is, behind proxies: what those that are trusted say, and nobody else."""

from __future__ import annotations

import ipaddress
import json
from typing import Any
from unittest.mock import AsyncMock

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from websockets.exceptions import InvalidStatus

from lookhear.engine.config import ConfigError
from lookhear.gateway.app.app import create_app
from lookhear.gateway.app.server import make_server
from lookhear.gateway.commands.arguments import gateway_config
from lookhear.gateway.commands.settings import read_settings
from lookhear.gateway.config import GatewayConfig
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running

OURS = (ipaddress.ip_network("127.0.0.0/8"),)
FOREIGN = (ipaddress.ip_network("192.0.2.0/24"),)


def from_(address: str) -> dict[str, Any]:
    return {"additional_headers": {"x-forwarded-for": address}}


async def is_refused(gateway: Running, address: str) -> bool:
    try:
        async with gateway.client(**from_(address)) as client:
            await client.until("session.created")
    except InvalidStatus as error:
        assert json.loads(error.response.body)["error"]["code"] == "too_many_sessions"
        return True
    return False


async def test_clients_behind_a_trusted_proxy_are_told_apart() -> None:
    config = GatewayConfig(port=0, max_client_sessions=1, trusted_proxies=OURS)
    async with running(config) as gateway, gateway.client(**from_("203.0.113.1")) as first:
        await first.update()
        assert await is_refused(gateway, "203.0.113.1")
        assert await is_refused(gateway, "203.0.113.9, 203.0.113.1"), "the first may be made up"
        assert not await is_refused(gateway, "203.0.113.2")


@pytest.mark.parametrize("trusted", [(), FOREIGN])
async def test_what_others_say_of_themselves_is_not_believed(trusted: Any) -> None:
    config = GatewayConfig(port=0, max_client_sessions=1, trusted_proxies=trusted)
    async with running(config) as gateway, gateway.client(**from_("203.0.113.1")) as first:
        await first.update()
        assert await is_refused(gateway, "203.0.113.2")


@pytest.mark.parametrize(
    ("peer", "client"),
    [("::ffff:127.0.0.1", "203.0.113.1"), ("::ffff:192.0.2.1", "::ffff:192.0.2.1")],
)
async def test_a_proxy_is_known_also_where_one_socket_takes_both_kinds_of_addresses(
    peer: str, client: str
) -> None:
    async def load() -> None: ...

    seen: list[Any] = []

    async def note(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["client"][0])

    own = make_server(
        create_app(GatewayConfig(port=0, trusted_proxies=OURS), FakeEngine(), load)
    ).config
    assert isinstance(own.forwarded_allow_ips, list)
    behind = ProxyHeadersMiddleware(note, own.forwarded_allow_ips)
    headers = [(b"x-forwarded-for", b"203.0.113.1")]
    scope: Any = {"type": "http", "client": (peer, 5), "headers": headers}
    await behind(scope, AsyncMock(), AsyncMock())
    assert seen == [client]


def test_the_option_takes_networks_and_says_what_is_none() -> None:
    given = ["--trusted-proxy", "10.0.0.7", "--trusted-proxy", "fd00::/8"]
    config = gateway_config(read_settings(given, {}).options)
    assert config.trusted_proxies == tuple(map(ipaddress.ip_network, ("10.0.0.7/32", "fd00::/8")))
    with pytest.raises(ConfigError, match=r"trusted-proxy: expected a network .* got 'nginx'"):
        gateway_config(read_settings(["--trusted-proxy", "nginx"], {}).options)
