"""Times of what was said, beside it and in subtitles: of the recording, not of the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.clients.browser.chromium import Browser, Page
from tests.clients.browser.pages import IDLE, IN_CHROMIUM, READY, RECORDING, clean_page
from tests.gateway.running import running

pytestmark = IN_CHROMIUM

# Of turns that a voice began.
TIMES = "[...document.querySelectorAll('.turn[lang=en] .seek')].map((time) => time.innerText)"


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    async with running() as gateway, clean_page(browser, gateway.http, READY) as page:
        yield page


async def test_a_second_recording_begins_at_zero(
    browser: Browser, page: Page, tmp_path: Path
) -> None:
    """Those of recordings that are shown together follow each other."""
    await browser.save_in(tmp_path)

    async def subtitles() -> list[str]:
        await page.click("#srt")
        name = await asyncio.wait_for(browser.saved.get(), 120)
        return [cue[:12] for cue in (tmp_path / name).read_text().splitlines() if "-->" in cue]

    async def hear(turns: int) -> None:
        await page.choose_files("#file", RECORDING)
        await page.until(f"{TIMES}.length == {turns} && {IDLE}")

    await hear(1)
    first = await subtitles()
    assert first[0].startswith("00:00:00,")
    await page.click("#clear")
    await hear(1)
    assert await subtitles() == first
    assert await page.js(TIMES) == ["0:00"]
    assert await page.js("document.querySelector('.seek').ariaLabel") == "Play from 0:00"
    await hear(2)
    both = await subtitles()
    assert both[: len(first)] == first and both == sorted(both) and len(both) > len(first)
    assert await page.js(f"{TIMES}[1]") > "0:00"
