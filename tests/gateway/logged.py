"""What the gateway logged, by the name of the event."""

from __future__ import annotations

from typing import Any

import pytest


def logged(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """The fields of each such event, in order."""
    return [
        getattr(record, "fields", {})
        for record in caplog.records
        if getattr(record, "event", None) == event
    ]
