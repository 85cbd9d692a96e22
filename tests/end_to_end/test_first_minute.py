"""A newcomer's first minute: a fresh clone, the README's own words and nothing else, a browser that
hears a recorded voice, and its words on the page."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import venv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from lookhear.commands.private_server import free_port
from lookhear.wer import word_errors
from tests.clients.browser.chromium import chromium, executable, voice

ROOT = Path(__file__).parent.parent.parent
RECORDING = ROOT / "tools" / "demo" / "lookhear_demo" / "recordings" / "hello.opus"
START_SECONDS = 240.0
TURNS = "[...document.querySelectorAll('.turn .committed')]"

pytestmark = [
    pytest.mark.skipif(executable() is None, reason="needs Chromium (Debian: chromium)"),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout to clone"),
    pytest.mark.skipif(shutil.which("make") is None, reason="needs make"),
]


def clone(folder: Path) -> Path:
    """The last commit, as `git clone` gives it. -> folder"""
    # Whoever owns the checkout: it is not always who runs the tests.
    settings = folder.with_suffix(".gitconfig")
    settings.write_text("[safe]\n\tdirectory = *\n")
    command = ["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), str(folder)]
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": str(settings)}
    subprocess.run(command, check=True, env=environ)
    return folder


def environment(folder: Path) -> Path:
    """A virtual environment that holds nothing, and finds what is installed where the tests run: as
    if pip, torch and the rest were there before, which takes minutes. -> folder"""
    venv.create(folder)
    place = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", place))
    (packages / "downloaded.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def first_minute(readme: str) -> tuple[str, str, str]:
    """-> the first command of the README, the address to open, the button to press."""
    command = re.search(r"^```sh\n(make demo)\b", readme, re.MULTILINE)
    page = re.search(r"open `(http://\S+)` in a browser, press\s\*\*(.+?)\*\*", readme)
    assert command and page, "the README does not say how to begin"
    return command[1], page[1], page[2]


@asynccontextmanager
async def shell(
    command: str, folder: Path, **variables: str
) -> AsyncIterator[asyncio.StreamReader]:
    """A command as typed into a terminal; at the end Ctrl-C. -> its output"""
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        # Tests that run in the background ignore Ctrl-C, and so would all they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGINT)
        async with asyncio.timeout(120):
            await process.stdout.read()  # until all of them have ended
            await process.wait()


async def test_the_first_minute(tmp_path: Path) -> None:
    project = clone(tmp_path / "lookhear")
    command, address, button = first_minute((project / "README.md").read_text(encoding="utf-8"))
    port = free_port()
    # Not in the README, for the test's sake: another port, no network, no minutes of downloading.
    variables = {
        "PORT": str(port),
        "VENV": str(environment(tmp_path / "venv")),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "OMP_NUM_THREADS": "1",
    }
    sentences = json.loads(RECORDING.with_suffix(".json").read_text(encoding="utf-8"))["sentences"]
    spoken = " ".join(sentence["text"] for sentence in sentences[:2])
    wav = voice(RECORDING, tmp_path / "voice.wav")
    async with shell(command, project, **variables) as output, chromium(wav) as browser:
        seen = []
        async with asyncio.timeout(START_SECONDS):
            async for line in output:
                seen.append(line.decode())
                if "Open http" in seen[-1]:
                    break
        said = "".join(seen)
        opened = re.search(r"Open (http://\S+) and speak", said)
        assert opened, said
        assert opened[1] == address.replace("8000", str(port)), said
        assert "final text" in said, said
        async with browser.page(opened[1]) as page:
            pressed = f"""(() => {{
                const all = [...document.querySelectorAll("button")];
                const it = all.find((one) => one.innerText == {json.dumps(button)});
                if (it.disabled) return false;
                it.click();
                return true;
            }})()"""
            await page.until(pressed)
            await page.until(f"/candles\\.?$/.test({TURNS}[1].textContent)")
            heard = await page.js(
                f"{TURNS}.slice(0, 2).map((turn) => turn.textContent.trim()).join(' ')"
            )
            assert word_errors(spoken, heard).rate <= 0.1, heard
            assert page.errors == []
            assert page.foreign(opened[1]) == []
    assert free_port(port) == port, "the server was left running"
