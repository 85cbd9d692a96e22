"""What runs beside the server, from its first connection to its last."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from lookhear.gateway.services.services import LAG_INTERVAL, Services
from lookhear.gateway.services.turn_model import turn_model
from lookhear.gateway.telemetry.lag import LoopLag
from lookhear.gateway.tracing.goodbye import LAST_SECONDS, apart

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from lookhear.gateway.tracing.otlp_metrics import Exporting


@contextlib.asynccontextmanager
async def alive(
    services: Services,
    load: Callable[[], Coroutine[Any, Any, None]],
    traces: TracerProvider | None,
    numbers: Exporting | None,
) -> AsyncIterator[None]:
    """Models are loaded, lateness is watched, numbers are sent. Afterwards all has ended: sessions
    first, then what they are served by."""
    loading = asyncio.create_task(load())
    stop = threading.Event()
    model = partial(turn_model, services.config.turn_model, stop)
    listening = asyncio.create_task(services.turn_ends.load(model))
    lag = LoopLag(services.observe_lag, LAG_INTERVAL)
    lag.start()
    sending = None
    if numbers is not None:
        sending = numbers(services.metrics.registry, services.see_engines)
    try:
        yield
    finally:
        lag.stop()
        stop.set()
        await services.close_sessions()
        left = LAST_SECONDS
        if sending is not None:
            left = await sending.close(left)
        loading.cancel()
        listening.cancel()
        services.turn_ends.close()
        await asyncio.gather(loading, listening, return_exceptions=True)
        await services.engine.close()
        services.memory.close()
        if traces is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await apart(traces.shutdown)  # what is not sent yet
        await services.decoders.close()
        for executor in (services.hearing, services.threads):
            executor.shutdown(wait=False, cancel_futures=True)
