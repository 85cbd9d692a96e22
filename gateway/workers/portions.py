"""What each of several workers gets of the limits, and which engines are its own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lookhear.engine.config import ConfigError, EngineConfig
from lookhear.gateway.config import GatewayConfig

# Bounds of the whole, and the least that one worker can do with. 0, where it is allowed, is no
# bound and stays none.
DIVIDED = {
    "max_sessions": 1,
    "max_client_sessions": 1,
    "max_connections": 2,
    "max_client_connections": 1,
    "max_bodies_bytes": 1024,
    "max_unfinished_bytes": 1024,
}


def check_portions(config: GatewayConfig) -> None:
    """Each worker has to get something of every limit. Raises ConfigError."""
    for name, one in DIVIDED.items():
        value, least = getattr(config, name), one * config.workers
        if 0 < value < least:
            option = name.replace("_", "-")
            expected = f"at least {least} with --workers {config.workers}, {one} for each"
            raise ConfigError(f"{option}: expected {expected}, got {value}")


def portion(config: GatewayConfig, worker: int) -> GatewayConfig:
    """The configuration of that worker, from 1. The portions of each limit add up to it; but a
    worker has a decoder, however few there are to be."""
    divided: dict[str, Any] = {
        name: _part(getattr(config, name), worker, config.workers) for name in DIVIDED
    }
    decoders = max(1, _part(config.media_workers, worker, config.workers))
    return replace(config, **divided, media_workers=decoders)


def engines_of(engines: Sequence[EngineConfig], worker: int) -> list[EngineConfig]:
    """Those that the worker starts: as many as any other, with numbers of their own."""
    return [replace(engine, worker=worker) for engine in engines]


def _part(whole: int, worker: int, workers: int) -> int:
    """The first workers get one more where it does not come out even."""
    return whole // workers + (worker <= whole % workers)
