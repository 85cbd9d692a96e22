"""The browser page while the server is restarted in mid-sentence: nothing that was said is lost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lookhear.commands.private_server import ServerProcess
from lookhear.wer import word_errors
from tests.clients.browser.chromium import chromium, executable, voice
from tests.end_to_end.conftest import SERVE

RECORDINGS = Path(__file__).parent.parent.parent / "tools" / "demo" / "lookhear_demo" / "recordings"
TURNS = "[...document.querySelectorAll('.turn .committed')]"


@pytest.mark.skipif(executable() is None, reason="needs Chromium (Debian: chromium)")
async def test_a_restart_in_mid_sentence(tmp_path: Path) -> None:
    spoken = json.loads((RECORDINGS / "hello.json").read_text(encoding="utf-8"))
    sentences = spoken["sentences"][:3]
    said = " ".join(sentence["text"] for sentence in sentences)
    end = sentences[-1]["words"][-1]["end_s"] + 0.5
    wav = voice(RECORDINGS / "hello.opus", tmp_path / "hello.wav", end=end)
    with ServerProcess(arguments=SERVE, start_seconds=120.0) as server:
        async with (
            chromium(wav) as browser,
            browser.page(server.address.base_url) as page,
        ):
            await page.click("#toggle")
            await page.until("/tomatoes/.test(document.querySelector('#transcript').innerText)")
            await asyncio.to_thread(server.stop)
            await page.until("document.querySelector('#state').dataset.state == 'lost'")
            await asyncio.to_thread(server.start)
            await page.until(f"/London\\.?$/.test({TURNS}.at(-1).innerText)")
            await page.click("#toggle")
            await page.until("document.querySelector('#state').dataset.state == 'idle'")
            heard = await page.js(f"{TURNS}.map((turn) => turn.innerText.trim()).join(' ')")
            assert word_errors(said, heard).rate <= 0.15, heard
            assert await page.js("document.querySelector('#notice').hidden")
            # The browser itself says that nobody answered, or hung up in the middle of an answer;
            # the page has nothing to add.
            browsers = ("WebSocket connection to ", "Failed to load resource: net::ERR_")
            assert [error for error in page.errors if not error.startswith(browsers)] == []
