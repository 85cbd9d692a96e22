"""Which server a command talks to: the named one, the running one, or a private one."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Iterator, Sequence

from rich.console import Console

from lookhear.client import DEFAULT_URL, AsyncClient
from lookhear.commands.private_server import (
    ServerFailed,
    ServerProcess,
    is_running,
    loading_stage,
    server_installed,
)
from lookhear.errors import ConnectionFailed, NotInstalled
from lookhear.terminal.progress import progress
from lookhear.transport.address import Server

_POLL_SECONDS = 0.3  # between two looks at a server that is loading
NEEDS_SERVER = 'pip install "lookhear[server]"'
EXPLANATION = (
    f"Uses the server at --server, else one that runs at {DEFAULT_URL}, else a private one that is "
    "started and ended."
)


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command takes that talks to a server."""
    parser.add_argument("--server", metavar="URL", help="for example http://127.0.0.1:8000")
    parser.add_argument("--api-key", metavar="KEY", help="or set LOOKHEAR_API_KEY")
    parser.add_argument("--model", metavar="ID", help="default: the server's first that can")


@contextlib.contextmanager
def chosen_server(
    parsed: argparse.Namespace, console: Console, served: Sequence[str] | None = None
) -> Iterator[tuple[str, str | None]]:
    """Its address and the model there. served: what a private server is to serve; None: the model
    that was asked for, and nothing else."""
    default = AsyncClient(parsed.server or DEFAULT_URL, parsed.api_key).server
    if parsed.server is not None or is_running(default):
        _wait_while_loading(default, console)
        yield default.base_url, parsed.model
        return
    if not server_installed():
        raise NotInstalled(
            f"no server at {DEFAULT_URL}: name one with --server URL, or {NEEDS_SERVER}"
        )
    console.print(f"no server at {DEFAULT_URL}: starting a private one", style="dim")
    with contextlib.ExitStack() as stack:
        if served is None:
            served = [parsed.model] if parsed.model else []
        try:
            server = stack.enter_context(started_server(console, 0, served))
        except ServerFailed as error:
            raise ServerFailed(f"cannot start a private server: {error}") from error
        yield server.address.base_url, None


@contextlib.contextmanager
def started_server(console: Console, port: int, served: Sequence[str]) -> Iterator[ServerProcess]:
    """A private server of these models, ready; its progress is shown. ServerFailed."""
    arguments = [word for model in served for word in ("--model", model)]
    with contextlib.ExitStack() as stack:
        with progress(console, "starting the server") as report:
            server = stack.enter_context(ServerProcess(port, arguments, report))
        yield server


def _wait_while_loading(server: Server, console: Console) -> None:
    """A server that was just started answers long before its models are loaded."""
    if (body := _loading(server)) is None:
        return
    with progress(console, f"waiting for {server.base_url}, which is loading its model") as report:
        while body is not None:
            report(*loading_stage(body))
            time.sleep(_POLL_SECONDS)
            body = _loading(server)


def _loading(server: Server) -> bytes | None:
    """What it says under `/ready` while a model is loaded for the first time; None: none is, or
    the server knows no such question."""
    try:
        status, body = server.exchange("/ready", timeout=5.0)
        models = json.loads(body)["models"] if status == 503 else []
        return body if any(model["state"] == "loading" for model in models) else None
    except (ConnectionFailed, ValueError, KeyError, TypeError):
        return None
