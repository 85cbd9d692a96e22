"""Where traces go, and that nobody who did not ask for them pays for them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lookhear.engine.config import ConfigError
from lookhear.gateway.tracing import otlp
from lookhear.gateway.tracing.otlp import metrics_exporting, tracer_provider
from tests.gateway.tracing.collector import collector


def test_spans_arrive_at_a_collector() -> None:
    with collector() as there:
        provider = tracer_provider(there.url, {})
        assert provider is not None
        provider.get_tracer("test").start_span("turn").end()
        provider.shutdown()
    path, body = there.came.get_nowait()
    (of_server,) = ExportTraceServiceRequest.FromString(body).resource_spans
    names = {a.key: a.value.string_value for a in of_server.resource.attributes}
    assert path == "/v1/traces" and names["service.name"] == "lookhear"
    assert of_server.scope_spans[0].spans[0].name == "turn" and there.came.empty()


def test_nobody_asked() -> None:
    assert tracer_provider("", {}) is None and metrics_exporting("", {}) is None


def test_each_of_the_two_can_be_switched_off() -> None:
    url = "http://127.0.0.1:4318"
    off = {"OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": url}
    assert metrics_exporting("", off) is None and metrics_exporting(url, off) is None
    provider = tracer_provider("", off)
    assert provider is not None
    provider.shutdown()
    assert tracer_provider(url, {"OTEL_TRACES_EXPORTER": "none"}) is None


@pytest.mark.parametrize("text", ["true", "True", "TRUE"])
def test_both_can_be_switched_off_together(text: str) -> None:
    off = {"OTEL_SDK_DISABLED": text}
    assert tracer_provider("http://127.0.0.1:4318", off) is None
    assert metrics_exporting("http://127.0.0.1:4318", off) is None


def test_without_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "NEEDED", ("opentelemetry.nothing_of_that_name",))
    with pytest.raises(ConfigError, match=r"lookhear\[telemetry\]"):
        tracer_provider("http://127.0.0.1:4318", {})
    with pytest.raises(ConfigError, match=r"lookhear\[telemetry\]"):
        metrics_exporting("http://127.0.0.1:4318", {})
    # The variables may be meant for another program.
    assert tracer_provider("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}) is None


@pytest.mark.parametrize("endpoint", ["x", "127.0.0.1:4318", "grpc://a:4317", "http://", "http:"])
def test_what_is_no_url_is_refused_at_the_start(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"otlp-endpoint: expected http\(s\)://HOST"):
        otlp.check_tracing(endpoint)


def test_the_gateway_imports_none_of_it() -> None:
    program = (
        "import sys, lookhear.gateway.commands.command\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
