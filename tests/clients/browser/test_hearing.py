"""The browser page hears: words with their times, recordings, latency, what can be taken away."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import soundfile
from PIL import Image

from lookhear.engine.messages import StartAnswer, VideoPart
from lookhear.gateway.config import GatewayConfig
from tests.clients.browser.chromium import Browser, Page
from tests.clients.browser.pages import IDLE, IN_CHROMIUM, READY, RECORDING, clean_page
from tests.clients.clips import write_video
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running

pytestmark = IN_CHROMIUM

HEARD = "document.querySelector('.turn .note').innerText == 'English'"
# Every word that was lit, in order, in `lit`.
WATCH = """globalThis.lit = [], new MutationObserver((changes) => {
    for (const { target } of changes)
      if (target.classList.contains("lit")) lit.push(target.innerText);
}).observe(document.querySelector("#transcript"), { subtree: true, attributeFilter: ["class"] })"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[Running]:
    async with running(engine=FakeEngine(sees=True)) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, gateway: Running) -> AsyncIterator[Page]:
    gateway.engine.be_well()
    async with clean_page(browser, gateway.http, READY) as page:
        yield page
        assert any("/v1/models" in request for request in page.requests)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `speaking.webm` and `silent.webm`."""
    folder = tmp_path_factory.mktemp("clips")
    pictures = [Image.new("RGB", (320, 240), colour) for colour in ("black", "white", "navy")]
    write_video(folder / "speaking.webm", pictures, RECORDING)
    write_video(folder / "silent.webm", pictures, None)
    return folder


def numbers(words: list[str]) -> list[int]:
    return [int(word.removeprefix("w")) for word in words]


@pytest.mark.parametrize("chosen", ["another recording", "the microphone"])
async def test_what_is_chosen_while_a_recording_is_read_stays(
    page: Page, tmp_path: Path, chosen: str
) -> None:
    long = tmp_path / "long.opus"
    shutil.copy(RECORDING, long)
    # It takes as long to read as the test wants.
    await page.js("""void (() => {
        const read = File.prototype.arrayBuffer;
        File.prototype.arrayBuffer = async function () {
            const bytes = await read.call(this);
            if (this.name === "long.opus") {
                await new Promise((resolve) => (globalThis.release = resolve));
                setTimeout(() => (globalThis.isRead = true), 500);
            }
            return bytes;
        };
    })()""")
    await page.choose_files("#file", long)
    await page.until("document.querySelector('#notice').innerText.includes('Reading long.opus')")
    if chosen == "the microphone":
        await page.click("#toggle")
    else:
        await page.choose_files("#file", RECORDING.with_name("hello.opus"))
    await page.until("document.querySelector('#toggle').innerText == 'Stop'")
    await page.js("void release()")
    await page.until("globalThis.isRead")
    assert "long.opus" not in await page.js("document.body.innerText")
    assert await page.js("document.querySelector('#toggle').innerText") == "Stop"
    await page.click("#toggle")
    await page.until(IDLE)


async def test_words_are_lit_in_their_order_while_they_are_spoken(page: Page) -> None:
    await page.js(f"void ({WATCH})")
    await page.click("#toggle")
    await page.until("lit.length > 4")
    lit = numbers(await page.js("lit"))
    assert lit == sorted(set(lit)), lit
    await page.click("#toggle")
    await page.until(f"{IDLE} && !document.querySelector('.lit')")


async def test_a_recording_is_played_again_from_a_word(page: Page) -> None:
    await page.choose_files("#file", RECORDING)
    await page.until(f"{IDLE} && {HEARD}")
    assert await page.js("document.querySelector('#player audio').controls")
    assert await page.text("#recording-name") == RECORDING.name
    await page.until("!document.querySelector('.lit')")
    await page.js(f"void ({WATCH})")
    # It stands where it begins: the page may be late to see where it plays.
    assert await page.js("""(() => {
        globalThis.audio = document.querySelector("#player audio");
        [...document.querySelectorAll(".word")].find((w) => w.innerText == "w9").click();
        const isPlaying = !audio.paused;
        audio.pause();
        return isPlaying;
    })()""")
    await page.until("lit.length")
    assert await page.js("lit") == ["w9"]
    await page.js("audio.playbackRate = 0.25, void audio.play()")  # not over before it is seen
    await page.until("lit.length > 1")
    lit = numbers(await page.js("lit"))
    assert lit == sorted(set(lit)), lit
    # The time of the paragraph does it for the keyboard, and a pause leaves the word lit.
    await page.js("audio.pause(), void (audio.onplay = () => audio.pause())")
    await page.js("document.querySelector('.seek').focus()")
    await page.press("Enter")
    await page.until("audio.paused && lit.some((word) => /^w[012]$/.test(word))")
    assert await page.js("document.querySelectorAll('.lit').length") == 1
    assert await page.js("document.querySelector('.seek').ariaLabel") == "Play from 0:00"
    # Somebody speaks: the recording is silent.
    await page.js("audio.onplay = null, void audio.play()")
    await page.click("#toggle")
    await page.until("document.querySelector('#player audio').paused")
    await page.until("document.querySelectorAll('.turn[lang=en]').length == 2")
    assert await page.js("document.querySelectorAll('.turn .note')[1].innerText") == ""
    assert await page.js("document.querySelectorAll('.seek').length") == 1
    await page.click("#toggle")
    await page.until(IDLE)


async def test_latency_is_shown_and_told(page: Page) -> None:
    assert await page.js("document.querySelector('#latency').hidden")
    await page.click("#toggle")
    await page.until(HEARD)
    shown = "document.querySelector('#latency svg').getAttribute('aria-label')"
    await page.until(f"/final text/.test({shown})")
    label = await page.js(shown)
    for name in ("first text", "commit lag", "tick", "final text"):
        told = re.search(rf"{name} ([\d.]+) seconds", label)
        assert told is not None, label
        assert 0 <= float(told[1]) < 10, label
        assert re.search(rf"{name}\s+{told[1]} s", await page.text("#latency figcaption"))
    assert await page.js("document.querySelectorAll('#latency .lag').length") > 5
    await page.click("#toggle")
    await page.until(IDLE)


async def test_a_video_is_heard_and_seen(page: Page, gateway: Running, clips: Path) -> None:
    await page.drop(clips / "speaking.webm")
    await page.until(f"{HEARD} && {IDLE}")
    await page.until("document.querySelectorAll('.seen canvas').length >= 2")
    assert await page.js("document.querySelectorAll('.answer').length") == 0
    assert await page.js("document.querySelector('#player video').controls")
    await page.type("#question", "what was that")
    await page.press("Enter")
    await page.until("/that$/.test(document.querySelector('.answer p').innerText)")
    asked = [m for m in gateway.engine.chat.started if isinstance(m, StartAnswer)][-1]
    assert any(isinstance(part, VideoPart) for m in asked.messages for part in m.parts)


async def test_a_video_without_sound_is_seen(page: Page, clips: Path) -> None:
    await page.choose_files("#file", clips / "silent.webm")
    await page.until("document.querySelectorAll('.seen canvas').length >= 2")
    assert "no sound" in await page.text("#notice")
    await page.until("document.querySelector('#player video').paused")


async def test_a_recording_in_which_nobody_speaks(page: Page, tmp_path: Path) -> None:
    silence = tmp_path / "silence.wav"
    soundfile.write(silence, np.zeros(24_000, np.float32), 24_000)
    await page.choose_files("#file", silence)
    await page.until(
        "document.querySelector('#notice').innerText.includes('Nobody is heard in silence.wav')"
    )
    await page.choose_files("#file", RECORDING)
    await page.until(f"{IDLE} && {HEARD}")
    assert "Nobody" not in await page.js("document.body.innerText")


async def test_nobody_is_missed_in_a_recording_that_was_not_heard(
    browser: Browser, tmp_path: Path
) -> None:
    silence = tmp_path / "silence.wav"
    soundfile.write(silence, np.zeros(24_000 * 60, np.float32), 24_000)
    async with running() as gateway, browser.page(gateway.http) as page:
        await page.until(READY)
        await page.choose_files("#file", silence)
        await page.until("!document.querySelector('#at-once').hidden")
        await gateway.stop()
        keys = GatewayConfig(port=gateway.port, api_keys=("sesame",))
        async with running(keys, port=gateway.port):
            await page.until("document.activeElement.id == 'key'")
            await page.until("document.querySelector('#toggle').innerText == 'Start listening'")
            assert "Nobody" not in await page.text("#notice")


async def test_of_two_recordings_it_is_said_which_is_played(page: Page, clips: Path) -> None:
    await page.drop(RECORDING, clips / "speaking.webm")
    told = f"One recording at a time: only {RECORDING.name} is played."
    await page.until(f"document.querySelector('#notice-text').innerText == '{told}'")
    await page.click("#toggle")
    await page.until(IDLE)


async def test_a_recording_that_is_dropped_before_the_first_click(page: Page) -> None:
    await page.js("""void Object.defineProperty(navigator, "userActivation",
        { value: { hasBeenActive: false } })""")
    await page.drop(RECORDING)
    await page.until("document.querySelector('#notice').innerText.includes('click anywhere')")
    await page.call(
        "Input.dispatchMouseEvent", type="mousePressed", x=5, y=5, button="left", clickCount=1
    )
    await page.call(
        "Input.dispatchMouseEvent", type="mouseReleased", x=5, y=5, button="left", clickCount=1
    )
    await page.until(f"{HEARD} && {IDLE}")


async def test_what_can_be_taken_away(
    browser: Browser, gateway: Running, page: Page, tmp_path: Path
) -> None:
    await page.choose_files("#file", RECORDING)
    await page.until(f"{HEARD} && {IDLE}")
    assert await page.js("document.querySelector('.turn').lang") == "en"
    said = await page.js("document.querySelector('.turn .committed').textContent.trim()")
    await browser.save_in(tmp_path)
    for ending in ("txt", "srt", "vtt"):
        await page.click(f"#{ending}")
        assert await asyncio.wait_for(browser.saved.get(), 120) == f"transcript.{ending}"
    assert (tmp_path / "transcript.txt").read_text() == f"{said}\n"
    assert re.match(r"1\n00:00:00,\d{3} --> 00:00:0\d", (tmp_path / "transcript.srt").read_text())
    assert (tmp_path / "transcript.vtt").read_text().startswith("WEBVTT\n\n00:00:00.")
    await browser.call(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        origin=gateway.http,
    )
    await page.call("Emulation.setFocusEmulationEnabled", enabled=True)
    await page.js("""void (globalThis.told = [], new MutationObserver(([{ target }]) => {
        told.push(target.innerText);
    }).observe(document.querySelector("#copy"), { childList: true }))""")
    await page.click("#copy")
    await page.until("told.includes('Copied')")  # for a moment
    assert await page.js("navigator.clipboard.readText()") == f"{said}\n"


async def test_a_silent_microphone_is_told_of_until_it_is_heard(page: Page) -> None:
    await page.js("""void (navigator.mediaDevices.getUserMedia = async () => {
        const context = new AudioContext();
        const out = context.createMediaStreamDestination();
        globalThis.speak = () => {
          const tone = new OscillatorNode(context);
          tone.connect(out);
          tone.start();
        };
        return out.stream;
    })""")
    await page.click("#toggle")
    await page.until("/microphone is silent/.test(document.querySelector('#notice').innerText)")
    await page.js("speak()")
    await page.until("document.querySelector('#notice').hidden")
    assert await page.js("document.querySelector('#level').value") > 0
    await page.click("#toggle")


async def test_a_page_that_is_given_no_devices(page: Page) -> None:
    await page.js("void Object.defineProperty(navigator, 'mediaDevices', { value: undefined })")
    for button, device in (("#camera", "camera"), ("#toggle", "microphone")):
        await page.click(button)
        await page.until(f"document.querySelector('#notice').innerText.includes('{device}')")
        assert "over https" in await page.text("#notice")
    await page.until(IDLE)


async def test_what_is_said_to_a_server_that_has_gone(browser: Browser) -> None:
    async with running() as gateway, browser.page(gateway.http) as page:
        await page.until(READY)
        await gateway.stop()
        # What is spoken is over soon.
        await page.js("""void (globalThis.loudest = 0, new MutationObserver(([{ target }]) => {
            loudest = Math.max(loudest, target.value);
        }).observe(document.querySelector("#level"), { attributeFilter: ["value"] }))""")
        await page.click("#toggle")
        notice = "document.querySelector('#notice').innerText"
        await page.until(f"/server is away.*What is said meanwhile is kept/s.test({notice})")
        await page.until("document.querySelector('#state').dataset.state == 'lost'")
        await page.until("loudest > 0")
        async with running(port=gateway.port):
            await page.until("document.querySelector('#notice').hidden")
            await page.until(HEARD)
            await page.click("#toggle")
            await page.until(IDLE)
            assert [error for error in page.errors if "net::ERR_" not in error] == []


async def test_a_video_that_is_shown_to_a_server_that_has_gone(
    browser: Browser, clips: Path
) -> None:
    async with (
        running(engine=FakeEngine(sees=True)) as gateway,
        browser.page(gateway.http) as page,
    ):
        await page.until(READY)
        await gateway.stop()
        await page.choose_files("#file", clips / "silent.webm")
        await page.until("document.querySelector('#player video').controls")  # to its end
        async with running(engine=FakeEngine(sees=True), port=gateway.port) as again:
            await page.type("#question", "what was that")
            await page.press("Enter")
            await page.until("/that$/.test(document.querySelector('.answer p').innerText)")
            (asked,) = again.engine.chat.started
            assert any(isinstance(part, VideoPart) for m in asked.messages for part in m.parts)
            assert await page.js("document.querySelectorAll('.seen canvas').length") >= 2


async def test_a_microphone_that_is_given_late_is_not_heard_twice(page: Page) -> None:
    await page.js("""void (globalThis.given = [], globalThis.wanted = [],
      navigator.mediaDevices.getUserMedia = () => new Promise((give) => {
        wanted.push(() => {
          const { stream } = new AudioContext().createMediaStreamDestination();
          given.push(stream.getTracks()[0]);
          give(stream);
        });
    }))""")
    await page.click("#toggle")
    await page.until("wanted.length == 1")
    await page.click("#toggle")
    await page.until(IDLE)
    await page.click("#toggle")
    await page.until("wanted.length == 2")
    await page.js("wanted.forEach((give) => give())")
    await page.until("given[0].readyState == 'ended'")
    assert await page.js("given[1].readyState") == "live"
    await page.click("#toggle")
    await page.until(f"{IDLE} && given[1].readyState == 'ended'")


async def test_nothing_can_be_fetched_from_elsewhere(browser: Browser, gateway: Running) -> None:
    async with browser.page(gateway.http) as page:
        for attempt in (
            "fetch('https://example.org/')",
            "new Promise((_, no) => (new WebSocket('wss://example.org/').onerror = no))",
            "import('https://example.org/x.js')",
        ):
            refused = f"Promise.resolve().then(() => {attempt}).then(() => 0, () => 1)"
            assert await page.js(refused) == 1
        await page.until_errors(3)
        assert all("Content Security Policy" in error for error in page.errors), page.errors


async def test_everything_has_a_name_and_the_keyboard_reaches_it(page: Page) -> None:
    await page.choose_files("#file", RECORDING)
    await page.until(f"{HEARD} && {IDLE}")
    tree = await page.call("Accessibility.getFullAXTree")
    roles = {"button", "checkbox", "combobox", "textbox", "meter", "image", "region", "log"}
    shown = [n for n in tree["nodes"] if not n["ignored"] and n["role"]["value"] in roles]
    nameless = [n for n in shown if not n.get("name", {}).get("value")]
    assert not nameless
    assert {n["role"]["value"] for n in shown} >= roles - {"checkbox"}
    await page.js("document.body.focus()")
    reached = [await page.press_tab() for _ in range(30)]
    order = ["toggle", "open-file", "transcript", "copy", "txt", "clear", "answers", "question"]
    assert [reached.index(id) for id in order] == sorted(reached.index(id) for id in order)


async def test_a_key_that_is_not_accepted_any_more(browser: Browser) -> None:
    config = GatewayConfig(port=0, api_keys=("sesame",))
    async with running(config) as gateway, browser.page(gateway.http) as page:
        await page.until("document.activeElement.id == 'key'")
        await page.type("#key", "sesame")
        await page.press("Enter")
        await page.until("!document.querySelector('#toggle').disabled")
        assert not any("sesame" in request for request in page.requests)
