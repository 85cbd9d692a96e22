"""Which server a command talks to: the named one, the running one, or a private one."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence

from rich.console import Console

from lookhear.client import DEFAULT_URL, AsyncClient
from lookhear.commands.private_server import (
    ServerFailed,
    ServerProcess,
    is_running,
    server_installed,
)
from lookhear.errors import NotInstalled
from lookhear.terminal.progress import progress

NEEDS_SERVER = 'pip install "lookhear[server]"'
EXPLANATION = (
    f"Uses the server at --server, else one that runs at {DEFAULT_URL}, else a private one that is "
    "started and ended."
)


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", metavar="URL", help="for example http://127.0.0.1:8000")
    parser.add_argument("--api-key", metavar="KEY", help="or set LOOKHEAR_API_KEY")
    parser.add_argument("--model", metavar="ID", help="default: the server's first that can")


@contextlib.contextmanager
def chosen_server(
    parsed: argparse.Namespace, console: Console, served: Sequence[str]
) -> Iterator[tuple[str, str | None]]:
    """Its address and the model there. served: what a private server is to serve."""
    default = AsyncClient(parsed.server or DEFAULT_URL, parsed.api_key).server
    if parsed.server is not None or is_running(default):
        yield default.base_url, parsed.model
        return
    if not server_installed():
        raise NotInstalled(
            f"no server at {DEFAULT_URL}: name one with --server URL, or {NEEDS_SERVER}"
        )
    arguments = [word for model in served for word in ("--model", model)]
    console.print(f"no server at {DEFAULT_URL}: starting a private one", style="dim")
    with contextlib.ExitStack() as stack:
        with progress(console, "starting the server") as report:
            try:
                server = stack.enter_context(ServerProcess(0, arguments, report))
            except ServerFailed as error:
                raise ServerFailed(f"cannot start a private server: {error}") from error
        yield server.address.base_url, None
