"""The ASGI application: routes, access, and the engine's life."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Route, WebSocketRoute

from lookhear.gateway.app import browser, health
from lookhear.gateway.app.middleware import AccessMiddleware
from lookhear.gateway.chat.endpoint import chat_completions
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.files import transcriptions
from lookhear.gateway.http.access import Access
from lookhear.gateway.http.errors import (
    ApiError,
    answer_api_error,
    answer_bug,
    answer_http_exception,
    answer_hung_up,
)
from lookhear.gateway.realtime.dialects import DIALECTS
from lookhear.gateway.realtime.protocol.dialect import Dialect
from lookhear.gateway.realtime.session.endpoint import serve
from lookhear.gateway.services.services import LAG_INTERVAL, Engine, Services
from lookhear.gateway.telemetry.lag import LoopLag
from lookhear.gateway.telemetry.metrics import Metrics
from lookhear.media.voice.silero import SileroModel

Loader = Callable[[], Awaitable[None]]
"""Loads the engine's models; runs beside the server, which answers `/ready` meanwhile."""


def create_app(
    config: GatewayConfig,
    engine: Engine,
    load: Loader,
    *,
    on_load_failure: Callable[[Exception], None] | None = None,
    dialects: Sequence[type[Dialect]] = DIALECTS,
) -> Starlette:
    """The gateway. If `load` fails, `on_load_failure` decides what becomes of it. dialects: of
    realtime sessions; of those on one path the first greets."""
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

    # Outside the door: a browser's preflight carries no key.
    preflight = Middleware(
        CORSMiddleware,
        allow_origins=config.allow_origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["x-request-id"],
    )
    door = Middleware(AccessMiddleware, services=services)
    app = Starlette(
        routes=[
            *_realtime_routes(dialects),
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
        middleware=[preflight, door] if config.allow_origins else [door],
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


def _realtime_routes(dialects: Sequence[type[Dialect]]) -> list[WebSocketRoute]:
    paths: dict[str, list[type[Dialect]]] = {}
    for dialect in dialects:
        paths.setdefault(dialect.path, []).append(dialect)
    return [WebSocketRoute(path, partial(serve, dialects=paths[path])) for path in paths]
