"""A collector that takes nothing does not keep the server from ending."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from lookhear.gateway.app import life
from lookhear.gateway.tracing.otlp_metrics import Sending
from tests.gateway.running import PATIENCE, running


class Hanging:
    """A collector that answers when it is told to. asked: by whoever calls it; answered: how
    often."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.answered = 0
        self._released = threading.Event()

    def ask(self) -> None:
        self.asked.release()
        self._released.wait(PATIENCE)
        self.answered += 1

    def release(self) -> None:
        self._released.set()


class Numbers(MetricExporter):
    def __init__(self, collector: Hanging) -> None:
        super().__init__()
        self._collector = collector

    def export(self, *_: Any, **__: Any) -> MetricExportResult:
        self._collector.ask()
        return MetricExportResult.FAILURE

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        self._collector.ask()


class Spans(SpanProcessor):
    def __init__(self, collector: Hanging) -> None:
        self._collector = collector

    def shutdown(self) -> None:
        self._collector.ask()


async def test_a_server_ends_though_its_collector_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "LAST_SECONDS", 0.1)
    collector = Hanging()
    traces = TracerProvider(shutdown_on_exit=False)
    traces.add_span_processor(Spans(collector))
    numbers = partial(Sending, Numbers(collector), Resource({}), 60.0)
    try:
        async with running(traces=traces, numbers=numbers):
            pass
        for _ in range(3):  # numbers, that there are no more, and spans
            assert collector.asked.acquire(timeout=PATIENCE)
        assert not collector.answered
    finally:
        collector.release()
