"""The browser page and the recording that it offers, if this installation carries them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from lookhear.gateway.catalogue import packaged_folder

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


async def page(request: Request) -> Response:
    """`/` and the files beside it. Only plain names: no folders, nothing outside."""
    folder = browser_folder()
    name = request.path_params.get("name") or "index.html"
    if folder is None or Path(name).name != name or not _is_file(folder / name):
        raise HTTPException(404)
    return FileResponse(folder / name, headers=HEADERS)


async def recording(_: Request) -> Response:
    """Speech that the packaged models understand, for a newcomer to hear transcribed."""
    folder = packaged_folder()
    file = folder / "recordings" / "hello.opus" if folder is not None else None
    if file is None or not file.is_file():
        raise HTTPException(404)
    return FileResponse(file, headers=HEADERS, media_type="audio/ogg")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False
