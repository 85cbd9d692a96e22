"""A headless Chromium, driven over the DevTools protocol, with a fake microphone and camera.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import tempfile
import wave
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from lookhear.media.audio.decode import iter_audio
from tests.media.audio.encoders import encode_pcm16

END_SECONDS = 10.0  # that it may take to end
PATIENCE = 120.0  # seconds after which something missing is a failure
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --mute-audio "
    "--disable-dev-shm-usage --autoplay-policy=no-user-gesture-required --lang=en-US "
    "--use-fake-device-for-media-stream --use-fake-ui-for-media-stream --remote-debugging-port=0"
)


def executable() -> str | None:
    """Where a Chromium is, None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def voice(
    recording: Path,
    wav: Path,
    *,
    before: float = 0.5,
    after: float = 4.0,
    end: float | None = None,
) -> Path:
    """A recording, or its part up to `end` (seconds), as the microphone hears it, with seconds of
    silence around. -> wav, written."""
    rate = 48_000
    quiet = [np.zeros(round(seconds * rate), np.float32) for seconds in (before, after)]
    said = np.concatenate(list(iter_audio(recording, 10.0, rate)))
    said = said[: None if end is None else round(end * rate)]
    samples = np.concatenate([quiet[0], said, quiet[1]])
    with wave.open(str(wav), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(encode_pcm16(samples))
    return wav


class Page:
    """One tab. errors: what its console complained of, and exceptions nobody caught. requests: the
    addresses of everything that it asked the network for."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._news = asyncio.Event()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.call(method, self._session, **params)

    async def js(self, expression: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        answer = await self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            userGesture=True,
            returnByValue=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until a JavaScript condition holds. What is null until then may be used in it."""
        wait = f"""new Promise((done) => {{
            const end = performance.now() + {1000 * PATIENCE};
            const holds = () => {{ try {{ return {condition}; }} catch {{ return false; }} }};
            const look = () => {{
              if (holds()) done(true);
              else if (performance.now() > end) done(false);
              else setTimeout(look, 20);
            }};
            look();
        }})"""
        if not await self.js(wait):
            seen = await self.js("document.body.innerText")
            raise AssertionError(f"{condition} did not come; {self.errors}; the page:\n{seen}")

    async def until_errors(self, count: int) -> None:
        """Wait until the console has complained so often: it does so behind what caused it."""
        async with asyncio.timeout(PATIENCE):
            while len(self.errors) < count:
                self._news.clear()
                await self._news.wait()

    async def text(self, selector: str) -> str:
        found: str = await self.js(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    async def click(self, selector: str) -> None:
        await self.until(f"!document.querySelector({json.dumps(selector)}).disabled")
        await self.js(f"document.querySelector({json.dumps(selector)}).click()")

    async def type(self, selector: str, text: str) -> None:
        await self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        await self.call("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    async def press_tab(self) -> str:
        """-> the id of the element that has the keyboard then"""
        tab = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **tab)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **tab)
        focused: str = await self.js("document.activeElement.id")
        return focused

    async def drop(self, *files: Path) -> None:
        """Files from outside, let go over the middle of the page."""
        data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
        for step in ("dragEnter", "dragOver", "drop"):
            await self.call("Input.dispatchDragEvent", type=step, x=300, y=300, data=data)

    async def choose_files(self, selector: str, *files: Path) -> None:
        root = await self.call("DOM.getDocument")
        node = await self.call(
            "DOM.querySelector", nodeId=root["root"]["nodeId"], selector=selector
        )
        await self.call(
            "DOM.setFileInputFiles", files=[str(file) for file in files], nodeId=node["nodeId"]
        )

    async def resize(self, width: int, height: int, *, is_phone: bool = False) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if is_phone else 1,
            mobile=is_phone,
        )

    async def set_dark(self, is_dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def screenshot(self, path: Path) -> None:
        shot = await self.call("Page.captureScreenshot")
        path.write_bytes(base64.b64decode(shot["data"]))

    def hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(json.dumps(params["args"])[:500])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(params["url"])
        self._news.set()

    def foreign(self, url: str) -> list[str]:
        """Requests to others than the server of this address, and what the page holds itself."""
        hosts = {urlsplit(url).netloc, ""}
        return [request for request in self.requests if urlsplit(request).netloc not in hosts]


class Browser:
    """One process with its tabs. saved: names of files that were downloaded, see `save_in`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._saving: dict[str, str] = {}
        self.saved: asyncio.Queue[str] = asyncio.Queue()

    async def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps(message))
        async with asyncio.timeout(PATIENCE + 10):
            result: dict[str, Any] = await answer
            return result

    async def read(self) -> None:
        async for frame in self._socket:
            message = json.loads(frame)
            if "id" in message:
                answer = self._answers.pop(message["id"])
                if answer.done():
                    continue
                if "error" in message:
                    answer.set_exception(RuntimeError(str(message["error"])))
                else:
                    answer.set_result(message["result"])
            elif (page := self._pages.get(message.get("sessionId", ""))) is not None:
                page.hear(message["method"], message["params"])
            elif message["method"] == "Browser.downloadWillBegin":
                self._saving[message["params"]["guid"]] = message["params"]["suggestedFilename"]
            elif message["method"] == "Browser.downloadProgress":
                if message["params"]["state"] == "completed":
                    self.saved.put_nowait(self._saving[message["params"]["guid"]])

    async def save_in(self, folder: Path) -> None:
        """Downloads go there."""
        await self.call(
            "Browser.setDownloadBehavior",
            behavior="allow",
            downloadPath=str(folder),
            eventsEnabled=True,
        )

    @contextlib.asynccontextmanager
    async def page(self, url: str, *, width: int = 1200, height: int = 800) -> AsyncIterator[Page]:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log", "DOM", "Network"):
            await page.call(f"{domain}.enable")
        await page.resize(width, height)
        await page.call("Page.navigate", url=url)
        try:
            await page.until("document.readyState === 'complete'")
            yield page
        finally:
            await self.call("Target.closeTarget", targetId=target["targetId"])


@contextlib.asynccontextmanager
async def chromium(
    microphone: Path | None = None, camera: Path | None = None
) -> AsyncIterator[Browser]:
    """microphone: a WAV file of what it hears, once from the start whenever it is opened.
    camera: a .y4m or .mjpeg file of what it shows, again and again."""
    path = executable()
    assert path is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [*QUIET.split(), f"--user-data-dir={profile}"]
        if microphone is not None:
            options.append(f"--use-file-for-fake-audio-capture={microphone}%noloop")
        if camera is not None:
            options.append(f"--use-file-for-fake-video-capture={camera}")
        async with _running([path, *options, "about:blank"]) as stderr:
            async with connect(
                await _address(stderr),
                proxy=None,
                max_size=None,
                open_timeout=PATIENCE,
                ping_interval=None,  # a browser may be busy
            ) as socket:
                browser = Browser(socket)
                draining = asyncio.create_task(_drain(stderr))
                reading = asyncio.create_task(browser.read())
                try:
                    yield browser
                finally:
                    reading.cancel()
                    draining.cancel()
                    await asyncio.wait({reading, draining})


@contextlib.asynccontextmanager
async def _running(command: list[str]) -> AsyncIterator[asyncio.StreamReader]:
    """-> its stderr"""
    # A pipe of our own, to be closed when the process has ended: its children may hold it open.
    reading, writing = os.pipe()
    stderr = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stderr), os.fdopen(reading, "rb", 0)
    )
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.DEVNULL, stderr=writing
            )
        finally:
            os.close(writing)
        try:
            yield stderr
        finally:
            if process.returncode is None:
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), END_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
    finally:
        pipe.close()


async def _address(stderr: asyncio.StreamReader) -> str:
    """Where its DevTools listen: it says so when it is up."""
    async with asyncio.timeout(PATIENCE):
        async for line in stderr:
            _, found, address = line.decode(errors="replace").partition("DevTools listening on ")
            if found:
                return address.strip()
    raise AssertionError("Chromium ended before its DevTools listened")


async def _drain(stderr: asyncio.StreamReader) -> None:
    async for _ in stderr:
        pass
