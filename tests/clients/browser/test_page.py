"""The browser page in a real browser, against the gateway with a fake engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from lookhear.engine.messages import ImagePart, StartTurn, TextPart
from lookhear.gateway.config import GatewayConfig
from tests.clients.browser.chromium import Browser, Page
from tests.clients.browser.pages import IDLE, IN_CHROMIUM, RECORDING, TALKING, clean_page
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running

pytestmark = IN_CHROMIUM

ANSWERS = "document.querySelectorAll('.answer:not(.waiting)').length"
# How much firm text was seen, after every change, in `firm`.
WATCH_FIRM = """globalThis.firm = [], new MutationObserver(() => {
    const seen = [...document.querySelectorAll(".turn:not([hidden]) .committed")];
    firm.push(seen.map((one) => one.innerText.trim()).join(" ").length);
}).observe(document.querySelector("#transcript"),
    { subtree: true, childList: true, characterData: true, attributes: true })"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeing() -> AsyncIterator[Running]:
    async with running(engine=FakeEngine(sees=True)) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, seeing: Running) -> AsyncIterator[Page]:
    """With a model that answers and sees."""
    seeing.engine.be_well()
    seeing.engine.hold = False
    async with clean_page(browser, seeing.http, TALKING) as page:
        yield page


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photo") / "lake.png"
    Image.new("RGB", (2000, 1500), (30, 120, 200)).save(path)
    return path


async def ask(page: Page, text: str) -> None:
    await page.type("#question", text)
    await page.press("Enter")


async def began_at(page: Page) -> int:
    """The second in which the first turn began."""
    minutes, seconds = (await page.text(".turn time")).split(":")
    return 60 * int(minutes) + int(seconds)


async def deny(page: Page, name: str) -> None:
    """From now on no device is given, for this reason."""
    refusal = f"() => Promise.reject(new DOMException('', {json.dumps(name)}))"
    await page.js(f"void (navigator.mediaDevices.getUserMedia = {refusal})")


async def test_a_question_and_its_answer(page: Page) -> None:
    await ask(page, "what is new")
    await page.until(f"{ANSWERS} == 1")
    await page.until("document.querySelector('.answer p').innerText == 'you said what is new'")
    await page.until("document.querySelector('#announcer').innerText == 'you said what is new'")
    assert await page.js("document.activeElement.id") == "question"


async def test_pictures_are_scaled_down_in_the_page(page: Page, photo: Path) -> None:
    await page.choose_files("#picture", photo, photo)
    await page.until("document.querySelectorAll('.attachment').length == 2")
    await page.click(".attachment .away")
    await ask(page, "where is it")
    await page.until("document.querySelector('.answer:not(.waiting)')")
    await page.until("/it$/.test(document.querySelector('.answer p').innerText)")
    assert await page.text(".answer p") == "picture 1280x960, you said where is it"
    assert await page.js("document.querySelectorAll('.asked canvas').length") == 1
    assert await page.js("document.querySelectorAll('.attachment').length") == 0


async def test_a_picture_that_the_model_refuses_fails_its_own_answer_alone(
    page: Page, seeing: Running, photo: Path
) -> None:
    await page.choose_files("#picture", photo)
    await page.until("document.querySelector('.attachment')")
    seeing.engine.chat.fail_next("invalid_image", "expected a picture, got a thread", 0, 0)
    await ask(page, "where is it")
    await page.until("document.querySelector('.answer.failed .note')")
    why = "The server refused this picture: expected a picture, got a thread."
    assert await page.text(".answer .note") == why
    await ask(page, "and now")
    await page.until(f"{ANSWERS} == 2")
    await page.until("/now$/.test([...document.querySelectorAll('.answer p')].at(-1).innerText)")
    (asked,) = seeing.engine.chat.started[-1].messages
    assert [part.text for part in asked.parts if isinstance(part, TextPart)] == ["and now"]
    assert len(asked.parts) == 1


async def test_a_question_that_is_too_long_fails_alone_and_is_told_to_no_new_session(
    page: Page, seeing: Running, photo: Path
) -> None:
    await ask(page, "before")
    await page.until(f"{ANSWERS} == 1")
    await page.until("document.querySelector('#cancel').hidden")
    await page.choose_files("#picture", photo)
    await page.until("document.querySelector('.attachment')")
    for _ in range(3):  # asked again, in vain, without what was said before it
        seeing.engine.chat.fail_next("context_length_exceeded", "expected less", 0, 0)
    await ask(page, "where is it")
    await page.until("document.querySelector('.answer.failed .note')")
    why = "This is more than the model can read at once, so it is left out. Send less."
    assert await page.text(".answer.failed .note") == why
    seeing.engine.die()
    seeing.engine.be_well()
    await ask(page, "and now")
    await page.until("/now$/.test([...document.querySelectorAll('.answer p')].at(-1).innerText)")
    asked = seeing.engine.chat.started[-1].messages
    said = [part.text for m in asked for part in m.parts if isinstance(part, TextPart)]
    assert said == ["before", "you said before", "and now"]
    assert sum(len(message.parts) for message in asked) == 3


async def test_a_pasted_picture_and_a_file_that_is_none(page: Page) -> None:
    await page.js("""(async () => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 60, height: 40 });
        canvas.getContext("2d").fillRect(0, 0, 10, 10);
        const blob = await new Promise((done) => canvas.toBlob(done));
        const clipboardData = new DataTransfer();
        clipboardData.items.add(new File([blob], "clip.png", { type: "image/png" }));
        clipboardData.items.add(new File(["no"], "broken.png", { type: "image/png" }));
        dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
    })()""")
    await page.until("!document.querySelector('#notice').hidden")
    assert "broken.png: this browser cannot read it" in await page.text("#notice")
    assert await page.js("document.querySelector('.attachment canvas').ariaLabel") == "clip.png"


async def test_a_spoken_question_about_a_picture_is_transcribed_and_answered(
    page: Page, photo: Path
) -> None:
    await page.choose_files("#picture", photo)
    await page.until("document.querySelector('.attachment')")
    await page.click("#answers")
    await page.click("#toggle")
    await page.until("/you said w0 w1.* w9/.test(document.querySelector('.answer p').innerText)")
    said = await page.js("[...document.querySelectorAll('.turn .committed')].at(-1).innerText")
    assert said.startswith("w0 w1 w2")
    assert await page.js("[...document.querySelectorAll('.spoken p')].at(-1).innerText") == said
    answer = f"picture 1280x960, you said {said}"
    await page.until(f"document.querySelector('.answer p').innerText == '{answer}'")
    await page.click("#toggle")
    await page.until(IDLE)
    assert "first text" in await page.text("#latency")
    assert "first word after" in await page.text("#answering-time")
    subtitles = await page.js("""import("./transcript/subtitles.js").then(({ srt, vtt }) => {
        const turns = [{ start: 0, end: 9000, text: "One & two. ".repeat(12), words: [] }];
        return [srt(turns), vtt(turns)];
    })""")
    assert subtitles[0].startswith("1\n00:00:00,000 --> 00:00:0")
    assert subtitles[1].startswith("WEBVTT\n\n00:00:00.000 --> ") and "&amp;" in subtitles[1]
    assert not await page.js("document.querySelector('#srt').disabled")


async def test_speech_is_only_transcribed_unless_an_answer_is_wanted(
    page: Page, seeing: Running
) -> None:
    await page.click("#toggle")
    await page.until("document.querySelector('.turn .note').innerText == 'English'")
    await page.click("#toggle")
    await page.until(IDLE)
    assert await page.js("document.querySelectorAll('.message').length") == 0
    await ask(page, "and what did I say")
    await page.until(f"{ANSWERS} == 1")
    texts = [
        p for p in seeing.engine.chat.started[-1].messages[-1].parts if isinstance(p, TextPart)
    ]
    assert texts[0].text.startswith("w0 w1") and texts[-1].text == "and what did I say"


async def test_the_camera_in_a_picture_and_live(page: Page, seeing: Running) -> None:
    await page.click("#camera")
    await page.until("document.querySelector('#video').videoWidth > 0")
    await page.click("#take")
    await page.until("document.querySelector('.attachment')")
    await page.click("#live")
    await page.until("document.querySelectorAll('.seen canvas').length >= 2")
    assert (await page.text(".seen")).startswith("seen: ")  # by nobody who speaks
    await page.click("#camera-off")
    assert await page.js("document.querySelector('#viewfinder').hidden")
    await ask(page, "what was that")
    await page.until("/that$/.test(document.querySelector('.answer p').innerText)")
    answer = await page.text(".answer p")
    assert answer.startswith("picture 1280x720, video ") or "video" in answer
    assert "640x360" in answer


async def test_a_camera_that_is_given_when_nobody_sees_any_more(browser: Browser) -> None:
    engine = FakeEngine(sees=True)
    engine.models.append(replace(VISION, id="fake/blind", abilities=["chat"]))
    async with (
        running(engine=engine) as gateway,
        clean_page(browser, gateway.http, TALKING) as page,
    ):
        await page.js("""void (navigator.mediaDevices.getUserMedia = () =>
          new Promise((give) => {
            globalThis.allow = () => {
              const stream = document.createElement("canvas").captureStream();
              globalThis.track = stream.getTracks()[0];
              give(stream);
            };
        }))""")
        await page.click("#camera")
        await page.js("""(() => {
            const models = document.querySelector("#chat-model");
            models.value = "fake/blind";
            models.dispatchEvent(new Event("change"));
        })()""")
        # An empty canvas has nothing to play.
        await page.js("void (document.querySelector('#video').play = async () => {})")
        await page.js("allow()")
        await page.until("!document.querySelector('#camera').disabled")
        assert await page.js("track.readyState") == "ended"
        assert await page.js("document.querySelector('#viewfinder').hidden")


async def test_an_answer_is_stopped(page: Page, seeing: Running) -> None:
    seeing.engine.chat.hold = True
    await ask(page, "tell me everything")
    await page.until("document.querySelector('.answer p').innerText == 'you'")
    await page.press("Escape")
    await page.until("document.querySelector('.answer .note').innerText == 'stopped'")
    seeing.engine.chat.release()
    await ask(page, "only this")
    await page.until("document.querySelectorAll('.answer').length == 2")
    await page.until("/this$/.test([...document.querySelectorAll('.answer p')].at(-1).innerText)")


async def test_another_question_breaks_the_answer_off(page: Page, seeing: Running) -> None:
    seeing.engine.chat.hold = True
    await ask(page, "first")
    await page.until("document.querySelector('.answer p').innerText == 'you'")
    await ask(page, "second")
    await page.until("document.querySelector('.answer .note').innerText == 'stopped'")
    seeing.engine.chat.release()
    await page.until("/second$/.test([...document.querySelectorAll('.answer p')].at(-1).innerText)")
    assert len(seeing.engine.chat.cancelled) == 1


async def test_a_lost_connection_loses_no_question(
    page: Page, seeing: Running, photo: Path
) -> None:
    await page.choose_files("#picture", photo)
    await page.until("document.querySelector('.attachment')")
    await ask(page, "remember")
    await page.until("/remember$/.test(document.querySelector('.answer p').innerText)")
    await page.until(IDLE)
    seeing.engine.chat.hold = True
    await ask(page, "and now")
    await page.until("[...document.querySelectorAll('.answer p')].at(-1).innerText == 'picture'")
    seeing.engine.die()
    await page.until("document.querySelector('#state').dataset.state == 'lost'")
    assert "Trying again" in await page.text("#notice")
    seeing.engine.be_well()
    last = "[...document.querySelectorAll('.answer p')].at(-1)"
    await page.until(f"{last}.innerText == 'picture 1280x960, you said and now'")
    assert await page.js(f"{ANSWERS}") == 2
    assert await page.js("document.querySelector('#notice').hidden")


async def test_a_lost_connection_loses_nothing_that_was_said(page: Page, seeing: Running) -> None:
    seeing.engine.hold = True  # the turn does not end before the connection does
    await page.click("#answers")
    await page.click("#toggle")
    await page.until("/w4/.test(document.querySelector('.turn .committed').innerText)")
    began = await began_at(page)
    await page.js(f"void ({WATCH_FIRM})")
    seeing.engine.die()
    await page.until("document.querySelector('#state').dataset.state == 'lost'")
    assert "w4" in await page.text(".turn .committed")
    seeing.engine.hold = False
    seeing.engine.be_well()
    await page.until(f"{ANSWERS} == 1")
    assert (await page.text(".turn .committed")).startswith("w0 w1 w2 w3 w4 w5")
    assert abs(await began_at(page) - began) <= 1  # second: it is told in whole ones
    assert await page.js("document.querySelectorAll('.turn').length") == 1
    assert min(await page.js("firm")) >= len("w0 w1 w2 w3 w4")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NotAllowedError", "was not allowed"),
        ("NotFoundError", "was found"),
        ("NotReadableError", "another app"),
    ],
)
async def test_devices_that_are_not_given(page: Page, name: str, words: str) -> None:
    await deny(page, name)
    for button, device in (("#camera", "camera"), ("#toggle", "microphone")):
        await page.click(button)
        await page.until(f"document.querySelector('#notice').innerText.includes('{device}')")
        assert words in await page.text("#notice")
    await page.until(IDLE)
    assert words in await page.text("#notice")


async def test_there_is_room_for_pictures_as_the_oldest_are_forgotten(
    browser: Browser, tmp_path: Path
) -> None:
    """The page keeps two dozen, which a new session is told of."""
    for number in range(32):
        Image.new("RGB", (32, 32), (8 * number, 255 - 8 * number, 99)).save(
            tmp_path / f"{number}.png"
        )
    engine = FakeEngine(sees=True)
    async with (
        running(GatewayConfig(port=0, max_pictures=26), engine) as gateway,
        clean_page(browser, gateway.http, TALKING) as page,
    ):
        for count in (1, 2, 3, 4):
            files = [tmp_path / f"{number}.png" for number in range(8 * count - 8, 8 * count)]
            await page.choose_files("#picture", *files)
            await page.until("document.querySelectorAll('.attachment').length == 8")
            await ask(page, f"number {count}")
            await page.until(f"{ANSWERS} == {count} && document.querySelector('#cancel').hidden")
        assert await page.js("document.querySelectorAll('.failed').length") == 0
        seen = [part for m in engine.chat.started[-1].messages for part in m.parts]
        assert sum(isinstance(part, ImagePart) for part in seen) == 24
        said = [part.text for part in seen if isinstance(part, TextPart)]
        assert said[0] == "number 1" and said[-1] == "number 4"


async def test_a_server_that_is_started_again_with_other_models(browser: Browser) -> None:
    """Of one that hears and answers one that only hears is left, and then one that only answers."""
    heard = "document.querySelectorAll('.turn .committed').length"
    async with running(engine=FakeEngine(sees=True)) as gateway, browser.page(gateway.http) as page:
        await page.until(TALKING)
        await ask(page, "what is new")
        await page.until(f"{ANSWERS} == 1")
        await page.click("#toggle")
        await page.until(f"{heard} > 0")
        await gateway.stop()
        async with running(port=gateway.port) as again:
            await page.until("document.querySelector('#talking').hidden")
            await page.until("document.querySelector('#state').dataset.state == 'listening'")
            assert await page.js("document.querySelector('#notice').hidden")
            await again.stop()
        engine = FakeEngine(sees=True)
        engine.models = [VISION]
        async with running(engine=engine, port=gateway.port):
            await page.until("!document.querySelector('#talking').hidden")
            await page.until(f"{IDLE} && document.querySelector('#toggle').disabled")
            await ask(page, "and now")
            await page.until(f"{ANSWERS} == 2")


async def test_a_session_in_which_nothing_is_said_ends_without_a_word(browser: Browser) -> None:
    config = GatewayConfig(port=0, idle_seconds=0.3)
    async with (
        running(config, FakeEngine(sees=True)) as gateway,
        clean_page(browser, gateway.http, TALKING) as page,
    ):
        await page.js("document.querySelector('#events').open = true")
        for count in (1, 2):
            await ask(page, "what is new")
            await page.until(f"{ANSWERS} == {count}")
            told = "[...document.querySelectorAll('#event-list summary')].map((e) => e.innerText)"
            await page.until(f"{told}.filter((text) => /error/.test(text)).length == {count}")
            assert await page.js("document.querySelector('#notice').hidden")


async def test_a_server_that_only_hears(browser: Browser, photo: Path) -> None:
    async with running() as gateway, browser.page(gateway.http) as page:
        await page.until("!document.querySelector('#toggle').disabled")
        assert await page.js("document.querySelector('#talking').hidden")
        await page.choose_files("#file", photo)
        await page.until("!document.querySelector('#notice').hidden")
        assert "--model demo-qwen3-vl" in await page.text("#notice")
        await page.js("void (document.querySelector('#speech-model').value = 'fake-english')")
        await page.js(
            "void document.querySelector('#speech-model').dispatchEvent(new Event('change'))"
        )
        languages = "[...document.querySelector('#language').options].map((o) => o.innerText)"
        assert await page.js(languages) == ["detect language", "English"]
        await page.click("#toggle")
        await page.until("/w9/.test(document.querySelector('.turn .committed').innerText)")
        await page.click("#toggle")
        await page.until(IDLE)
        turn = next(m for m in gateway.engine.messages if isinstance(m, StartTurn))
        assert turn.settings.model == "fake-english"
        await gateway.engine.wait_for(lambda: len(gateway.engine.closed_sessions) == 1)
        assert page.errors == []


async def test_a_file_is_transcribed_and_not_answered(page: Page) -> None:
    await page.choose_files("#file", RECORDING)
    await page.until("document.querySelector('.turn .note').innerText == 'English'")
    await page.until(IDLE)
    assert await page.text("#toggle") == "Start listening"
    assert await page.js("document.querySelectorAll('.message').length") == 0
    await page.choose_files("#file", Path(__file__))
    await page.until("document.querySelector('#notice').innerText.includes('cannot decode')")


async def test_a_new_chat_while_somebody_speaks(page: Page, seeing: Running) -> None:
    await ask(page, "old")
    await page.until(IDLE + " && /old$/.test(document.querySelector('.answer').innerText)")
    seeing.engine.hold = True
    await page.click("#answers")
    await page.click("#toggle")
    await page.until("/w2/.test(document.querySelector('.turn .committed').innerText)")
    await page.click("#new-chat")
    seeing.engine.hold = False
    seeing.engine.release()
    await page.until("/^you said w0 w1 w2 w3/.test(document.querySelector('.answer p').innerText)")
    assert "old" not in await page.text("#chat")


async def test_a_key(browser: Browser) -> None:
    config = GatewayConfig(port=0, api_keys=("sesame",))
    async with running(config) as gateway, browser.page(gateway.http) as page:
        await page.until("document.activeElement.id == 'key'")
        await page.type("#key", "wrong")
        await page.press("Enter")
        await page.until("document.querySelector('#notice').innerText.includes('not accept')")
        await page.js("void (document.querySelector('#key').value = '')")
        await page.type("#key", "sesame")
        await page.press("Enter")
        await page.until("document.querySelector('#key-form').hidden")
        await page.click("#toggle")
        await page.until("/w9/.test(document.querySelector('.turn .committed').innerText)")


async def test_the_page_fits_a_phone(page: Page) -> None:
    await page.resize(360, 700, is_phone=True)
    assert await page.js("document.documentElement.scrollWidth") <= 360


async def test_what_is_cleared_while_somebody_speaks_stays_away(
    browser: Browser, page: Page, seeing: Running, tmp_path: Path
) -> None:
    """The turn goes on, from when it began, with what is said from then on."""
    seeing.engine.hold = True
    await page.click("#toggle")
    await page.until("/w2/.test(document.querySelector('.turn .committed').innerText)")
    began = await page.text(".turn time")
    await page.click("#clear")
    assert await page.text(".turn time") == began
    assert "w2" not in await page.text("#transcript")
    await page.until("/w[4-9]/.test(document.querySelector('.turn .committed').innerText)")
    seeing.engine.hold = False
    seeing.engine.release()
    await page.until("document.querySelector('.turn .note').innerText == 'English'")
    said = await page.text(".turn .committed")
    assert "w2 " not in said
    await browser.save_in(tmp_path)
    await page.click("#txt")
    await asyncio.wait_for(browser.saved.get(), 120)
    assert (tmp_path / "transcript.txt").read_text() == f"{said.strip()}\n"
    await page.click("#toggle")
    await page.until(IDLE)
