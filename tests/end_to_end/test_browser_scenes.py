"""What the documentation shows of the browser page: what it offers a newcomer, a recording heard,
lit and played again, questions about a picture, in light and dark and on a phone.

`LOOKHEAR_IMAGES=docs/images make test ARGS=tests/end_to_end/test_browser_scenes.py` takes the
pictures of the documentation anew; otherwise they are taken of a shorter recording and thrown away.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from lookhear.commands.private_server import ServerProcess
from lookhear.wer import word_errors
from tests.clients.browser.chromium import Browser, Page, chromium, voice
from tests.clients.browser.pages import IDLE, IN_CHROMIUM
from tests.end_to_end.conftest import SERVE
from tests.end_to_end.test_browser import LAST, ask

pytestmark = IN_CHROMIUM

RECORDINGS = Path(__file__).parent.parent.parent / "tools" / "demo" / "lookhear_demo" / "recordings"
MODELS = ["--model", "demo-whisper", "--model", "demo-qwen3-vl"]
TURNS = "[...document.querySelectorAll('.turn .committed')]"
IMAGES = os.environ.get("LOOKHEAR_IMAGES")


@pytest.fixture(scope="module")
def both() -> Iterator[ServerProcess]:
    """A model that hears, with word times, and one that sees."""
    with ServerProcess(arguments=[*MODELS, *SERVE], start_seconds=120.0) as process:
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    folder = tmp_path_factory.mktemp("devices")
    async with chromium(voice(RECORDINGS / "question-colour.opus", folder / "voice.wav")) as it:
        yield it


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(IMAGES) if IMAGES else tmp_path_factory.mktemp("images")


async def lit_at(page: Page, seconds: float) -> str:
    """The word that is lit where the recording stands at a moment."""
    lit: str = await page.js(f"""new Promise((done) => {{
        const audio = document.querySelector("#player audio");
        const settle = () => setTimeout(() =>
            done(document.querySelector(".lit")?.innerText ?? ""), 150);
        audio.addEventListener("seeked", settle, {{ once: true }});
        audio.currentTime = {seconds};
    }})""")
    return lit


def bare(word: str) -> str:
    return re.sub(r"\W", "", word).lower()


async def test_the_page_as_it_is_shown(
    browser: Browser, both: ServerProcess, images: Path, tmp_path: Path
) -> None:
    spoken = json.loads((RECORDINGS / "hello.json").read_text(encoding="utf-8"))
    sentences, recording = spoken["sentences"], RECORDINGS / "hello.opus"
    if not IMAGES:
        sentences = sentences[:3]
        end = sentences[-1]["words"][-1]["end_s"] + 0.5
        recording = voice(recording, tmp_path / "hello.wav", before=0.0, after=1.0, end=end)
    async with browser.page(both.address.base_url, width=1200, height=760) as page:
        await page.until("!document.querySelector('#talking').hidden")
        await page.until("document.querySelector('#ask-sample img').complete")
        await page.screenshot(images / "page-first.png")
        await page.click("#ask-sample")
        await page.until(
            f"/[.]$/.test({LAST}.innerText) && document.querySelector('#cancel').hidden"
        )
        seen = "A red circle, a yellow star and a blue triangle."
        assert await page.js(f"{LAST}.querySelector('p').innerText") == seen
        assert await ask(page, "Where is the star?") == "On the right."

        if IMAGES:
            await page.click("#play-sample")
            # The moment when all is to be seen.
            await page.until("/London/.test(document.querySelector('#transcript').innerText)")
            await page.until(
                "document.querySelector('.lit') && "
                "[...document.querySelectorAll('.provisional')].at(-1).innerText.length > 4"
            )
            await page.js("document.activeElement.blur()")
        else:
            await page.choose_files("#file", recording)
            await page.until("document.querySelector('.lit')")
        await page.screenshot(images / "page.png")
        await page.until(IDLE)
        heard = await page.js(f"{TURNS}.map((turn) => turn.textContent.trim()).join(' ')")
        said = " ".join(sentence["text"] for sentence in sentences)
        assert word_errors(said, heard).rate <= 0.1, heard
        assert await page.js(f"{TURNS}.length") >= len(sentences) - 2  # a pause is a paragraph

        # The word that is lit is the one that is spoken there, by what the synthesiser knows.
        words = [word for sentence in sentences for word in sentence["words"]]
        checked = words[1::4]
        lit = [await lit_at(page, (w["start_s"] + w["end_s"]) / 2) for w in checked]
        right = [bare(w["word"]) == bare(word) for w, word in zip(checked, lit, strict=True)]
        assert sum(right) >= 0.8 * len(checked), list(zip(checked, lit, strict=True))

        await page.set_dark(True)
        await lit_at(page, 8.2)
        await page.screenshot(images / "page-dark.png")
        await page.set_dark(False)
        await page.resize(390, 844, is_phone=True)
        assert await page.js("document.documentElement.scrollWidth") <= 390
        await page.js("document.activeElement.blur(); scrollTo(0, 0)")
        await lit_at(page, 21.5 if IMAGES else 11.0)
        await page.screenshot(images / "page-phone.png")
        assert page.errors == []
        assert page.foreign(both.address.base_url) == []
