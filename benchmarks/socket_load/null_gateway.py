"""The real gateway on a null engine, pinned to one core: what `benchmarks.gateway` measures.

`python -m benchmarks.socket_load.null_gateway JSON` prints `{"port": N}` when it is ready and then,
for each line on its stdin, one JSON line of what happened since the last: event-loop lag, CPU
seconds of the whole process (its threads included), seconds of audio heard.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.socket_load.null_engine import CORES
from lookhear.engine.client.client import EngineClient
from lookhear.engine.config import EngineConfig
from lookhear.gateway.app.app import create_app
from lookhear.gateway.app.server import bind, compute_alone, make_server, run
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.services import Services
from lookhear.gateway.telemetry.lag import LoopLag

LAG_INTERVAL = 0.005  # seconds: finer than the gateway's own, and every value is kept


@dataclass(slots=True)
class Since:
    """What is counted from one report to the next."""

    wall: float
    cpu: float
    heard: float


class Reporter:
    """Prints a report for every line that comes in."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lags: list[float] = []
        self._lag = LoopLag(self._lags.append, LAG_INTERVAL)
        self._since = self._now()

    def start(self) -> None:
        """Watches the loop's lag, and answers lines on stdin."""
        self._lag.start()
        os.set_blocking(sys.stdin.fileno(), False)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._report)

    def _now(self) -> Since:
        heard = self._services.metrics.audio_seconds.labels("realtime")._value.get()
        return Since(self._services.clock(), sum(os.times()[:2]), heard)

    def _report(self) -> None:
        if not os.read(sys.stdin.fileno(), 1024):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            return
        now, then, lags = self._now(), self._since, self._lags.copy()
        self._lags.clear()
        seconds = now.wall - then.wall
        report = {
            "seconds": round(seconds, 3),
            "cpu": round((now.cpu - then.cpu) / seconds, 4),
            "heard_seconds": round(now.heard - then.heard, 3),
            "sessions": len(self._services.sessions),
            "lag_ms": quantiles([lag * 1000 for lag in lags]),
        }
        print(json.dumps(report), flush=True)
        self._since = self._now()


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Mean, p50, p95, p99 and max; empty if there are no values."""
    if not values:
        return {}
    p50, p95, p99 = np.percentile(np.asarray(values), [50, 95, 99])
    numbers = {"mean": np.mean(values), "p50": p50, "p95": p95, "p99": p99, "max": max(values)}
    return {name: round(float(value), 3) for name, value in numbers.items()}


async def serve() -> None:
    """Until it is interrupted."""
    config = GatewayConfig(port=0, max_sessions=100_000, media_workers=2)
    engine = EngineClient([EngineConfig(model="null")], module="benchmarks.socket_load.null_engine")
    with bind("127.0.0.1", 0) as listening:
        listening.listen(4096)

        async def load() -> None:
            await engine.load()
            reporter.start()
            print(json.dumps({"port": listening.getsockname()[1]}), flush=True)

        app = create_app(config, engine, load)
        reporter = Reporter(app.state.services)
        await make_server(app).serve(sockets=[listening])


def main(argv: list[str]) -> int:
    """Serves until it is ended; exit status 0."""
    options = json.loads(argv[0])
    with contextlib.suppress(OSError):  # the core is its alone, as far as may be
        os.nice(-10)
    os.environ[CORES] = ",".join(map(str, options["engine_cores"]))
    compute_alone()
    run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
