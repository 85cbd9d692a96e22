"""Frames of one client to its commands; what is none is a problem in its place."""

from __future__ import annotations

from collections.abc import Sequence

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.checks.outline import SMALL, TooMuchJson, outline
from lookhear.gateway.realtime.protocol.commands import ClientCommand
from lookhear.gateway.realtime.protocol.dialect import Dialect
from lookhear.gateway.services.services import Services
from lookhear.gateway.sockets.cutting import WireFrame

INLINE_PARSE = 64 * 1024  # characters: more than this is parsed in a thread


async def commands_of(
    frames: Sequence[WireFrame], dialect: Dialect, services: Services
) -> list[ClientCommand | ProtocolError]:
    """As `parsed`, without holding up the event loop."""
    size, most = sum(map(len, frames)), services.config.max_json_bytes
    if size <= INLINE_PARSE:
        return parsed(dialect, frames, most)
    services.memory.freed(size)  # soon
    return await services.in_thread(lambda: parsed(dialect, frames, most))


def parsed(
    dialect: Dialect, frames: Sequence[WireFrame], most: int
) -> list[ClientCommand | ProtocolError]:
    """In order. most: bytes of JSON in a frame, long strings apart."""
    commands: list[ClientCommand | ProtocolError] = []
    for frame in frames:
        try:
            if isinstance(frame, str) and len(frame) > SMALL:
                _check_outline(frame, most)
            commands += dialect.parse(frame)
        except ProtocolError as problem:
            # Else it would hold this function, and so the frames, until garbage is collected.
            problem.__traceback__ = problem.__context__ = None
            commands.append(problem)
    return commands


def _check_outline(frame: str, most: int) -> None:
    try:
        outline(frame.encode(), most)
    except TooMuchJson as error:
        raise ProtocolError(f"event: {error}", code="event_too_large", param="event") from None
    except ValueError:
        pass  # no JSON: the dialect says so in its own words
