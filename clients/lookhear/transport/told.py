"""A file's answer that tells, while it is made, how far it is."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

from lookhear.errors import ProtocolError, server_error
from lookhear.transport.address import Server, Upload
from lookhear.transport.sse import post_events

FIELDS = [("stream", "true"), ("lookhear_progress", "true")]  # of the form, besides the others

OnShare = Callable[[float], None]
"""Told the share that is done, 0 to 1."""


async def told_answer(server: Server, path: str, upload: Upload, on_share: OnShare) -> str:
    """What the server would have answered at once. upload: with `FIELDS`. ServerError and its
    kinds, ConnectionFailed, ProtocolError."""
    async with contextlib.aclosing(post_events(server, path, upload, timeout=None)) as events:
        async for data in events:
            try:
                event = json.loads(data) if data != "[DONE]" else {}
                if "error" in event:
                    raise server_error(event["error"])
                match event.get("type"):
                    case "lookhear.progress" if event["duration"]:
                        on_share(min(event["seconds"] / event["duration"], 1.0))
                    case "transcript.text.done":
                        return str(event["lookhear"]["answer"])
                    case _:
                        pass
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                said = f"server event is not well formed: {error!r}"
                raise ProtocolError(said) from error
    raise ProtocolError("the answer broke off before its end")
