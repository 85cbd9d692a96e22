"""How FFmpeg's containers are opened, whatever PyAV is installed."""

from __future__ import annotations

from typing import Any, Protocol

import av
from av.container import InputContainer

# Titles that are no text are nobody's concern. Since version 19 PyAV replaces what it cannot read,
# and has no option for it.
_ERRORS: dict[str, Any] = (
    {"metadata_errors": "ignore"} if int(av.__version__.partition(".")[0]) < 19 else {}
)


class Readable(Protocol):
    """A file that need not be seekable."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


def open_container(
    file: Readable,
    options: dict[str, str],
    *,
    buffer_bytes: int = 32 * 1024,
    format: str | None = None,
) -> InputContainer:
    """options: FFmpeg's. buffer_bytes: that are read at once. format: FFmpeg's name for what it is;
    None: to be found out. Raises what `av.open` raises: FFmpegError, OSError, ValueError."""
    more: dict[str, Any] = _ERRORS | {"buffer_size": buffer_bytes, "format": format}
    container: InputContainer = av.open(file, options=options, **more)
    return container
