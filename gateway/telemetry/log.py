"""The gateway's log: what happened to whom, on the standard logging tree."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from lookhear.engine.config import log

LOGGER = "lookhear.gateway"


def log_event(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """One line; None values are left out. Nothing in it is what a user said, asked or sent, unless
    its level is DEBUG."""
    log.log_event(logging.getLogger(LOGGER), event, level, **fields)


def address(scope: Mapping[str, Any]) -> str | None:
    """`host:port` of the client of an ASGI scope; None where there is none, on a Unix socket."""
    client = scope.get("client")
    if client is None:
        return None
    host, port = client
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
