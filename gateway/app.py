"""The ASGI application: routes, access, and the engine's life."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Route, WebSocketRoute

from lookhear.gateway import browser, health, transcriptions
from lookhear.gateway.access import Access
from lookhear.gateway.chat.endpoint import chat_completions
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.errors import (
    ApiError,
    answer_api_error,
    answer_bug,
    answer_http_exception,
    answer_hung_up,
)
from lookhear.gateway.lag import LoopLag
from lookhear.gateway.metrics import Metrics
from lookhear.gateway.realtime.endpoint import realtime
from lookhear.gateway.services import LAG_INTERVAL, Engine, Services
from lookhear.gateway.transport import Door
from lookhear.media.voice.silero import SileroModel

Loader = Callable[[], Awaitable[None]]
"""Loads the engine's models; runs beside the server, which answers `/ready` meanwhile."""


def create_app(
    config: GatewayConfig,
    engine: Engine,
    load: Loader,
    *,
    on_load_failure: Callable[[Exception], None] | None = None,
) -> Starlette:
    """The gateway. If `load` fails, `on_load_failure` decides what becomes of it."""
    services = Services(
        config=config,
        engine=engine,
        access=Access(config),
        metrics=Metrics(),
        silero=SileroModel(),
        threads=ThreadPoolExecutor(config.media_threads, thread_name_prefix="media"),
    )

    async def load_models() -> None:
        try:
            await load()
        except Exception as error:
            if on_load_failure is None:
                raise
            on_load_failure(error)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loading = asyncio.create_task(load_models())
        lag = LoopLag(services.observe_lag, LAG_INTERVAL)
        lag.start()
        try:
            yield
        finally:
            lag.stop()
            await services.close_sessions()
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            await engine.close()
            services.threads.shutdown(wait=False, cancel_futures=True)

    middleware = [Middleware(Door, services=services)]
    if config.allow_origins:
        # Outside the door: a browser's preflight carries no key.
        middleware.insert(
            0,
            Middleware(
                CORSMiddleware,
                allow_origins=config.allow_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
                expose_headers=["x-request-id"],
            ),
        )
    app = Starlette(
        routes=[
            WebSocketRoute("/v1/realtime", realtime),
            Route("/v1/audio/transcriptions", transcriptions.transcriptions, methods=["POST"]),
            Route("/v1/audio/translations", transcriptions.translations, methods=["POST"]),
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
            Route("/v1/models", health.models),
            Route("/v1/models/{id:path}", health.model),
            Route("/health", health.health),
            Route("/ready", health.ready),
            Route("/metrics", health.metrics),
            Route("/sample.opus", browser.recording),
            *browser.routes(),
        ],
        middleware=middleware,
        exception_handlers={
            ApiError: answer_api_error,
            HTTPException: answer_http_exception,
            ClientDisconnect: answer_hung_up,
            Exception: answer_bug,
        },
        lifespan=lifespan,
    )
    app.state.services = services
    return app
