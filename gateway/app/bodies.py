"""Bodies of requests, bounded in time, and in bytes over all requests. Pure ASGI.

A body that stops coming, or trickles, is given up (408). What has been received and is not done
with is counted, and past the limit whoever sends more is asked to come again (503).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.http.requests import BODY, BodyAccount
from lookhear.gateway.services.services import Services

LEAST_RATE = 8 * 1024  # bytes per second, over the whole body; a telephone line does so much
BODY_TIMEOUT = "body_timeout"
BODIES_FULL = "too_many_bodies"


class BodyMiddleware:
    """clock: of the event loop; only time in which a body is waited for counts."""

    def __init__(
        self, app: ASGIApp, services: Services, clock: Callable[[], float] | None = None
    ) -> None:
        self._app = app
        self._services = services
        self._clock = clock
        self._received = 0  # and not done with, of all requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request read its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        config, refusals = self._services.config, self._services.refusals
        clock = self._clock or asyncio.get_running_loop().time
        account = scope[BODY] = BodyAccount(self._give_back)
        waited, complete = 0.0, False

        async def watched() -> Message:
            nonlocal waited, complete
            if complete:  # what comes next is the end of the connection
                return await receive()
            began = clock()
            left = config.body_seconds + account.received / LEAST_RATE - waited
            try:
                async with asyncio.timeout(min(left, config.body_seconds)):
                    message = await receive()
            except TimeoutError:
                refusals.add(BODY_TIMEOUT)
                raise ApiError(
                    408,
                    f"body: expected it within {config.body_seconds:g} seconds and at least "
                    f"{LEAST_RATE} bytes a second, got {account.received} bytes and then too few",
                    code=BODY_TIMEOUT,
                    type="invalid_request_error",
                ) from None
            waited += clock() - began
            complete = not message.get("more_body", False)
            size = 0 if account.is_closed else len(message.get("body", b""))
            if self._received + size > config.max_bodies_bytes:
                refusals.add(BODIES_FULL)
                why = "the server has as much of other requests as it can hold; try again"
                raise ApiError(503, why, code=BODIES_FULL)
            self._received += size
            account.received += size
            return message

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                account.close()
            await send(message)

        try:
            await self._app(scope, watched, answered)
        finally:
            account.close()

    def _give_back(self, size: int) -> None:
        self._received -= size
        self._services.memory.freed(size)
