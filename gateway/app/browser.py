"""The browser page and the recording that it offers, if this installation carries them."""

from __future__ import annotations

import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from lookhear.gateway.catalogue import packaged_folder

# What the page offers to play: a person, and a synthesiser for the toys, which hear nobody else.
RECORDINGS = ("kennedy.opus", "hello.opus")
ROOMS = ("chat", "media", "session", "shared", "transcript")
_NAME = re.compile(r"[a-z]{1,40}\.(?:css|html|js|svg)")
HEADERS = {
    # Our own files only; the page talks to nobody but this server. It plays what it was given, and
    # makes the script of its audio thread itself (blob:).
    "content-security-policy": (
        "default-src 'self'; script-src 'self' blob:; media-src 'self' blob:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class _PageFile(StringConvertor):
    """In a path: only plain names of the page's own kinds. So no other path becomes one of the
    page's: `/chat/completions`, without its /v1, is none, and `/health` has methods of its own."""

    regex = _NAME.pattern


register_url_convertor("page_file", _PageFile())


def browser_folder() -> Path | None:
    """The folder with `index.html`: beside the client package in a source tree, or inside it."""
    spec = find_spec("lookhear")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    for folder in (package / "browser", package.parent / "browser"):
        if (folder / "index.html").is_file():
            return folder
    return None


def is_open(path: str) -> bool:
    """Whether a path is of the page or of a recording: a browser sends no key for those."""
    room, _, name = path[1:].rpartition("/")
    if room == "recordings":
        return name in RECORDINGS
    return path == "/" or (room in ("", *ROOMS) and _NAME.fullmatch(name) is not None)


def routes() -> list[Route]:
    """`/`, the files beside it, and those of its rooms: one folder level, and that by name."""
    name = "{name:page_file}"
    return [
        Route("/", page),
        Route(f"/{name}", page),
        *(Route(f"/{room}/{name}", partial(page, room=room)) for room in ROOMS),
    ]


async def page(request: Request, room: str = "") -> Response:
    """A file of the page: no folders, nothing outside."""
    folder = browser_folder()
    name = request.path_params.get("name") or "index.html"
    if folder is None or not (folder / room / name).is_file():
        raise HTTPException(404)
    return FileResponse(folder / room / name, headers=HEADERS)


async def recording(request: Request) -> Response:
    """Packaged speech, for a newcomer to hear transcribed."""
    folder, name = packaged_folder(), request.path_params["name"]
    file = folder / "recordings" / name if folder is not None and name in RECORDINGS else None
    if file is None or not file.is_file():
        raise HTTPException(404)
    return FileResponse(file, headers=HEADERS, media_type="audio/ogg")
