"""Structured log lines: one JSON object per line, on the standard logging tree."""

from __future__ import annotations

import json
import logging

LOGGER = "lookhear.gateway"


def log_event(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """One line; None values are left out."""
    logger = logging.getLogger(LOGGER)
    if logger.isEnabledFor(level):
        line = {"event": event, **{k: v for k, v in fields.items() if v is not None}}
        logger.log(level, json.dumps(line, default=str))
