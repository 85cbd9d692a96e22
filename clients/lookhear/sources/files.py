"""Files and URLs that people give: whether they are there, what they are, and their bytes.

A medium is a path, the bytes of a file, or a URL (`http:`, `https:`, `data:`, or what else the
server can open).
"""

from __future__ import annotations

import mimetypes
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from lookhear.errors import SourceError

Medium = str | os.PathLike[str] | bytes

_URL = re.compile(r"data:|[a-z][a-z0-9+.-]+://", re.IGNORECASE)
# How files of a kind begin, and where: what a file is does not depend on its name.
_SIGNATURES = (
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"FORM", "audio/aiff"),
    (0, b".snd", "audio/basic"),
    (0, b"caff", "audio/x-caf"),
    (0, b"riff\x2e\x91\xcf\x11", "audio/x-w64"),
    (0, b"#!AMR", "audio/amr"),
    (0, b"\x30\x26\xb2\x75", "audio/x-ms-wma"),
    (0, b"OggS", "audio/ogg"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
)


def require_list(name: str, given: Sequence[Medium]) -> None:
    """ValueError for one alone, of which each letter would be taken for one."""
    if isinstance(given, str | bytes):
        raise ValueError(f"{name}: expected a list, got {given!r:.60} alone")


def is_url(medium: Medium) -> bool:
    """Whether it is an address; a path is not, however odd."""
    return isinstance(medium, str) and _URL.match(medium) is not None


def require_file(path: str | os.PathLike[str]) -> None:
    """SourceError unless there is a file or a pipe of that name."""
    name = os.fspath(path)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise SourceError(f"no such file: {name}") from None
    except ValueError:  # a null character
        raise SourceError(f"no such file: {name!r}") from None
    except OSError as error:
        raise SourceError(f"cannot read {name}: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise SourceError(f"expected a file, got a folder: {name}")
    if not os.access(path, os.R_OK):
        raise SourceError(f"cannot read {name}: not allowed to")


def read_medium(medium: Medium) -> bytes:
    """The bytes of a file. Blocking. SourceError."""
    if isinstance(medium, bytes):
        return medium
    try:
        return Path(medium).read_bytes()
    except ValueError:  # a null character
        raise SourceError(f"no such file: {os.fspath(medium)!r}") from None
    except OSError as error:
        raise SourceError(f"cannot read {os.fspath(medium)}: {error.strerror}") from error


def media_type(data: bytes, name: str = "") -> str:
    """By how the data begins, else by the name, else `application/octet-stream`."""
    for offset, signature, kind in _SIGNATURES:
        if data.startswith(signature, offset):
            return kind
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
