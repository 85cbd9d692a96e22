"""The browser page's settings, its log of events, what it says while it waits, and what eyes, hands
and assistive tools need of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from importlib.resources import files
from itertools import pairwise

import pytest_asyncio

from lookhear.engine.messages import StartTurn
from tests.clients.browser.chromium import Browser, Page
from tests.clients.browser.pages import IDLE, IN_CHROMIUM, RECORDING, TALKING, clean_page
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running

pytestmark = IN_CHROMIUM

FINGER = 44  # CSS pixels: https://www.w3.org/TR/WCAG22/#target-size-enhanced
HEARD = "/w9/.test(document.querySelector('.turn .committed').innerText)"
OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true"
TYPES = "[...document.querySelectorAll('#event-list .type')].map((one) => one.innerText)"
# https://www.deque.com/axe/: what it found, and where.
VIOLATIONS = """axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]))"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeing() -> AsyncIterator[Running]:
    async with running(engine=FakeEngine(sees=True)) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, seeing: Running) -> AsyncIterator[Page]:
    seeing.engine.be_well()
    async with clean_page(browser, seeing.http, TALKING) as page:
        yield page


async def choose(page: Page, selector: str, value: str) -> None:
    await page.js(f"""(() => {{
        const field = document.querySelector("{selector}");
        field.value = {json.dumps(value)};
        field.dispatchEvent(new Event("change"));
    }})()""")


async def test_what_is_said_is_answered_only_if_one_wants_it(page: Page) -> None:
    assert not await page.js("document.querySelector('#answers').checked")
    assert "tick" in await page.text("#chat-hint")
    await page.js("""void (globalThis.states = [], new MutationObserver(([{ target }]) => {
        states.push(target.dataset.state);
    }).observe(document.querySelector("#state"), { attributeFilter: ["data-state"] }))""")
    await page.click("#answers")
    await page.click("#toggle")
    await page.until("/you said w0/.test(document.querySelector('.answer p').innerText)")
    await page.click("#toggle")
    await page.until(IDLE)
    seen = await page.js("states")
    order = [seen.index(state) for state in ("listening", "speech", "thinking", "answering")]
    assert order == sorted(order), seen


async def test_a_start_is_no_alarm(browser: Browser) -> None:
    engine = FakeEngine()
    models, engine.models = engine.models, []
    async with running(engine=engine) as gateway, browser.page(gateway.http) as page:
        await page.until("/starting/.test(document.querySelector('#notice').innerText)")
        alarms = "getComputedStyle(document.querySelector('#notice')).color"
        dim = "getComputedStyle(document.querySelector('#state')).color"
        assert await page.js("document.querySelector('#notice').role") == "status"
        assert await page.js(alarms) == await page.js(dim)
        engine.models = models
        await page.until("document.querySelector('#notice').hidden")


async def test_a_microphone_is_chosen_and_remembered(browser: Browser, page: Page) -> None:
    await page.js("""void (globalThis.wanted = [],
        globalThis.give = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices),
        navigator.mediaDevices.getUserMedia = (constraints) => {
            wanted.push(constraints.audio.deviceId?.ideal ?? "");
            return give(constraints);
    })""")
    await page.click("#toggle")
    await page.until("document.querySelector('#microphone').options.length > 2")
    first, other = await page.js(
        "[...document.querySelector('#microphone').options].slice(1, 3).map((one) => one.value)"
    )
    assert first != other
    await choose(page, "#microphone", other)  # it goes on with that
    await page.until(f"wanted.at(-1) == '{other}'")
    await page.until(HEARD)
    assert await page.js("wanted[0]") == ""
    await page.click("#toggle")
    await page.until(IDLE)
    await page.call("Page.reload")
    await page.until(f"document.querySelector('#microphone').value == '{other}'")
    await page.js("localStorage.clear()")


async def test_how_turns_end_and_what_was_said_before(page: Page, seeing: Running) -> None:
    await choose(page, "#turn-end", "high")
    await choose(page, "#voices", "near")
    await choose(page, "#prompt", " Zaventem, Ghent ")
    await page.js(OPEN_ALL)
    await page.click("#toggle")
    await page.until(HEARD)
    await page.click("#toggle")
    await page.until(IDLE)
    turn = [m for m in seeing.engine.messages if isinstance(m, StartTurn)][-1]
    assert turn.settings.prompt == "Zaventem, Ghent"
    # This server has no classifier, and says so.
    assert "longer silence" in await page.text("#turn-end-note")
    await page.js("""[...document.querySelectorAll("#event-list li > details")].find((one) =>
        one.querySelector(".type").innerText == "session.updated").open = true""")
    await page.until("document.querySelector('#event-list pre')")
    updated = json.loads(await page.text("#event-list pre"))
    assert updated["session"]["audio"]["input"]["noise_reduction"] == {"type": "near_field"}
    detection = updated["session"]["audio"]["input"]["turn_detection"]
    assert (detection["type"], detection["eagerness"]) == ("semantic_vad", "high")


async def test_the_log_of_events(browser: Browser, seeing: Running, page: Page) -> None:
    await page.choose_files("#file", RECORDING)
    await page.until(f"{IDLE} && {HEARD}")
    assert await page.js(TYPES) == []
    await page.js(OPEN_ALL)
    await page.until(f"{TYPES}.length > 4")
    types = await page.js(TYPES)
    assert types[:3] == ["session.created", "session.update", "session.updated"]
    assert "input_audio_buffer.append" in types and len(types) <= 200
    assert not any(a == b == "input_audio_buffer.append" for a, b in pairwise(types))
    await browser.call(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        origin=seeing.http,
    )
    await page.call("Emulation.setFocusEmulationEnabled", enabled=True)
    await page.click("#copy-events")
    await page.until("navigator.clipboard")
    lines = (await page.js("navigator.clipboard.readText()")).splitlines()
    events = [json.loads(line) for line in lines]
    assert [e["event"]["type"] for e in events] == types
    sound = next(e for e in events if e["event"]["type"] == "input_audio_buffer.append")
    assert sound["from"] == "client" and sound["count"] > 1
    assert len(sound["event"]["audio"]) < 200
    await page.type("#question", "hello")
    await page.press("Enter")
    await page.until(f"{TYPES}.includes('response.done')")
    await page.click("#clear-events")
    assert await page.js(TYPES) == []


async def test_axe_finds_nothing(page: Page) -> None:
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    await page.js(f"{axe};0")
    assert await page.js(VIOLATIONS) == []
    await page.choose_files("#file", RECORDING)
    await page.until(f"{IDLE} && {HEARD}")
    await page.type("#question", "hello")
    await page.press("Enter")
    await page.until("document.querySelector('.answer:not(.waiting)')")
    await page.js(OPEN_ALL)
    for is_dark in (False, True):
        await page.set_dark(is_dark)
        for width, height, is_phone in ((1280, 800, False), (390, 844, True)):
            await page.resize(width, height, is_phone=is_phone)
            assert await page.js(VIOLATIONS) == []


async def test_on_a_phone_a_finger_hits_everything(page: Page) -> None:
    await page.resize(390, 844, is_phone=True)
    await page.click("#camera")
    await page.until("document.querySelector('#video').videoWidth > 0")
    await page.js(OPEN_ALL)
    small = await page.js(f"""(() => {{
        const box = (one) => (one.matches("[type=checkbox]") ? one.closest("label") : one)
            .getBoundingClientRect();
        const all = "button, select, summary, textarea, input:not([type=file], .unseen)";
        return [...document.querySelectorAll(all)].filter((one) => one.checkVisibility())
            .filter((one) => Math.min(box(one).width, box(one).height) < {FINGER})
            .map((one) => one.outerHTML.slice(0, 80));
    }})()""")
    assert small == []
    assert await page.js("document.documentElement.scrollWidth") <= 390
    await page.click("#camera-off")


def uncovered(*ids: str) -> str:
    """Those of which something else is seen in their middle, or nothing."""
    return f"""{json.dumps(ids)}.filter((id) => {{
        const one = document.getElementById(id);
        const {{ left, top, width, height }} = one.getBoundingClientRect();
        return !one.contains(document.elementFromPoint(left + width / 2, top + height / 2));
    }})"""


async def test_what_is_opened_covers_nothing(page: Page) -> None:
    await page.resize(1200, 700)
    await page.choose_files("#file", RECORDING)
    await page.until(f"{IDLE} && {HEARD}")
    await page.js(OPEN_ALL)
    for id in ("toggle", "prompt", "latency", "copy", "clear", "add-picture", "copy-events"):
        await page.js(f"document.getElementById('{id}').scrollIntoView({{ block: 'nearest' }})")
        assert await page.js(uncovered(id)) == []


async def test_on_a_phone_the_camera_is_seen_and_a_hint_from_its_beginning(page: Page) -> None:
    await page.resize(360, 420, is_phone=True)
    hint = (
        "(({ scrollHeight, clientHeight, scrollTop }) => [scrollHeight > clientHeight, scrollTop])"
    )
    assert await page.js(f"{hint}(document.querySelector('#transcript'))") == [True, 0]
    await page.resize(360, 740, is_phone=True)
    await page.js("document.querySelector('#chat').style.minHeight = '400px', 0")
    await page.js("document.querySelector('#chat').scrollIntoView()")
    await page.click("#camera")
    await page.until("document.querySelector('#video').videoWidth > 0")
    await page.until("document.activeElement.id == 'take'")
    assert await page.js(uncovered("take", "video", "question")) == []
    await page.click("#camera-off")


async def test_where_nothing_can_be_copied(page: Page) -> None:
    """As on a page without https."""
    await page.js("Object.defineProperty(navigator, 'clipboard', { value: undefined }), 0")
    await page.js(OPEN_ALL)
    await page.click("#copy-events")
    await page.until(
        "/does not let this page copy/.test(document.querySelector('#notice').innerText)"
    )
    assert await page.text("#copy-events") == "Copy as JSON"
