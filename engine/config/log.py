"""How both processes log: one record, one line, on stderr, as JSON or as text.

Here because gateway and engine both read it; it needs nothing but the standard library, so that a
bare GPU box logs alike. What users said, asked or sent is logged at DEBUG alone, and keys never:
the first is up to whoever logs, the second is checked here, on the finished line.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TextIO

OURS = "lookhear"  # the root of our loggers
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "json", "text")
HIDDEN = "***"
_ids: ContextVar[Mapping[str, str]] = ContextVar("ids", default={})  # noqa: B039 (never changed)
# Wherever a key may stand in what others log: a header, the subprotocol of browsers, a URL.
_KEY = re.compile(
    r"""(?ix)(
      \bbearer\s+
    | \bx-api-key(?: :\s* | \W{1,6}b?["'] )  # of a head as it is, of a mapping or pairs of bytes
    | \bauthorization(?: :\s* | \W{1,6}b?["'] )token\s+
    | \bsec-websocket-protocol\W[^"'\n]*?\b(?:bearer|token),\s*  # whose next one is the key
    | openai-insecure-api-key\.
    | \b(?:api[-_]?key|token)=
    )[^\s"'\\,;&)\]}]+"""
)
# uvicorn has a line for each handshake that we refuse, and for each request that is none.
_OLD_NEWS = (
    "ASGI callable returned without completing",
    "Invalid HTTP request received",
    "Unsupported upgrade request",
)
_LONG_ENOUGH = 8  # characters of a key that can be told from a word by itself
_PLAIN = re.compile(r"[!-~]+")  # what text lines show without quotes


def bind(**ids: str) -> None:
    """What every record of this task, and of tasks it starts, is about from now on: `request`,
    `session`. A task's own: nobody has to undo it."""
    _ids.set({**_ids.get(), **ids})


def log_event(
    logger: logging.Logger, event: str, level: int = logging.INFO, **fields: object
) -> None:
    """One line about something that has a name, as `session.end`. None values are left out."""
    if logger.isEnabledFor(level):
        kept = {name: value for name, value in fields.items() if value is not None}
        logger.log(level, event, extra={"event": event, "fields": kept})


def is_json(format: str, stream: TextIO) -> bool:
    """auto: text for a person at a terminal, JSON for what collects logs."""
    return format == "json" or (format == "auto" and not stream.isatty())


def hide(secrets: Collection[str]) -> None:
    """Keys that are shown nowhere from now on, beside those known before."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Lines):
            handler.formatter.hide(secrets)


@contextlib.contextmanager
def logging_to_stderr(
    level: str, format: str, *, secrets: Collection[str] = (), **facts: str
) -> Iterator[None]:
    """All of this process, and afterwards as before: our own records from that level on, those of
    libraries from WARNING on (with debug: INFO), Python's warnings, and what ends a thread.

    secrets: keys, shown nowhere. facts: fields of every line.
    """
    handler = logging.StreamHandler(sys.stderr)
    kind = JsonLines if is_json(format, sys.stderr) else TextLines
    handler.setFormatter(kind(secrets, facts))
    handler.addFilter(_is_news)
    ours = logging.getLevelNamesMapping()[level.upper()]
    is_debug = ours <= logging.DEBUG
    others = logging.INFO if is_debug else max(ours, logging.WARNING)
    # Where uvicorn and websockets tell of connections, and when debugging of every frame.
    levels = {"": others, OURS: ours, "uvicorn.error": ours if is_debug else others}
    before = {name: logging.getLogger(name).level for name in levels}
    thread_hook = threading.excepthook

    def thread_ended(args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread is not None else "?"
        error = args.exc_value
        logging.getLogger(OURS).error("thread %s ended", name, exc_info=error)

    for name, wanted in levels.items():
        logging.getLogger(name).setLevel(wanted)
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(True)
    threading.excepthook = thread_ended
    try:
        yield
    finally:
        threading.excepthook = thread_hook
        logging.captureWarnings(False)
        logging.getLogger().removeHandler(handler)
        for name, former in before.items():
            logging.getLogger(name).setLevel(former)


def _is_news(record: logging.LogRecord) -> bool:
    """Not what a library takes for a bug of ours, though it is a client that went away or was
    refused with a status and in words; nor its access lines, which show the whole query. Lines of
    our own have told of both."""
    text = str(record.msg)
    if record.name == "uvicorn.error":
        is_access = '"WebSocket %s"' in text
        return not is_access and not text.startswith(_OLD_NEWS)
    return record.name != "asyncio" or not text.startswith("socket.send() raised exception")


class _Lines(logging.Formatter):
    def __init__(self, secrets: Collection[str], facts: Mapping[str, str]) -> None:
        super().__init__()
        self._facts = facts
        self._known: frozenset[str] = frozenset()
        self._secrets: re.Pattern[str] | None = None
        self.hide(secrets)

    def hide(self, secrets: Collection[str]) -> None:
        """These too. Whatever is too short could be a word."""
        self._known |= {secret for secret in secrets if len(secret) >= _LONG_ENOUGH}
        forms = {form for secret in self._known for form in _forms(secret)}
        known = sorted(forms, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, known))) if known else None

    def format(self, record: logging.LogRecord) -> str:
        """The whole line, without its end."""
        line = self._line(record)
        # First, for punctuation ends what only looks like a key: the rest of one would be shown.
        if self._secrets is not None:
            line = self._secrets.sub(HIDDEN, line)
        return _KEY.sub(rf"\g<1>{HIDDEN}", line)

    def _line(self, record: logging.LogRecord) -> str:
        raise NotImplementedError

    def _fields(self, record: logging.LogRecord) -> dict[str, object]:
        """What the record is about, then what it tells."""
        return {**_ids.get(), **getattr(record, "fields", {}), **self._facts}


def _forms(secret: str) -> set[str]:
    """How it may stand in a line: as it is, and as JSON or Python quotes it, one in the other."""
    forms = {secret}
    for _ in range(2):
        forms |= {quoted(form)[1:-1] for form in forms for quoted in (json.dumps, repr)}
    return forms


class JsonLines(_Lines):
    """An object a line: time, level, logger, event if it has a name, message, ids, fields, and
    `exception` with the traceback."""

    def _line(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if (event := getattr(record, "event", None)) is not None:
            line["event"] = event
        line["message"] = _message(record)
        # No field of a record takes the place of one that every line has.
        line |= {name: value for name, value in self._fields(record).items() if name not in line}
        if (trace := _trace(record)) is not None:
            line["exception"] = trace
        return json.dumps(line, default=str)


class TextLines(_Lines):
    """`time LEVEL name message field=value`; a traceback follows, indented."""

    def _line(self, record: logging.LogRecord) -> str:
        name = getattr(record, "event", None)
        told = name if name is not None else f"{record.name}: {_message(record)}"
        line = f"{_time(record)} {record.levelname:<7} {told}"
        for field, value in self._fields(record).items():
            shown = str(value)
            line += f" {field}={shown if _PLAIN.fullmatch(shown) else json.dumps(shown)}"
        line = _quiet(line)
        if (trace := _trace(record)) is not None:
            line += "".join(f"\n    {_quiet(part)}" for part in trace.splitlines())
        return line


def _time(record: logging.LogRecord) -> str:
    """ISO 8601, UTC, milliseconds."""
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage().strip()
    # A warning of Python's brings the line of source along.
    return text.partition("\n")[0] if record.name == "py.warnings" else text


def _quiet(text: str) -> str:
    """Nothing in it ends the line, or moves a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _trace(record: logging.LogRecord) -> str | None:
    if not record.exc_info or record.exc_info[1] is None:
        return None
    return "".join(traceback.format_exception(record.exc_info[1])).rstrip()
