"""What a message holds, in the OpenAI chat format: text, pictures, videos and sound.

URLs are passed on and opened by the server; files are read here and sent along. Nothing is decoded
here: the server says what it cannot use.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from typing import Any

from lookhear.errors import InvalidRequest
from lookhear.sources.files import Medium, is_url, media_type, read_medium, require_list

_SOUND_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}  # those that `input_audio` knows


def medium_url(medium: Medium) -> str:
    """A URL as it is; a file as a `data:` URL. Blocking. SourceError."""
    if isinstance(medium, str) and is_url(medium):
        return medium
    data = read_medium(medium)
    name = "" if isinstance(medium, bytes) else os.fspath(medium)
    return f"data:{media_type(data, name)};base64,{base64.b64encode(data).decode('ascii')}"


def audio_part(audio: Medium) -> dict[str, Any]:
    """A part of a message: `input_audio` where the format has one, else `audio_url`, which fewer
    servers know. Blocking. SourceError."""
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
    """One message for `chat`. role: "user", "assistant" or "system". detail: "low", "high" or
    "auto", for how many tokens a picture may take. Blocking. SourceError; ValueError for a medium
    that is in no list.

    The media come before the text, as people show first and ask then.
    """
    for name, media in (("images", images), ("videos", videos), ("audio", audio)):
        require_list(name, media)
    shown = {} if detail is None else {"detail": detail}
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": medium_url(image), **shown}} for image in images
    ]
    parts += [{"type": "video_url", "video_url": {"url": medium_url(video)}} for video in videos]
    parts += [audio_part(sound) for sound in audio]
    if not parts:
        return {"role": role, "content": text}
    if text:
        parts.append({"type": "text", "text": text})
    return {"role": role, "content": parts}


def named(error: InvalidRequest, media: Sequence[Medium], message_index: int) -> InvalidRequest:
    """The same refusal about one of these media, which message `message_index` holds."""
    place = re.match(rf"messages\[{message_index}\]\.content\[(\d+)\]", error.param or "")
    if place is None or int(place[1]) >= len(media):
        return error
    medium = media[int(place[1])]
    name = "the given bytes" if isinstance(medium, bytes) else os.fspath(medium)
    if name.startswith("data:"):
        name = "the given URL"
    return error.about(name)
