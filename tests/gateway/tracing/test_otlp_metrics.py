"""The numbers of `/metrics` at a collector: the same names, the same values."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.sdk.metrics.export import Histogram
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client import Histogram as PrometheusHistogram

from lookhear.engine.config import ConfigError
from lookhear.gateway.tracing.otlp import INTERVAL, check_tracing, metrics_exporting
from lookhear.gateway.tracing.otlp_metrics import metrics_data
from tests.gateway.files.test_http import wav
from tests.gateway.running import MANUAL, running, tone
from tests.gateway.tracing.collector import Collector, collector


def received(there: Collector) -> tuple[dict[str, str], dict[str, Any]]:
    """The next request: what it says of its sender, and metrics by name."""
    path, body = there.came.get(timeout=60)
    assert path == "/v1/metrics"
    (of_server,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    whose = {a.key: a.value.string_value for a in of_server.resource.attributes}
    (scope,) = of_server.scope_metrics
    return whose, {metric.name: metric for metric in scope.metrics}


def labels(point: Any) -> dict[str, str]:
    return {a.key: a.value.string_value for a in point.attributes}


async def test_what_a_gateway_has_counted_is_sent_at_intervals_and_at_the_end() -> None:
    with collector() as there:
        numbers = metrics_exporting(there.url, {INTERVAL: "20"})
        assert numbers is not None
        async with running(numbers=numbers) as it:
            async with it.client() as client:
                await client.until("session.created")
                await client.update(MANUAL)
                await client.append(tone(2.0))
                await client.send("input_audio_buffer.commit")
                await client.until("transcription.completed")
            async with httpx.AsyncClient(base_url=it.http, trust_env=False, verify=False) as http:
                await http.post("/v1/audio/transcriptions", files={"file": ("a.wav", wav(1.0))})
                scraped = (await http.get("/metrics")).text
            assert "lookhear_draining" in (await asyncio.to_thread(received, there))[1]
        while not there.came.empty():
            whose, last = received(there)
    assert whose["service.name"] == "lookhear" and whose["service.instance.id"]
    (turns,) = last["lookhear_turns"].sum.data_points
    assert labels(turns) == {"outcome": "completed"} and turns.as_double == 1
    assert last["lookhear_turns"].sum.is_monotonic
    assert {labels(p)["model"] for p in last["lookhear_engine_ready"].gauge.data_points}
    waits = last["lookhear_engine_request_wait_seconds"]
    by_kind = {labels(point)["priority"]: point for point in waits.histogram.data_points}
    assert waits.unit == "s" and by_kind["batch"].sum == 2.0
    live = by_kind["live"]
    assert live.count >= 1 and live.sum == 0.25 * live.count
    assert f'wait_seconds_count{{model="fake/whisper",priority="live"}} {live.count}.0' in scraped


@given(st.lists(st.floats(0.0, 10.0), max_size=20))
def test_each_observation_is_between_two_bounds(observed: list[float]) -> None:
    registry, bounds = CollectorRegistry(), [0.5, 1.0, 5.0]
    histogram = PrometheusHistogram("h", "", registry=registry, buckets=bounds)
    for number in observed:
        histogram.observe(number)
    (of_server,) = metrics_data(registry.collect(), Resource({}), 1, 2).resource_metrics
    ((metric,),) = [scope.metrics for scope in of_server.scope_metrics]
    assert isinstance(metric.data, Histogram)
    (point,) = metric.data.data_points
    edges = [-1.0, *bounds, float("inf")]
    assert list(point.bucket_counts) == [
        sum(low < number <= high for number in observed)
        for low, high in zip(edges, edges[1:], strict=False)
    ]
    assert point.count == len(observed) and list(point.explicit_bounds) == bounds
    assert point.sum == pytest.approx(sum(observed))


def test_an_engine_that_ended_has_no_numbers() -> None:
    registry = CollectorRegistry()
    ready = Gauge("ready", "", ["replica"], registry=registry)
    ready.labels("1").set(1.0)
    ready.labels("2").set(math.nan)
    (of_server,) = metrics_data(registry.collect(), Resource({}), 1, 2).resource_metrics
    ((metric,),) = [scope.metrics for scope in of_server.scope_metrics]
    assert [point.attributes for point in metric.data.data_points] == [{"replica": "1"}]


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:4318", ""])
def test_an_interval_that_is_none_is_refused_at_the_start(endpoint: str) -> None:
    asked = {INTERVAL: "soon", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    with pytest.raises(ConfigError, match=f"{INTERVAL}: expected milliseconds"):
        check_tracing(endpoint, asked)
    check_tracing(endpoint, {**asked, "OTEL_METRICS_EXPORTER": "none"})
    check_tracing("", {INTERVAL: "soon"})
