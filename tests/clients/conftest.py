from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.clients.browser.chromium import Browser, chromium, voice
from tests.clients.browser.pages import RECORDING


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """Its microphone hears a question, once from the start whenever it is opened."""
    wav = voice(RECORDING, tmp_path_factory.mktemp("voice") / "question.wav")
    async with chromium(wav) as it:
        yield it
