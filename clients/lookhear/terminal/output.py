"""What a command leaves behind: events as lines of JSON, and text in files."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, TextIO

from lookhear.chat.answers import AnswerEvent, QuestionHeard
from lookhear.errors import OutputError
from lookhear.live.events import Event


class _Told(io.FileIO):
    """Written to as far as somebody takes it."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def patient(stream: TextIO | None) -> TextIO | None:
    """The same stderr, on which a command tells how it gets on: if nobody takes that, because a
    disk is full or its reader is gone, it gets on all the same. What is no file stays as it is."""
    if type(stream) is not io.TextIOWrapper:  # none, or what a test put in its place
        return stream
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        return stream
    told = io.BufferedWriter(_Told(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(told, stream.encoding, line_buffering=True)


def as_json(event: Event | AnswerEvent | QuestionHeard) -> dict[str, Any]:
    """The event as plain data, its class name under `event`."""
    return {"event": type(event).__name__, **dataclasses.asdict(event)}


def print_event(event: Event | AnswerEvent | QuestionHeard) -> None:
    """One line of JSON on stdout, written at once."""
    print(json_text(as_json(event)), flush=True)


def json_text(data: Any, indent: int | None = None) -> str:
    """For stdout. Where that is not UTF-8 it is ASCII: what is put in place of a character that an
    encoding has not is not JSON."""
    is_utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    return json.dumps(data, ensure_ascii=not is_utf8, indent=indent)


def require_writable(path: Path) -> None:
    """OutputError unless a file of that name can be made: asked before the work, not after it.
    Behind a link it is the file that this names."""
    folder = _folder(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = 0
    except OSError as error:  # a folder that one may not enter, a name that is too long
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise OutputError(f"cannot write {path}: expected a file, got a folder")
    if not mode and not folder.is_dir():
        raise OutputError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(path if mode else folder, os.W_OK):
        raise OutputError(f"cannot write {path}: not allowed to")


def _folder(path: Path) -> Path:
    """Where the file is, or would be made."""
    return Path(os.path.realpath(path)).parent if os.path.islink(path) else path.parent


def write_file(path: Path, text: str) -> None:
    """Make or overwrite a file, as UTF-8. OutputError: not allowed to, a full disk."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def is_replaceable(path: Path) -> bool:
    """Whether `replace_file` can write it: it is a file or nothing yet, not a pipe or a device, and
    another one may be made beside it. OutputError."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(_folder(path), os.W_OK)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def replace_file(path: Path, text: str) -> None:
    """As `write_file`, but whoever reads it meanwhile finds the old text or the new one, whole.
    Behind a link it is the file that this names; who may read a file stays as it was."""
    place = Path(os.path.realpath(path))
    beside = place.with_name(f".lookhear-{os.getpid()}.part")  # however long the other name is
    try:
        beside.unlink(missing_ok=True)  # of somebody else who had our number
        mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else None
        # Nobody may open it with wider permissions than it is to have.
        first_mode = 0o666 if mode is None else 0o600
        with open(
            beside, "x", encoding="utf-8", opener=lambda name, how: os.open(name, how, first_mode)
        ) as file:
            file.write(text)
        if mode is not None:
            beside.chmod(mode)
        os.replace(beside, place)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
