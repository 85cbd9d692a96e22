from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running


@pytest_asyncio.fixture
async def gateway() -> AsyncIterator[Running]:
    """A gateway of the test's own."""
    async with running() as it:
        yield it


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Running]:
    """One gateway for a module: what one test did to it must not show in the next."""
    async with running() as it:
        yield it


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeing() -> AsyncIterator[Running]:
    """As `shared`, of an engine that chats and sees too."""
    async with running(engine=FakeEngine(sees=True)) as it:
        yield it
