"""A client of the server that the tests of this room share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from tests.gateway.running import Running


@pytest_asyncio.fixture(loop_scope="module")
async def http(shared: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=shared.http, trust_env=False, verify=False, timeout=60
    ) as client:
        shared.engine.be_well()
        yield client
