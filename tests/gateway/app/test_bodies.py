"""Bodies that do not come, or are too many, are given up; those that come are not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from lookhear.gateway.app import bodies
from lookhear.gateway.app.bodies import BodyMiddleware
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.http.requests import done_with_body
from tests.gateway.chatting import URL, client
from tests.gateway.running import PATIENCE, running
from tests.gateway.sockets.test_requests import calling, refused, small

LIMIT = 1024


class Fake:
    """What the middleware needs of the services."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self.refused: list[str] = []
        self.freed_bytes = 0
        self.refusals = self.memory = self

    def add(self, reason: str) -> None:
        self.refused.append(reason)

    def freed(self, size: int) -> None:
        self.freed_bytes += size


class Upload:
    """A request whose body comes when the test says so."""

    def __init__(self, middleware: BodyMiddleware) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.scope: Scope = {"type": "http"}
        self.task = asyncio.ensure_future(middleware(self.scope, self.messages.get, self._send))

    async def _send(self, _: Message) -> None:
        pass

    def bring(self, size: int, more: bool = True) -> None:
        self.messages.put_nowait({"type": "http.request", "body": bytes(size), "more_body": more})


async def reads_all(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await scope["done"].wait()
    await send({"type": "http.response.start", "status": 200, "headers": []})


def made(fake: Fake, app: Any = reads_all, clock: Any = None) -> BodyMiddleware:
    services: Any = fake
    return BodyMiddleware(app, services, clock)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), st.booleans()), max_size=30))
def test_never_more_is_held_than_allowed(script: list[tuple[int, int, bool]]) -> None:
    """And all of it is given back in the end."""

    async def play() -> None:
        fake = Fake(small(max_bodies_bytes=LIMIT))
        middleware = made(fake)
        uploads: dict[int, Upload] = {}
        brought: dict[int, int] = {}
        ended: list[Upload] = []
        for who, size, more in script:
            if who not in uploads:
                uploads[who], brought[who] = Upload(middleware), 0
                uploads[who].scope["done"] = asyncio.Event()
            upload = uploads[who]
            upload.bring(size, more)
            held = middleware._received
            await settle()
            assert middleware._received <= LIMIT
            if upload.task.done():
                assert held + size > LIMIT
                error = upload.task.exception()
                assert isinstance(error, ApiError) and error.status == 503
                del uploads[who]
            elif not more:
                ended.append(uploads.pop(who))
        for upload in (*ended, *uploads.values()):
            upload.scope["done"].set()
            upload.bring(0, more=False)
        outcomes = await asyncio.gather(*(u.task for u in (*ended, *uploads.values())))
        assert not any(outcomes) and middleware._received == 0

    asyncio.run(play())


async def test_what_is_worked_on_is_no_longer_held() -> None:
    """Before the answer, where it is said so."""
    seen: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        seen.append(middleware._received)
        request: Any = type("Request", (), {"scope": scope})
        done_with_body(request)
        seen.append(middleware._received)

    fake = Fake(small())
    middleware = made(fake, app)
    upload = Upload(middleware)
    upload.bring(700, more=False)
    await upload.task
    assert seen == [700, 0] and fake.freed_bytes == 700


class Clock:
    """Goes on by as much as a message took to come."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("rate", "is_fast"), [(bodies.LEAST_RATE * 1.1, True), (100.0, False)])
async def test_a_body_that_trickles_is_given_up(rate: float, is_fast: bool) -> None:
    """Though something always comes in time."""
    clock, fake = Clock(), Fake(small(body_seconds=10.0))
    size, pieces = 4096, 100

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass

    middleware = made(fake, app, clock)
    left = pieces

    async def receive() -> Message:
        nonlocal left
        left -= 1
        clock.now += min(size / rate, 9.0)
        await asyncio.sleep(0)  # as from a socket: a limit that is over is noticed
        return {"type": "http.request", "body": bytes(size), "more_body": left > 0}

    async def send(_: Message) -> None:
        pass

    if is_fast:
        await middleware({"type": "http"}, receive, send)
        assert left == 0 and not fake.refused
    else:
        with pytest.raises(ApiError) as caught:
            await middleware({"type": "http"}, receive, send)
        assert caught.value.status == 408 and fake.refused == ["body_timeout"]
        assert 0 < left < pieces - 1


async def test_a_body_that_stops_coming_is_not_waited_for() -> None:
    """Over a real socket; the connection ends with it."""
    async with running(small(body_seconds=0.05)) as gateway, calling(gateway) as call:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        for path in (b"/v1/chat/completions", b"/v1/audio/transcriptions"):
            asked = head.replace(b"/v1/chat/completions", path)
            kind = b"Content-Type: multipart/form-data; boundary=x\r\n"
            caller = await call(asked + kind + b"Content-Length: 99\r\n\r\n--x")
            status, headers, body = await caller.answer()
            assert status == 408 and headers["connection"] == "close"
            assert b'"code":"body_timeout"' in body
            assert await caller.ended() == b""
        assert refused(gateway, "body_timeout") == 2


async def test_who_would_send_too_much_beside_others_is_told_to_come_again() -> None:
    async with running(small(max_bodies_bytes=30_000)) as gateway, calling(gateway) as call:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        caller = await call(head + b"Content-Length: 99999\r\n\r\n" + bytes(20_000))
        async with asyncio.timeout(PATIENCE), client(gateway) as http:
            while (answer := await http.post(URL, content=bytes(20_000))).status_code != 503:
                assert answer.status_code == 400  # the first one is not read yet
            assert answer.json()["error"]["code"] == "too_many_bodies"
            assert int(answer.headers["retry-after"]) > 0
            caller.writer.close()
            while (answer := await http.post(URL, content=bytes(20_000))).status_code != 400:
                assert answer.status_code == 503  # that it has hung up is not known yet


async def test_who_hangs_up_holds_nothing() -> None:
    fake = Fake(small())

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        raise ClientDisconnect

    middleware = made(fake, app)
    upload = Upload(middleware)
    upload.bring(500)
    upload.messages.put_nowait({"type": "http.disconnect"})
    with pytest.raises(ClientDisconnect):
        await upload.task
    assert middleware._received == 0
