"""The server to measure, and the options that every subcommand has."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from lookhear.bench import machine
from lookhear.bench.bridge import live_address
from lookhear.bench.generator import Target, generate
from lookhear.bench.recordings.dataset import DATA
from lookhear.bench.recordings.human import HUMAN
from lookhear.bench.recordings.speech import crowd, long_session
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.bench.wires.registry import WIRES
from lookhear.commands.private_server import NEEDS_SERVER, ServerProcess, server_installed
from lookhear.errors import NotInstalled, UsageError
from lookhear.terminal.progress import progress
from lookhear.transport.address import KEY_VARIABLE, SERVER_VARIABLE, Server, usual_server

WARM_UP_SECONDS = 6.0
TOY = "demo-whisper"  # served where --serve names no model
PIPED_WIDTH = 140  # columns, where no terminal says how many it has
Json = dict[str, Any]


def add_server_arguments(parser: argparse.ArgumentParser, *, live: bool = True) -> None:
    """Which server is measured and how it is spoken to. live: over a WebSocket."""
    parser.add_argument(
        "--server", metavar="URL", default=usual_server(),
        help=f"measure this one, do not start any; or set {SERVER_VARIABLE}",
    )  # fmt: skip
    parser.add_argument(
        "--model", metavar="ID", help="of the server; without --server: what ours is to load"
    )
    parser.add_argument("--api-key", metavar="KEY", help="or set LOOKHEAR_API_KEY")
    parser.add_argument("--serve", default="", metavar="ARGS", help="for our own `lookhear serve`")
    if live:
        parser.add_argument("--wire", choices=WIRES, default="openai", help="its protocol")
        parser.add_argument("--no-provisional", action="store_true", help="only committed text")


def add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """Which recordings are said, and where the results go."""
    parser.add_argument(
        "--data",
        type=Path,
        default=DATA,
        metavar="FOLDER",
        help="manifest.json, long_*.json and their audio; human: recordings of people, fetched; "
        "default: the repository's",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sessions' random phase")
    add_file_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print results as JSON, no tables")


def at_least_one(text: str) -> int:
    """The value of an option that says how many. ArgumentTypeError."""
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return count


def above_zero(text: str) -> float:
    """The value of an option that says how long. ArgumentTypeError."""
    value = _number(text)
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value


def from_zero(text: str) -> float:
    """The value of an option that says how much is left open. ArgumentTypeError."""
    value = _number(text)
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, got {text!r}")
    return value


def _number(text: str) -> float:
    """Not a number where the text says none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def require_one_server(options: argparse.Namespace) -> None:
    """UsageError: one is named that runs, and arguments for one that would be started."""
    if options.server is not None and options.serve:
        raise UsageError(
            f"--serve starts a server: leave --server out with it, and {SERVER_VARIABLE} unset"
        )


def consoles(options: argparse.Namespace) -> tuple[Console, Console]:
    """For tables, and for progress: with --json nothing but JSON goes to stdout."""
    aside = Console(stderr=True, highlight=False)
    if options.json:
        return aside, aside
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Console(highlight=False, width=width), aside


@contextlib.contextmanager
def target(options: argparse.Namespace, console: Console) -> Iterator[Target]:
    """The named live server, else a private one of ours.

    AddressError, ServerFailed, NotInstalled.
    """
    key = options.api_key or os.environ.get(KEY_VARIABLE)
    provisional = not options.no_provisional
    if options.server is not None:
        model, address = options.model, options.server
        with live_address(address, options.wire, key) as url:
            yield Target(url, options.wire, model, key, provisional, address=address)
        return
    with (
        private_server(options, console) as server,
        live_address(server.address.base_url, options.wire) as url,
    ):
        yield Target(
            url,
            options.wire,
            provisional=provisional,
            pid=server.pid,
            metrics_url=server.address.http_url("/metrics"),
            address=server.address.base_url,
        )


@contextlib.contextmanager
def private_server(options: argparse.Namespace, console: Console) -> Iterator[ServerProcess]:
    """`lookhear serve` with --model and the arguments of --serve, as a child that ends with us.
    Unless they say so it refuses nobody: how it is with too many is to be measured.

    Unless a model is named, also in a file, it is the toy for the toy's recordings, for people's
    what serve takes. UsageError: arguments that serve does not take.
    """
    if not server_installed():
        raise NotInstalled(f"no --server URL given: name one; one of its own needs {NEEDS_SERVER}")
    arguments = ["--max-lag", "0", *options.serve.split()]
    if options.model:
        arguments += ["--model", options.model]
    usual = TOY if options.data != HUMAN and not _names_a_model(arguments) else None
    with contextlib.ExitStack() as stack:
        with progress(console, "starting the server") as show:
            server = stack.enter_context(ServerProcess(0, arguments, show, usual_model=usual))
        yield server


def _names_a_model(arguments: list[str]) -> bool:
    """Whether these, or a file that they name, say what is to be served. UsageError."""
    # A client without a server has none of this.
    from lookhear.engine.config import ConfigError
    from lookhear.gateway.commands.settings import DEFAULT, read_settings

    try:
        return read_settings(arguments, {}).origins["model"] != DEFAULT
    except ConfigError as error:
        raise UsageError(f"--serve: {error}") from None


def models(subject: Target) -> tuple[str, str | None]:
    """One that transcribes, and one that sees if there is one. LookhearError."""
    cards: list[dict[str, Any]] = Server(subject.address, subject.api_key).get_json("/v1/models")[
        "data"
    ]
    hears = [card["id"] for card in cards if "transcribe" in card.get("abilities", ["transcribe"])]
    sees = [card["id"] for card in cards if "image" in card.get("abilities", [])]
    if not hears:
        raise UsageError("the server has no model that transcribes")
    return hears[0], sees[0] if sees else None


def warm_up(subject: Target, options: argparse.Namespace, console: Console) -> None:
    """Sessions that do not count: caches, threads and allocators settle, and a server that is not
    there is found out. ConnectionFailed."""
    session = long_session("warm-up", 0, WARM_UP_SECONDS, options.data, options.language)
    told = options.language is not None
    generate(subject, crowd(session, 3), 3, console, tell_language=told)


def begin(argv: list[str]) -> Json:
    """What is written down before a run: machine, software, command, load."""
    kept = list(argv)
    for place, word in enumerate(kept):
        if word == "--api-key" and place + 1 < len(kept):
            kept[place + 1] = "KEY"
        elif word.startswith("--api-key="):
            kept[place] = "--api-key=KEY"
    return machine.describe(argv) | {"command": " ".join(["lookhear", "bench", *kept])}


def finish(name: str, result: Json, options: argparse.Namespace) -> Path:
    """Write a result down, and print it if --json asks for it."""
    path = write_result(options, name, result)
    if options.json:
        json.dump(result, sys.stdout, ensure_ascii=False)
        print(flush=True)
    return path
