"""What the browser page offers a newcomer: a recording that the chosen model understands, and where
the packaged toy sees, a picture."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from lookhear.gateway.app import browser as served
from tests.clients.browser.chromium import Browser, Page
from tests.clients.browser.pages import IDLE, IN_CHROMIUM, READY, clean_page
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import CARDS, FakeEngine
from tests.gateway.running import Running, running

pytestmark = IN_CHROMIUM

OFFERED = "[...document.querySelectorAll('.sample')].filter((one) => one.checkVisibility())"
NAMES = f"{OFFERED}.map(({{ id }}) => id)"
NOTES = """[...document.querySelectorAll("#hearing-sample .note")]
    .filter((one) => one.checkVisibility()).map(({ id }) => id)"""
STOP = """(() => {
    const toggle = document.querySelector("#toggle");
    if (toggle.innerText == "Stop") toggle.click();
})()"""
BOTH = ["hearing-sample", "seeing-sample"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[Running]:
    """Two toys, then two others."""
    engine = FakeEngine(sees=True)
    toys = [
        replace(CARDS[0], id="demo-whisper", toy=True),
        replace(VISION, id="demo-qwen3-vl", toy=True),
    ]
    engine.models = [*toys, CARDS[0], VISION]
    async with running(engine=engine) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, gateway: Running) -> AsyncIterator[Page]:
    async with clean_page(browser, gateway.http, READY) as page:
        yield page


async def choose(page: Page, selector: str, model: str) -> None:
    await page.js(f"""(() => {{
        const list = document.querySelector("{selector}");
        list.value = "{model}";
        list.dispatchEvent(new Event("change"));
    }})()""")


async def test_the_sample_recording_is_heard(page: Page) -> None:
    assert await page.js(NAMES) == BOTH
    await page.click("#play-sample")
    await page.until("document.activeElement.id == 'toggle'")
    await page.until("/w9/.test(document.querySelector('.turn .committed').innerText)")
    assert await page.js(NAMES) == ["seeing-sample"]
    assert "sample recording" in await page.text("#recording-name")
    await page.js(STOP)
    await page.until(IDLE)
    assert await page.js("document.querySelectorAll('.message').length") == 0
    await page.click("#clear")
    assert await page.js("!document.querySelector('#hint').hidden")
    assert await page.js(NAMES) == ["seeing-sample"]


async def test_the_sample_picture_is_asked_about(page: Page) -> None:
    usual = await page.js("document.querySelector('#question').placeholder")
    await page.click("#ask-sample")
    answer = "picture 480x360, you said What do you see?"
    await page.until(f"document.querySelector('.answer p').innerText == '{answer}'")
    assert "red circle" in await page.js("document.querySelector('.asked canvas').ariaLabel")
    assert await page.js("document.activeElement.id") == "question"
    assert "Where is the star?" in await page.js("document.activeElement.placeholder")
    await page.type("#question", "Where")
    assert await page.js("document.activeElement.placeholder") == usual
    await page.click("#new-chat")
    assert await page.js("!document.querySelector('#chat-hint').hidden")
    assert await page.js(NAMES) == ["hearing-sample"]


async def test_whoever_begins_otherwise_is_offered_nothing_more(page: Page) -> None:
    await page.type("#question", "hello")
    await page.press("Enter")
    await page.until("document.querySelector('.answer p').innerText == 'you said hello'")
    await page.click("#new-chat")
    assert await page.js(NAMES) == ["hearing-sample"]


async def test_each_model_is_offered_what_it_understands(page: Page) -> None:
    assert "a toy" in await page.text("#speech-name")
    assert "a toy" in await page.text("#chat-name")
    assert await page.js(NOTES) == ["toy-note"]
    await choose(page, "#speech-model", CARDS[0].id)
    assert await page.js(NAMES) == BOTH
    assert await page.js(NOTES) == ["person-note"]
    assert "a toy" not in await page.text("#speech-name")
    await choose(page, "#chat-model", VISION.id)
    assert await page.js(NAMES) == ["hearing-sample"]
    await choose(page, "#speech-model", "demo-whisper")
    assert await page.js(NAMES) == ["hearing-sample"]
    assert await page.js(NOTES) == ["toy-note"]


@pytest.mark.parametrize(
    ("model", "recording"), [("demo-whisper", "hello.opus"), (CARDS[0].id, "kennedy.opus")]
)
async def test_a_toy_hears_a_synthesiser_and_others_a_person(
    page: Page, model: str, recording: str
) -> None:
    await choose(page, "#speech-model", model)
    await page.click("#play-sample")
    await page.until("/w1/.test(document.querySelector('.turn .committed').innerText)")
    fetched = "performance.getEntriesByType('resource').map(({ name }) => name)"
    played = [name for name in await page.js(fetched) if "/recordings/" in name]
    assert [name.rpartition("/")[2] for name in played] == [recording]
    await page.js(STOP)
    await page.until(IDLE)


async def test_a_real_model_alone_is_offered_a_person(browser: Browser) -> None:
    async with (
        running(engine=FakeEngine(sees=True)) as gateway,
        browser.page(gateway.http) as page,
    ):
        await page.until(READY)
        assert await page.js(NAMES) == ["hearing-sample"]
        assert await page.js(NOTES) == ["person-note"]


async def test_samples_by_keyboard_and_on_a_phone(page: Page) -> None:
    await page.resize(360, 700, is_phone=True)
    assert await page.js("document.documentElement.scrollWidth") <= 360
    assert await page.js(NAMES) == BOTH
    reached = [await page.press_tab() for _ in range(20)]
    order = ["transcript", "play-sample", "chat", "ask-sample", "question"]
    assert [reached.index(id) for id in order] == sorted(reached.index(id) for id in order)
    tree = await page.call("Accessibility.getFullAXTree")
    names = {
        n["name"]["value"] for n in tree["nodes"] if n.get("role", {}).get("value") == "button"
    }
    assert {"Play the sample recording", "Ask about a sample picture"} <= names
    await page.js("document.querySelector('#ask-sample').focus()")
    await page.press("Enter")
    await page.until("/see[?]$/.test(document.querySelector('.answer p').innerText)")


async def test_a_server_without_the_recording(
    browser: Browser, gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with browser.page(gateway.http) as page:
        await page.until(READY)
        with monkeypatch.context() as change:
            change.setattr(served, "packaged_folder", lambda: None)
            await page.click("#play-sample")
            await page.until(
                "/without the sample/.test(document.querySelector('#notice').innerText)"
            )
        assert await page.js("document.activeElement.id") == "play-sample"
        await page.click("#play-sample")
        await page.until("/w0/.test(document.querySelector('.turn .committed').innerText)")
        assert await page.js("document.querySelector('#notice').hidden")
