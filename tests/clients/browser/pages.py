"""What tests of the browser page share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clients.browser.chromium import Browser, Page, executable

RECORDING = (
    Path(__file__).parents[3]
    / "tools"
    / "demo"
    / "lookhear_demo"
    / "recordings"
    / "question-colour.opus"
)
# What a page says, for `Page.until`: it can listen, it can chat, it listens no more.
READY = "!document.querySelector('#toggle').disabled"
TALKING = "!document.querySelector('#talking').hidden"
IDLE = "document.querySelector('#state').dataset.state == 'idle'"
# For `pytestmark`.
IN_CHROMIUM = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(executable() is None, reason="needs Chromium (Debian: chromium)"),
]


@contextlib.asynccontextmanager
async def clean_page(browser: Browser, url: str, ready: str) -> AsyncIterator[Page]:
    """A page that is ready. To the end of the block its console has nothing to complain of, and it
    talks to nobody but the server of that address."""
    async with browser.page(url) as page:
        await page.until(ready)
        yield page
        assert page.errors == []
        assert page.foreign(url) == []
