from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.gateway.running import Running, running


@pytest_asyncio.fixture
async def gateway() -> AsyncIterator[Running]:
    async with running() as it:
        yield it
