"""`lookhear models`: what a server serves; and with the server part, what can be served here."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from importlib import metadata
from typing import Any, NamedTuple, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lookhear.commands.private_server import NEEDS_SERVER, is_running, server_installed
from lookhear.errors import (
    KEY_HINT,
    AddressError,
    ConnectionFailed,
    NotInstalled,
    ProtocolError,
)
from lookhear.transport.address import KEY_VARIABLE, SERVER_VARIABLE, Server, usual_server

LOCAL = "lookhear.local"  # the entry-point group of what the server part knows of this machine
PIPED_WIDTH = 1000  # columns: what a program reads is not wrapped
TIMEOUT = 10.0  # seconds to wait for the server
WRONG_USE = 2


class Row(NamedTuple):
    """A model as people look for it, all in words. where: packaged, downloaded or served."""

    name: str
    kind: str
    size: str
    where: str


def parser() -> argparse.ArgumentParser:
    """Of this command."""
    parser = argparse.ArgumentParser(
        prog="lookhear models",
        description="List the models that a server serves; without one, those that can be "
        f"served here, packaged and downloaded ones. That needs {NEEDS_SERVER}.",
    )
    parser.add_argument(
        "--server", metavar="URL", default=usual_server(),
        help=f"list what this running server serves; or set {SERVER_VARIABLE}",
    )  # fmt: skip
    parser.add_argument("--api-key", default=os.environ.get(KEY_VARIABLE), metavar="KEY")
    return parser


def models(argv: list[str]) -> int:
    """Exit status: 0 listed, 2 no such server or no server part. NotInstalled."""
    options = parser().parse_args(argv)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPED_WIDTH)
    if options.server is None and server_installed():
        (local,) = metadata.entry_points(group=LOCAL, name="models")
        rows, advice = cast(Callable[[], tuple[list[Any], str]], local.load())()
        console.print(table([Row(*row) for row in rows], None))
        console.print(advice, soft_wrap=True)
        return 0
    url = options.server or Server().base_url
    if options.server is None and not is_running(Server()):
        raise NotInstalled(
            f"no server at {url}: name one with --server URL; listing local models needs "
            f"{NEEDS_SERVER}"
        )
    try:
        rows = served(url, options.api_key)
    except ValueError as error:
        print(f"lookhear models: cannot list the models of {url}: {error}", file=sys.stderr)
        return WRONG_USE
    console.print(table(rows, f"served by {url}"))
    if options.server is None:
        console.print(f"listing local models needs {NEEDS_SERVER}", style="dim", markup=False)
    return 0


def served(url: str, api_key: str | None) -> list[Row]:
    """The models of a running server, its default first. ValueError says what came instead;
    AuthenticationError for a key that no header can hold."""
    try:
        server = Server(url, api_key)
    except AddressError:
        raise ValueError(f"expected a URL like {Server().base_url}, got {url!r}") from None
    try:
        status, body = server.exchange("/v1/models", timeout=TIMEOUT)
    except (ConnectionFailed, ProtocolError) as error:
        raise ValueError(str(error).removeprefix(f"cannot reach {url}: ")) from None
    if status == HTTPStatus.UNAUTHORIZED:
        raise ValueError(f"{server.refusal(status, body)}; {KEY_HINT}")
    if status != HTTPStatus.OK:
        raise ValueError(f"it answered {status} {http.client.responses.get(status, '')}")
    try:
        return _rows(body)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"expected a list of models, got something else ({error})") from None


def _rows(body: bytes) -> list[Row]:
    data = json.loads(body)["data"]
    return [
        Row(
            entry["id"],
            _family(entry.get("architecture")),
            _parameters(entry.get("parameters")),
            "served" if place or len(data) == 1 else "served, the default",
        )
        for place, entry in enumerate(data)
    ]


def table(rows: Sequence[Row], title: str | None) -> Table:
    """A line for each model."""
    named = None if title is None else Text(title)  # brackets are no markup here
    result = Table(title=named, box=None, pad_edge=False, title_justify="left")
    for column in ("model", "kind", "size", "where"):
        result.add_column(column)
    for row in rows:
        result.add_row(*(Text(cell) for cell in (row.name, row.kind, row.size, row.where)))
    return result


def _family(architecture: object) -> str:
    """WhisperForConditionalGeneration -> Whisper; other servers do not say."""
    return str(architecture).partition("For")[0] if architecture else "?"


def _parameters(count: object) -> str:
    return f"{count / 1e6:.1f} M parameters" if isinstance(count, int) and count else "?"
