"""Where a server has keys, who has none gets nothing but what is open: over all that is served."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import pytest_asyncio
from starlette.routing import BaseRoute, Route, WebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from lookhear.gateway.app.browser import ROOMS
from lookhear.gateway.config import GatewayConfig
from tests.gateway.chatting import client
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "sesame-open"
OPEN = ["/", "/health", "/ready"]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
FILES = [f"{folder}{{name:page_file}}" for folder in ("/", *(f"/{room}/" for room in ROOMS))]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keyed() -> AsyncIterator[Running]:
    config = GatewayConfig(port=0, api_keys=(KEY,))
    async with running(config, FakeEngine(sees=True)) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def http(keyed: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with client(keyed) as it:
        yield it


def paths(routes: list[BaseRoute], kind: type[Route | WebSocketRoute]) -> Iterator[str]:
    """With a name in each place that wants one."""
    for route in routes:
        assert isinstance(route, Route | WebSocketRoute), "another kind of route: is it looked at?"
        if isinstance(route, kind):
            yield re.sub(r"{[^}]*}", "something", route.path)


async def test_no_route_is_served_without_a_key(keyed: Running, http: httpx.AsyncClient) -> None:
    served = [path for path in paths(keyed.app.routes, Route) if path not in OPEN]
    assert {"/v1/chat/completions", "/rerank", "/metrics", "/something"} < {*served}
    for path in [*served, *(f"{path}/" for path in served), "/metrics%0A", "/rerank%0A"]:
        for method in METHODS:
            for headers in ({}, {"authorization": "Bearer wrong"}):
                answer = await http.request(method, path, headers=headers)
                assert answer.status_code == 401, (method, path, answer.text)
            headers = {"authorization": f"Bearer {KEY}"}
            answer = await http.request(method, path, headers=headers)
            assert answer.status_code != 401, (method, path, answer.text)


async def test_no_socket_is_opened_without_a_key(keyed: Running) -> None:
    served = [*paths(keyed.app.routes, WebSocketRoute)]
    assert {"/v1/realtime", "/something"} < {*served}
    for path in served:
        with pytest.raises(InvalidStatus) as raised:
            async with connect(f"ws://127.0.0.1:{keyed.port}{path}", proxy=None):
                pass
        answer = raised.value.response
        error = json.loads(answer.body or b"")
        nowhere = path == "/something"  # where there is nothing to keep anybody out of
        assert answer.status_code == (404 if nowhere else 401), (path, error)


async def test_health_and_the_page_are_open(keyed: Running, http: httpx.AsyncClient) -> None:
    templates = {route.path for route in keyed.app.routes if isinstance(route, Route)}
    assert templates.issuperset([*OPEN, *FILES, "/recordings/{name}"])
    files = ["index.html", "app.js", "style.css", "icon.svg", "chat/chat.js", "chat/chat.css"]
    files += ["media/audio.js", "session/session.js", "shared/dom.js", "transcript/speech.js"]
    recordings = ["recordings/kennedy.opus", "recordings/hello.opus"]
    for path in [*OPEN, *(f"/{name}" for name in [*files, *recordings])]:
        assert (await http.get(path)).status_code == 200, path
