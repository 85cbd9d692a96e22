"""How FFmpeg's containers are opened, whatever PyAV is installed."""

from __future__ import annotations

from typing import Any, BinaryIO

import av
from av.container import InputContainer

# Titles that are no text are nobody's concern. Since version 19 PyAV replaces what it cannot read,
# and has no option for it.
_ERRORS = {"metadata_errors": "ignore"} if int(av.__version__.partition(".")[0]) < 19 else {}


def open_container(file: BinaryIO, options: dict[str, str]) -> InputContainer:
    """options: FFmpeg's. Raises what `av.open` raises: FFmpegError, OSError, ValueError."""
    more: dict[str, Any] = dict(_ERRORS)
    container: InputContainer = av.open(file, options=options, **more)
    return container
