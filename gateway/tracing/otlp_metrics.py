"""The numbers of `/metrics`, by OTLP: the same registry, read every minute and sent.

OTEL_METRIC_EXPORT_INTERVAL and the other variables of the SDK hold. Of several workers each sends
its own, as a service instance of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from lookhear.gateway.tracing.goodbye import apart

METRICS_PATH = "/v1/metrics"


class Sending:
    """A task on the running event loop. refresh: brings the registry up to date. interval: seconds.
    The SDK's own reader sends nothing but what its own instruments have."""

    def __init__(
        self,
        exporter: MetricExporter,
        whose: Resource,
        interval: float,
        registry: CollectorRegistry,
        refresh: Callable[[], None],
    ) -> None:
        self._exporter, self._interval = exporter, interval
        self._registry, self._refresh = registry, refresh
        self._whose = whose.merge(Resource({"service.instance.id": str(uuid.uuid4())}))
        self._began = time.time_ns()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self._send()

    async def _send(self) -> None:
        self._refresh()
        data = metrics_data(self._registry.collect(), self._whose, self._began, time.time_ns())
        await apart(partial(self._exporter.export, data))  # it says itself what goes wrong

    async def close(self, seconds: float) -> float:
        """Behind the last numbers, or when the time is up; how many seconds are left."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for last in (self._send, partial(apart, self._exporter.shutdown)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await last()
        return max(0.0, end - clock())


Exporting = Callable[[CollectorRegistry, Callable[[], None]], Sending]
"""Begins to send a registry's numbers; told what brings them up to date."""


def exporting(endpoint: str, whose: Resource, interval: float) -> Exporting:
    """endpoint: base URL of a collector; "": as the environment says. interval: seconds."""
    url = endpoint.rstrip("/") + METRICS_PATH if endpoint else None
    return partial(Sending, OTLPMetricExporter(endpoint=url), whose, interval)


def metrics_data(families: Iterable[Family], whose: Resource, began: int, now: int) -> MetricsData:
    """began, now: Unix nanoseconds. Names are those of `/metrics`, less what Prometheus puts behind
    those of counters; numbers are since the start."""
    metrics = [
        Metric(family.name, family.documentation, _unit(family.name), data)
        for family in families
        if (data := _data(family, began, now)) is not None
    ]
    scope = ScopeMetrics(InstrumentationScope("lookhear"), metrics, "")
    return MetricsData([ResourceMetrics(whose, [scope], "")])


def _unit(name: str) -> str:
    return "s" if name.endswith("_seconds") else "By" if name.endswith("_bytes") else "1"


def _data(family: Family, began: int, now: int) -> Sum | Gauge | Histogram | None:
    """None: there is no number yet."""
    cumulative = AggregationTemporality.CUMULATIVE
    if family.type == "histogram":
        points = _histograms(family.samples, began, now)
        return Histogram(points, cumulative) if points else None
    name = family.name + ("_total" if family.type == "counter" else "")
    numbers = [
        NumberDataPoint(dict(sample.labels), began, now, sample.value)
        for sample in family.samples
        if sample.name == name and not math.isnan(sample.value)  # of an engine that ended
    ]
    if not numbers:
        return None
    return Sum(numbers, cumulative, True) if family.type == "counter" else Gauge(numbers)


def _histograms(samples: Iterable[Sample], began: int, now: int) -> list[HistogramDataPoint]:
    """One for each set of labels. Prometheus counts what is below each bound, OTLP what is between
    two of them."""
    found: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for sample in samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        held = found.setdefault(tuple(labels.items()), {"labels": labels, "below": {}})
        if sample.name.endswith("_bucket"):
            held["below"][float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            held["sum"] = sample.value
    points = []
    for held in found.values():
        bounds = sorted(held["below"])
        below = [round(held["below"][bound]) for bound in bounds]
        between = [high - low for low, high in zip([0, *below], below, strict=False)]
        point = HistogramDataPoint(
            held["labels"], began, now, below[-1], held["sum"], between, bounds[:-1],
            None, None,  # type: ignore[arg-type]  # the least and the greatest are not known
        )  # fmt: skip
        points.append(point)
    return points
