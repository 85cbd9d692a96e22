"""What a message holds, in the OpenAI chat format: text, pictures, videos and sound.

A medium is a path, the bytes of a file, or a URL (`http:`, `https:`, `data:`, or what else the
server can open). URLs are passed on and opened by the server; files are read here and sent along.
Nothing is decoded here: the server says what it cannot use.
"""

from __future__ import annotations

import base64
import mimetypes
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lookhear.errors import InvalidRequest, SourceError

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
    (0, b"OggS", "audio/ogg"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
)
_SOUND_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}  # those that `input_audio` knows


def is_url(medium: Medium) -> bool:
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


def read_medium(medium: Medium) -> bytes:
    """The bytes of a file. Blocking. SourceError."""
    if isinstance(medium, bytes):
        return medium
    try:
        return Path(medium).read_bytes()
    except OSError as error:
        raise SourceError(f"cannot read {os.fspath(medium)}: {error.strerror}") from error


def media_type(data: bytes, name: str = "") -> str:
    """By how the data begins, else by the name, else `application/octet-stream`."""
    for offset, signature, kind in _SIGNATURES:
        if data.startswith(signature, offset):
            return kind
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def medium_url(medium: Medium) -> str:
    """A URL as it is; a file as a `data:` URL. Blocking. SourceError."""
    if isinstance(medium, str) and is_url(medium):
        return medium
    data = read_medium(medium)
    name = "" if isinstance(medium, bytes) else os.fspath(medium)
    return f"data:{media_type(data, name)};base64,{base64.b64encode(data).decode('ascii')}"


def image_part(image: Medium, detail: str | None = None) -> dict[str, Any]:
    """detail: "low", "high" or "auto": how many tokens the picture may take."""
    url = {"url": medium_url(image)}
    return {"type": "image_url", "image_url": url if detail is None else url | {"detail": detail}}


def video_part(video: Medium) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": medium_url(video)}}


def audio_part(audio: Medium) -> dict[str, Any]:
    """`input_audio` where the format has one, else `audio_url`, which fewer servers know."""
    if not is_url(audio):
        data = read_medium(audio)
        if (kind := _SOUND_FORMATS.get(media_type(data))) is not None:
            encoded = base64.b64encode(data).decode("ascii")
            return {"type": "input_audio", "input_audio": {"data": encoded, "format": kind}}
    return {"type": "audio_url", "audio_url": {"url": medium_url(audio)}}


def message(
    role: str,
    text: str = "",
    *,
    images: Sequence[Medium] = (),
    videos: Sequence[Medium] = (),
    audio: Sequence[Medium] = (),
    detail: str | None = None,
) -> dict[str, Any]:
    """One message for `chat`. role: "user", "assistant" or "system". Blocking. SourceError.

    The media come before the text, as people show first and ask then.
    """
    parts = [image_part(image, detail) for image in images]
    parts += [video_part(video) for video in videos]
    parts += [audio_part(sound) for sound in audio]
    if not parts:
        return {"role": role, "content": text}
    if text:
        parts.append({"type": "text", "text": text})
    return {"role": role, "content": parts}


def named(error: InvalidRequest, media: Sequence[Medium], message_index: int) -> InvalidRequest:
    """The same refusal in words of the person who gave these media with message `message_index`:
    the name of the file, where the server could only say which part of the request it was."""
    place = re.match(rf"messages\[{message_index}\]\.content\[(\d+)\]", error.param or "")
    if place is None or error.param is None or int(place[1]) >= len(media):
        return error
    medium = media[int(place[1])]
    name = "the given bytes" if isinstance(medium, bytes) else os.fspath(medium)
    if name.startswith("data:"):
        name = "the given URL"
    said = error.message.removeprefix(error.param).removeprefix(": ")
    return InvalidRequest(f"{name}: {said}", error.code, error.param)
