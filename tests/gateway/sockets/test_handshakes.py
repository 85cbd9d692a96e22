"""Half-finished TLS handshakes have a place and a deadline, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from lookhear.gateway.config import GatewayConfig
from tests.gateway.app.test_reload import make_certificate
from tests.gateway.running import PATIENCE, Running, running
from tests.gateway.sockets.test_requests import HEALTH, Caller, calling, refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("certificate")
    make_certificate(found, "localhost")
    return found


def encrypted(folder: Path, **limits: float) -> GatewayConfig:
    files = {"ssl_certfile": folder / "cert.pem", "ssl_keyfile": folder / "key.pem"}
    return GatewayConfig(port=0, **files, **limits)  # type: ignore[arg-type]


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def healthy(gateway: Running) -> bool:
    """Whether somebody else is served."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, ssl=trusting())
    try:
        writer.write(HEALTH)
        return (await Caller(reader, writer).answer())[0] == 200
    finally:
        writer.close()


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01", HEALTH])
async def test_a_handshake_that_does_not_come_is_not_waited_for(begun: bytes, folder: Path) -> None:
    config = encrypted(folder, head_seconds=1.0)
    async with running(config) as gateway, calling(gateway) as call:
        before = refused(gateway, "tls_handshake")
        caller = await call(begun)
        assert b"HTTP" not in await caller.ended()
        assert refused(gateway, "tls_handshake") > before
        assert await healthy(gateway)


async def test_handshakes_have_places_and_keep_nobody_out(folder: Path) -> None:
    most = 8
    config = encrypted(folder, max_connections=2 * most, max_client_connections=most)
    async with running(config) as gateway, calling(gateway) as call:
        callers = [await call() for _ in range(3 * most)]
        async with asyncio.timeout(PATIENCE):
            while refused(gateway, "connection_pushed_out") < 2 * most:
                await asyncio.sleep(0.001)
        assert len(gateway.services.connections) == most
        assert await healthy(gateway)
        for caller in callers[: 2 * most]:
            await caller.ended()


async def test_a_session_speaks_through_tls(folder: Path) -> None:
    async with running(encrypted(folder)) as gateway:
        client = gateway.client(ssl=trusting())
        client.url = client.url.replace("ws://", "wss://")
        async with client:
            await client.update()
