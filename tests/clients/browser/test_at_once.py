"""A recording that is not played to its end: the page hears the rest as fast as the server can."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import soundfile

from tests.clients.browser.chromium import Browser, Page
from tests.clients.browser.pages import IDLE, IN_CHROMIUM, READY, RECORDING, clean_page
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running

pytestmark = IN_CHROMIUM

SECONDS, SAID = 60, 12  # of the recording, and how often something is said in it
# All that was shown of how far it is, in `shown`.
WATCH = """globalThis.shown = [], new MutationObserver(() =>
    shown.push(document.querySelector("#done span").innerText)
).observe(document.querySelector("#done"), { subtree: true, childList: true })"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[Running]:
    async with running(engine=FakeEngine()) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, gateway: Running) -> AsyncIterator[Page]:
    async with clean_page(browser, gateway.http, READY) as page:
        yield page


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minute in which the same is said every five seconds."""
    said, rate = soundfile.read(RECORDING, dtype="float32")
    every = SECONDS // SAID * rate
    once = np.concatenate([said, np.zeros(every, np.float32)])[:every]
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    soundfile.write(path, np.tile(once, SAID), rate)
    return path


async def test_it_is_faster_than_playing_and_nothing_is_lost(page: Page, talk: Path) -> None:
    await page.js(f"void ({WATCH})")
    began = time.monotonic()
    await page.choose_files("#file", talk)
    await page.until("!document.querySelector('#at-once').hidden")
    await page.until("document.querySelector('.turn')")  # some of it was played
    await page.click("#at-once")
    await page.until("document.querySelector('#at-once').hidden")
    await page.until(IDLE)
    assert time.monotonic() - began < SECONDS, "played to its end it would have taken longer"
    starts = await page.js("[...document.querySelectorAll('.turn time')].map((t) => t.innerText)")
    # What is committed at the end of the stream was announced by no voice, and has no time.
    seconds = [int(m) * 60 + int(s) for m, s in (start.split(":") for start in starts if start)]
    assert len(seconds) == SAID, seconds
    assert seconds == sorted(seconds) and seconds[-1] >= SECONDS - SECONDS // SAID - 1
    assert all(4 <= b - a <= 6 for a, b in zip(seconds, seconds[1:], strict=False)), seconds
    shown = await page.js("shown")
    assert all(re.fullmatch(r"\d+ %(, \d+:\d\d left)?", one) for one in shown if one)
    percents = [int(one.split()[0]) for one in shown if one]
    assert percents == sorted(percents) and percents
    assert await page.js("document.querySelector('#done').hidden")
    assert await page.js("document.querySelector('#player audio').controls")
    await page.js("document.querySelectorAll('.turn .seek')[10].click()")  # it can be played again
    await page.until("document.querySelector('#player audio').currentTime > 45")


async def test_it_can_be_stopped(page: Page, talk: Path) -> None:
    await page.choose_files("#file", talk)
    await page.until("!document.querySelector('#at-once').hidden")
    await page.click("#toggle")
    await page.until(IDLE)
    assert await page.js("document.querySelector('#at-once').hidden")
