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
from starlette.routing import Route, WebSocketRoute

from gateway import browser, health, transcriptions
from gateway.access import Access
from gateway.config import GatewayConfig
from gateway.errors import ApiError, answer_api_error, answer_bug, answer_http_exception
from gateway.metrics import Metrics
from gateway.realtime.endpoint import realtime
from gateway.services import Engine, Services
from gateway.transport import Door
from media.vad import SileroModel

EngineStarter = Callable[[], Awaitable[Engine]]
"""Starts the engine; runs beside the server, which answers `/health` meanwhile."""


def create_app(
    config: GatewayConfig,
    start_engine: EngineStarter,
    *,
    on_start_failure: Callable[[Exception], None] | None = None,
) -> Starlette:
    """The gateway. If the engine cannot start, `on_start_failure` decides what becomes of it."""
    services = Services(
        config=config,
        access=Access(config),
        metrics=Metrics(),
        silero=SileroModel(),
        threads=ThreadPoolExecutor(config.media_threads, thread_name_prefix="media"),
    )

    async def run_engine() -> None:
        try:
            services.engine = await start_engine()
        except Exception as error:
            if on_start_failure is None:
                raise
            on_start_failure(error)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        starting = asyncio.create_task(run_engine())
        try:
            yield
        finally:
            await services.close_sessions()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            if services.engine is not None:
                await services.engine.close()
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
            Route("/v1/models", health.models),
            Route("/v1/models/{id:path}", health.model),
            Route("/health", health.health),
            Route("/ready", health.ready),
            Route("/metrics", health.metrics),
            Route("/", browser.page),
            Route("/{name}", browser.page),
        ],
        middleware=middleware,
        exception_handlers={
            ApiError: answer_api_error,
            HTTPException: answer_http_exception,
            Exception: answer_bug,
        },
        lifespan=lifespan,
    )
    app.state.services = services
    return app
