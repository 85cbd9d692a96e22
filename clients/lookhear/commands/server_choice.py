"""Which server a command talks to: the named one, the running one, or a private one."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Sequence

from rich.console import Console

from lookhear.client import AsyncClient
from lookhear.commands.private_server import (
    NEEDS_SERVER,
    ServerFailed,
    ServerProcess,
    is_running,
    loading_stage,
    server_installed,
)
from lookhear.errors import ConnectionFailed, LookhearError, NotInstalled
from lookhear.results import Model
from lookhear.terminal.progress import progress
from lookhear.transport.address import DEFAULT_URL, SERVER_VARIABLE, Server, usual_server

_POLL_SECONDS = 0.3  # between two looks at a server that is loading
EXPLANATION = (
    f"Uses the server at --server or {SERVER_VARIABLE}, else one that runs at {DEFAULT_URL}, else "
    "a private one that is started and ended."
)

DELAYS = ("minimal", "low", "medium", "high", "xhigh")


def comma_separated(text: str) -> tuple[str, ...]:
    """Words of an option's value."""
    return tuple(word for each in text.split(",") if (word := each.strip()))


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command takes that talks to a server."""
    parser.add_argument(
        "--server", metavar="URL", default=usual_server(),
        help=f"for example {DEFAULT_URL}; or set {SERVER_VARIABLE}",
    )  # fmt: skip
    parser.add_argument("--api-key", metavar="KEY", help="or set LOOKHEAR_API_KEY")
    parser.add_argument("--model", metavar="ID", help="default: the server's first that can")


@contextlib.contextmanager
def chosen_server(
    parsed: argparse.Namespace,
    console: Console,
    served: Sequence[str] | None = None,
    abilities: Sequence[str] = ("transcribe",),
) -> Iterator[tuple[str, str | None]]:
    """Its address and the model there. served: what a private server is to serve; None: the model
    that was asked for, or else what suits. abilities: that are asked for: if a toy has them there,
    the console is told."""
    client = AsyncClient(parsed.server or DEFAULT_URL, parsed.api_key)
    default = client.server
    if parsed.server is not None or is_running(default):
        _wait_while_loading(default, console)
        tell_models(client, console, parsed.model, abilities)
        yield default.base_url, parsed.model
        return
    if not server_installed():
        raise NotInstalled(
            f"no server at {DEFAULT_URL}: name one with --server URL; a private one needs "
            f"{NEEDS_SERVER}"
        )
    console.print(f"no server at {DEFAULT_URL}: starting a private one", style="dim")
    with contextlib.ExitStack() as stack:
        if served is None:
            served = [parsed.model] if parsed.model else []
        try:
            server = stack.enter_context(started_server(console, 0, served))
        except ServerFailed as error:
            raise ServerFailed(f"cannot start a private server: {error}") from error
        private = AsyncClient(server.address.base_url)
        tell_models(private, console, None, abilities, reasons=True)
        yield server.address.base_url, None


def tell_models(
    client: AsyncClient,
    console: Console,
    model: str | None,
    abilities: Sequence[str],
    *,
    reasons: bool = False,
) -> None:
    """Of the models that are going to be asked: which are toys, and with reasons which of them the
    server chose and why; and whether a name is none of theirs. Who cannot be asked says so soon
    enough. model: by name, or None; it is asked for the first ability, others are left to the
    server."""
    try:
        listed = asyncio.run(client.models())
    except LookhearError:
        return
    asked: list[Model] = []
    for number, ability in enumerate(abilities):
        name = None if number else model
        able = [m for m in listed if ability in m.abilities]
        if any(m.id == name for m in listed):
            able = [m for m in able if m.id == name]
        elif name is not None and able:  # it is answered by another one, or refused
            about = f"no model here is called {name}: the first that can is {able[0].id}"
            console.print(about, style="yellow", markup=False, soft_wrap=True)
        asked += [m for m in able[:1] if m not in asked]
    for one in asked:
        if one.reason and reasons:
            console.print(f"{one.id}: {one.reason}", style="dim", markup=False, soft_wrap=True)
        if one.toy:
            console.print(about_toy(one), style="yellow", markup=False, soft_wrap=True)


def about_toy(model: Model) -> str:
    """What to think of its words."""
    knows = "drawn shapes and forty words" if "image" in model.abilities else "900 spoken words"
    real = "Qwen/Qwen3-VL-2B-Instruct" if "image" in model.abilities else "openai/whisper-base"
    return f"{model.id} is a toy that knows {knows}; a real one: --model {real}"


@contextlib.contextmanager
def started_server(console: Console, port: int, served: Sequence[str]) -> Iterator[ServerProcess]:
    """A private server of these models, ready; its progress is shown. ServerFailed."""
    # There is nobody else to be refused, so what speakers cost need not be found out first.
    arguments = ["--max-lag", "0"]
    arguments += [word for model in served for word in ("--model", model)]
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
