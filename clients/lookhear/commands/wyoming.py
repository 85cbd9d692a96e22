"""`lookhear wyoming`: speech recognition for Home Assistant and others that speak Wyoming."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal

from rich.console import Console

from lookhear.client import AsyncClient
from lookhear.commands.server_choice import chosen_server
from lookhear.errors import AuthenticationError, LookhearError, NotInstalled

URI = "tcp://127.0.0.1:10300"
NEEDED = 'pip install "lookhear[wyoming]"'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `lookhear wyoming` takes, but for the server."""
    parser.add_argument(
        "--uri", default=URI, metavar="URI",
        help=f"where clients find it: tcp://HOST:PORT (0.0.0.0 for other machines) or "
        f"unix:///PATH; default: {URI}",
    )  # fmt: skip


def run(parsed: argparse.Namespace) -> int:
    """Exit status. LookhearError."""
    try:
        from lookhear.wyoming.bridge import RETRY, Bridge, parsed_uri  # an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "wyoming":
            raise
        raise NotInstalled(f"lookhear wyoming: the package wyoming is missing: {NEEDED}") from None
    parsed_uri(parsed.uri)  # before a server is started for it
    console = Console(stderr=True, highlight=False)

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    with chosen_server(parsed, console) as (url, model):
        _check_key(AsyncClient(url, parsed.api_key))

        async def serve() -> None:
            stop, loop = asyncio.Event(), asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(NotImplementedError):  # Windows
                    loop.add_signal_handler(number, stop.set)
            client = AsyncClient(url, parsed.api_key, retry=RETRY)
            bridge = Bridge(client, model, say)
            await bridge.serve(
                parsed.uri, lambda uri: say(f"{uri}: clients of {url} may come"), stop
            )

        asyncio.run(serve())
    return 0


def _check_key(client: AsyncClient) -> None:
    """AuthenticationError: each command would fail by it. A server that is away may come."""
    try:
        asyncio.run(client.models())
    except AuthenticationError:
        raise
    except LookhearError:
        pass
