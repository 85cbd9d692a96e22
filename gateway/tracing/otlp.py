"""Where spans and numbers go: to a collector, by OTLP over HTTP. The libraries come with
`lookhear[telemetry]`.

Sampling, batching, headers and resource attributes are the OTEL_* variables of the SDK.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lookhear.engine.config import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    from lookhear.gateway.tracing.otlp_metrics import Exporting

NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.instrumentation.asgi")
TRACES_PATH = "/v1/traces"
INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"  # a variable: milliseconds
_URL = re.compile(r"https?://[^/\s]+(/\S*)?$", re.IGNORECASE)


def tracer_provider(
    endpoint: str, environ: Mapping[str, str] = os.environ
) -> TracerProvider | None:
    """endpoint: base URL of a collector; "": as the environment says, and None if it says nothing.

    ConfigError: see `check_tracing`.
    """
    if not is_wanted("traces", endpoint, environ):
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource(environ))
    url = endpoint.rstrip("/") + TRACES_PATH if endpoint else None
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    return provider


def metrics_exporting(endpoint: str, environ: Mapping[str, str] = os.environ) -> Exporting | None:
    """See `otlp_metrics.exporting`. Nothing of it is imported where nobody asked for it."""
    if not is_wanted("metrics", endpoint, environ):
        return None
    from lookhear.gateway.tracing.otlp_metrics import exporting

    return exporting(endpoint, resource(environ), _interval(environ))


def is_wanted(signal: str, endpoint: str, environ: Mapping[str, str]) -> bool:
    """signal: traces or metrics. Raises ConfigError: see `check_tracing`."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    is_off = environ.get(f"OTEL_{signal.upper()}_EXPORTER") == "none"
    if is_off or not (endpoint or any(environ.get(name) for name in names)):
        return False
    _check_endpoint(endpoint)
    return _is_installed()  # the variables may be meant for somebody else


def resource(environ: Mapping[str, str]) -> Resource:
    """Whose they are. What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say wins."""
    from opentelemetry.sdk.resources import Resource

    return Resource.create({"service.name": environ.get("OTEL_SERVICE_NAME") or "lookhear"})


def check_tracing(endpoint: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raises ConfigError if it is wanted by option and is no URL, or the libraries are not
    installed; or if numbers are to be sent at intervals that are none."""
    _check_endpoint(endpoint)
    if is_wanted("metrics", endpoint, environ):
        _interval(environ)


def _check_endpoint(endpoint: str) -> None:
    if endpoint and not _URL.match(endpoint):
        raise ConfigError(f"otlp-endpoint: expected http(s)://HOST[:PORT], got {endpoint!r}")
    if endpoint and not _is_installed():
        raise ConfigError(
            'otlp-endpoint: traces need pip install "lookhear[telemetry]", which is not installed'
        )


def _interval(environ: Mapping[str, str]) -> float:
    """Seconds. Raises ConfigError."""
    text = environ.get(INTERVAL) or "60000"
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{INTERVAL}: expected milliseconds, a whole number, got {text!r}")
    return int(text) / 1000


def _is_installed() -> bool:
    try:
        return all(importlib.util.find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # not even the package above it
        return False
