"""The ASGI application: what is around its routes, and these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Scope

from lookhear.gateway.adapters.endpoint import adapter_routes
from lookhear.gateway.app import browser, health, models
from lookhear.gateway.app.bodies import BodyMiddleware
from lookhear.gateway.app.encodings import EncodedBodies
from lookhear.gateway.app.life import alive
from lookhear.gateway.app.middleware import AccessMiddleware
from lookhear.gateway.app.slashes import TrailingSlashes
from lookhear.gateway.app.wording import ErrorWording, Words
from lookhear.gateway.chat.messages import errors
from lookhear.gateway.chat.routes import chat_routes
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.decoding.decoder import Limits
from lookhear.gateway.decoding.decoders import Decoders
from lookhear.gateway.deepgram import shapes
from lookhear.gateway.files import transcriptions
from lookhear.gateway.files.listen import listen
from lookhear.gateway.http.access import Access
from lookhear.gateway.http.errors import (
    ApiError,
    answer_api_error,
    answer_bug,
    answer_http_exception,
    answer_hung_up,
)
from lookhear.gateway.http.notes import ANSWERED_BY, IGNORED
from lookhear.gateway.pooling.routes import pooling_routes
from lookhear.gateway.realtime.channels import serve_channels
from lookhear.gateway.realtime.deepgram.dialect import DeepgramDialect
from lookhear.gateway.realtime.dialects import DIALECTS
from lookhear.gateway.realtime.openai.client_secrets import client_secrets
from lookhear.gateway.realtime.protocol.dialect import Dialect
from lookhear.gateway.realtime.session.endpoint import serve, serve_nowhere, serve_plain
from lookhear.gateway.services.engine import Engine
from lookhear.gateway.services.services import Services
from lookhear.gateway.services.siblings import Siblings
from lookhear.gateway.telemetry.metrics import Metrics
from lookhear.media.voice.silero import SileroModel

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from lookhear.gateway.tracing.otlp_metrics import Exporting

LISTEN = "/v1/listen"
MODELS = "/v1/models"
DEEPGRAM = (LISTEN, "/v2/listen")  # whose errors are worded as Deepgram's
THREADS = 2  # for messages that are too large for the event loop, and for files of our own

Loader = Callable[[], Awaitable[None]]
"""Loads the engine's models; runs beside the server, which answers `/ready` meanwhile."""


def create_app(
    config: GatewayConfig,
    engine: Engine,
    load: Loader,
    *,
    on_load_failure: Callable[[Exception], None] | None = None,
    dialects: Sequence[type[Dialect]] = DIALECTS,
    traces: TracerProvider | None = None,
    numbers: Exporting | None = None,
    siblings: Siblings | None = None,
) -> Starlette:
    """The gateway. If `load` fails, `on_load_failure` decides what becomes of it. dialects: of
    realtime sessions; of those on one path the first greets. traces: where spans go. numbers:
    begins to send metrics. siblings: if it is one of several workers."""
    middleware: list[Middleware] = []
    if traces is not None:
        # An extra: nothing of it is imported where nobody asked for it.
        from lookhear.gateway.tracing.requests import TracedRequests
        from lookhear.gateway.tracing.spans import TracedEngine

        engine = TracedEngine(engine, traces.get_tracer("lookhear"))
        middleware.append(Middleware(TracedRequests, traces))
    services = _services(config, engine, siblings or Siblings())

    async def load_models() -> None:
        try:
            await load()
        except Exception as error:
            if on_load_failure is None:
                raise
            on_load_failure(error)

    routes = _routes(services, dialects)
    app = Starlette(
        routes=routes,
        middleware=[*middleware, *_middleware(services, routes)],
        exception_handlers={
            ApiError: answer_api_error,
            HTTPException: answer_http_exception,
            ClientDisconnect: answer_hung_up,
            Exception: answer_bug,
        },
        lifespan=lambda _: alive(services, load_models, traces, numbers),
    )
    app.state.services = services
    app.router.redirect_slashes = False
    return app


def _services(config: GatewayConfig, engine: Engine, siblings: Siblings) -> Services:
    metrics, begun = Metrics(siblings.metrics), siblings.credentials
    limits = Limits(config.media_memory_bytes, config.media_seconds)
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="gateway")
    return Services(
        config=config,
        engine=engine,
        access=Access(config, siblings.signer, None if begun is None else begun.keys),
        metrics=metrics,
        silero=SileroModel(),
        decoders=Decoders(config.media_workers, limits, metrics, threads),
        hearing=ThreadPoolExecutor(1, thread_name_prefix="hearing"),
        threads=threads,
        siblings=siblings,
    )


def _middleware(services: Services, routes: Sequence[BaseRoute]) -> list[Middleware]:
    """From outside to inside."""
    config = services.config
    # Outside the door: a browser's preflight carries no key.
    preflight = Middleware(
        CORSMiddleware,
        allow_origins=[origin.lower() for origin in config.allow_origins],  # as browsers say them
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=["x-request-id", "request-id", "retry-after", ANSWERED_BY, IGNORED],
    )
    words = (
        Words(_is_deepgrams, shapes.denial),
        Words(errors.is_theirs, errors.denial, request_id="request-id"),
    )
    known = {route.path for route in routes if isinstance(route, Route)}
    inside = [
        Middleware(TrailingSlashes),
        Middleware(ErrorWording, words),
        Middleware(AccessMiddleware, services=services, paths=known),
        Middleware(EncodedBodies),
        Middleware(BodyMiddleware, services),
    ]
    return [*([preflight] if config.allow_origins else []), *inside]


def _is_deepgrams(scope: Scope) -> bool:
    path = scope["path"]
    is_shared = path == MODELS or path.startswith(f"{MODELS}/")
    return path in DEEPGRAM or (is_shared and shapes.is_theirs(Headers(scope=scope)))


def _routes(services: Services, dialects: Sequence[type[Dialect]]) -> list[BaseRoute]:
    return [
        Route("/v1/audio/transcriptions", transcriptions.transcriptions, methods=["POST"]),
        Route("/v1/audio/translations", transcriptions.translations, methods=["POST"]),
        Route(LISTEN, listen, methods=["POST"]),
        *chat_routes(services),
        *pooling_routes(),
        *adapter_routes(),
        Route("/v1/realtime/client_secrets", client_secrets, methods=["POST"]),
        Route(MODELS, models.models),
        Route(f"{MODELS}/{{id:path}}", models.model),
        Route("/health", health.health),
        Route("/ready", health.ready),
        Route("/metrics", health.metrics),
        Route("/recordings/{name}", browser.recording),
        # Behind those whose methods a path has, too, so that another method is told of them.
        *_realtime_routes(dialects),
        *browser.routes(),
    ]


def _realtime_routes(dialects: Sequence[type[Dialect]]) -> list[BaseRoute]:
    paths: dict[str, list[type[Dialect]]] = {}
    for dialect in dialects:
        paths.setdefault(dialect.path, []).append(dialect)
    ways = {path: serve_channels if path == DeepgramDialect.path else serve for path in paths}
    sockets = [WebSocketRoute(path, partial(ways[path], dialects=paths[path])) for path in paths]
    sockets.append(WebSocketRoute("/{path:path}", partial(serve_nowhere, paths=sorted(paths))))
    return [*sockets, *(Route(path, serve_plain) for path in paths)]
