"""examples/browser_key.py and its page: run as they are printed, but for the ports."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lookhear.commands.private_server import ServerProcess, free_port
from tests.clients.browser.chromium import chromium, executable
from tests.end_to_end.conftest import SERVE

EXAMPLES = Path(__file__).parents[2] / "examples"
RULES = "Answer about pictures only."
OPENED = "document.querySelector('#answer').dataset.rules"


@pytest.fixture
def page_port(tmp_path: Path) -> Iterator[int]:
    """Of the example, which serves its page in front of a server that needs a key."""
    own = free_port()
    arguments = ["--model", "demo-qwen3-vl", "--api-key", "secret", *SERVE]
    arguments += ["--allow-origin", f"http://127.0.0.1:{own}"]
    with ServerProcess(arguments=arguments, start_seconds=120.0) as server:
        for name in ("browser_key.py", "browser_key.html"):
            text = (EXAMPLES / name).read_text("utf-8").replace(":8000", f":{server.port}")
            (tmp_path / name).write_text(text.replace("9000", str(own)), "utf-8")
        environment = os.environ | {"LOOKHEAR_API_KEY": "secret", "NO_PROXY": "127.0.0.1"}
        example = subprocess.Popen([sys.executable, tmp_path / "browser_key.py"], env=environment)
        try:
            yield own
        finally:
            example.terminate()
            example.wait()


async def listening(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0)
                continue
            with closing(writer):
                return


async def test_the_page_asks_under_its_own_key(page_port: int) -> None:
    if executable() is None:
        pytest.skip("needs a Chromium")
    await listening(page_port)
    async with (
        chromium() as browser,
        browser.page(f"http://127.0.0.1:{page_port}/") as page,
    ):
        await page.until(f"{OPENED} !== undefined")
        assert await page.js(OPENED) == RULES
        await page.type("#question", "What colour is the circle?")
        await page.click("button")
        await page.until("document.querySelector('#answer').innerText.endsWith('.')")
        assert await page.text("#answer") == "I see no picture."
