from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from lookhear.gateway.app.server import loop_factory
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the gateway has in earnest: its transports are not asyncio's."""
    return {"of the gateway": loop_factory()}


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
