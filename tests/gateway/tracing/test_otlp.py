"""Where traces go, and that nobody who did not ask for them pays for them."""

from __future__ import annotations

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lookhear.engine.config import ConfigError
from lookhear.gateway.tracing import otlp
from lookhear.gateway.tracing.otlp import tracer_provider


def test_spans_arrive_at_a_collector() -> None:
    got: list[tuple[str, ExportTraceServiceRequest]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            got.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        provider = tracer_provider(f"http://127.0.0.1:{server.server_port}/", {})
        assert provider is not None
        provider.get_tracer("test").start_span("turn").end()
        provider.shutdown()
        server.shutdown()
        thread.join()
    ((path, request),) = got
    (of_server,) = request.resource_spans
    names = {a.key: a.value.string_value for a in of_server.resource.attributes}
    assert path == "/v1/traces" and names["service.name"] == "lookhear"
    assert of_server.scope_spans[0].spans[0].name == "turn"


def test_nobody_asked() -> None:
    assert tracer_provider("", {}) is None


def test_without_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "NEEDED", ("opentelemetry.nothing_of_that_name",))
    with pytest.raises(ConfigError, match=r"lookhear\[telemetry\]"):
        tracer_provider("http://127.0.0.1:4318", {})
    # The variables may be meant for another program.
    assert tracer_provider("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}) is None


def test_the_gateway_imports_none_of_it() -> None:
    program = (
        "import sys, lookhear.gateway.commands.command\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
