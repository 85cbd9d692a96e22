"""The browser page in a real browser, with the packaged models: seen, heard, and answered."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image, ImageDraw

from lookhear.commands.private_server import ServerProcess
from tests.clients.browser.chromium import Browser, Page, chromium, voice
from tests.clients.browser.pages import IN_CHROMIUM, RECORDING, TALKING, clean_page

pytestmark = IN_CHROMIUM

QUESTION = "What colour is the circle?"
SAID = "document.querySelector('.turn .committed')"
LAST = "[...document.querySelectorAll('.answer')].at(-1)"


def scene(circle: str) -> Image.Image:
    """A circle at the top left and a purple square at the bottom right."""
    image = Image.new("RGB", (192, 192), (244, 242, 236))
    brush = ImageDraw.Draw(image)
    brush.ellipse([10, 10, 54, 54], fill=circle)
    brush.rectangle([138, 138, 182, 182], fill="purple")
    return image


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """Its microphone hears the question, its camera sees a green circle."""
    folder = tmp_path_factory.mktemp("devices")
    frame = io.BytesIO()
    scene("green").resize((768, 768)).save(frame, "JPEG", quality=95)
    (folder / "camera.mjpeg").write_bytes(frame.getvalue() * 8)
    wav = voice(RECORDING, folder / "question.wav")
    async with chromium(wav, folder / "camera.mjpeg") as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, seeing_server: ServerProcess) -> AsyncIterator[Page]:
    async with clean_page(browser, seeing_server.address.base_url, TALKING) as page:
        yield page


async def ask(page: Page, text: str) -> str:
    before = await page.js("document.querySelectorAll('.answer').length")
    await page.type("#question", text)
    await page.press("Enter")
    await page.until(f"document.querySelectorAll('.answer').length > {before}")
    await page.until("document.querySelector('#cancel').hidden")
    said: str = await page.js(f"{LAST}.querySelector('p').innerText")
    return said


async def test_questions_about_a_picture(page: Page, tmp_path: Path) -> None:
    scene("red").save(tmp_path / "scene.png")
    await page.choose_files("#picture", tmp_path / "scene.png")
    await page.until("document.querySelector('.attachment')")
    assert await ask(page, QUESTION) == "Red."
    assert await ask(page, "How many shapes are there?") == "Two."


async def test_a_spoken_question_about_a_picture(page: Page, tmp_path: Path) -> None:
    scene("blue").save(tmp_path / "scene.png")
    await page.choose_files("#picture", tmp_path / "scene.png")
    await page.until("document.querySelector('.attachment')")
    await page.click("#answers")
    await page.click("#toggle")
    await page.until(f"/[.]$/.test({LAST}.innerText)")
    assert await page.text(".turn .committed") == QUESTION
    assert await page.js(f"{LAST}.querySelector('p').innerText") == "Blue."
    await page.click("#toggle")
    await page.until("document.querySelector('#state').dataset.state == 'idle'")


async def test_a_recording_by_a_model_without_word_times(page: Page) -> None:
    await page.choose_files("#file", RECORDING)
    await page.until(f"/colour/.test({SAID}.innerText)")
    await page.until("document.querySelector('#state').dataset.state == 'idle'")
    assert await page.js("document.querySelectorAll('.word').length") == 0
    # All that was said in the turn is lit while it is played, for two seconds: whoever asks in the
    # page itself does not come too late.
    await page.js(f"""new Promise((done) => {{
        const look = () => {SAID}.classList.contains("lit") ? done() : setTimeout(look, 10);
        document.querySelector(".seek").click();
        look();
    }})""")
    await page.until("!document.querySelector('.lit')")
    assert "commit lag" not in await page.text("#latency")


async def test_the_camera_is_looked_at(page: Page) -> None:
    await page.click("#camera")
    await page.until("document.querySelector('#video').videoWidth > 0")
    await page.click("#live")
    await page.until("document.querySelector('.seen canvas')")
    assert await ask(page, QUESTION) == "Green."
    await page.click("#live")
    await page.click("#take")
    assert await ask(page, QUESTION) == "Green."


async def test_what_a_browsers_recorder_writes_is_heard_as_it_comes(page: Page) -> None:
    """As Deepgram's first example for browsers: pieces of a WebM on its live wire."""
    said = await page.js("""new Promise(async (done, failed) => {
        const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
        const recorder = new MediaRecorder(microphone);
        const url = location.origin.replace("http", "ws") + "/v1/listen?endpointing=300";
        const socket = new WebSocket(url);
        socket.onopen = () => recorder.start(250);
        recorder.ondataavailable = ({ data }) => {
            if (data.size > 0 && socket.readyState == 1) socket.send(data);
        };
        const texts = [];
        socket.onmessage = ({ data }) => {
            const told = JSON.parse(data);
            if (told.type == "Error") failed(told.description);
            if (told.type != "Results") return;
            texts.push(told.channel.alternatives[0].transcript);
            if (!told.speech_final) return;
            recorder.stop();
            socket.close();
            microphone.getTracks().forEach((track) => track.stop());
            done(recorder.mimeType + " " + texts.join(" "));
        };
    })""")
    assert said == f"audio/webm;codecs=opus {QUESTION}"
