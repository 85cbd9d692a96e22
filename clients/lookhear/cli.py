"""The `lookhear` command. `serve` and `models` are the server's: found by entry point."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import cast

from rich.console import Console

from lookhear import chat_command
from lookhear.audio import Source
from lookhear.client import DEFAULT_URL, AsyncClient
from lookhear.display import LiveTranscript, progress
from lookhear.errors import AddressError, LookhearError, NotInstalled, UsageError
from lookhear.events import TurnCompleted, as_json
from lookhear.microphone import Microphone
from lookhear.server import ServerFailed, ServerProcess, is_running, server_installed
from lookhear.subtitles import FORMATS

COMMANDS = "lookhear.commands"  # the entry-point group: `name(argv) -> exit status`
NEEDS_SERVER = 'pip install "lookhear[server]"'


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 failed, 2 wrong usage or something is not installed, 130 Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        plugins = metadata.entry_points(group=COMMANDS)
        if arguments and arguments[0] in plugins.names:
            return _plugin(plugins[arguments[0]], arguments[1:])
        parsed = _parser(sorted(plugins.names)).parse_args(arguments)
        return cast(Callable[[argparse.Namespace], int], parsed.run)(parsed)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output is gone; there is nobody to tell
        return 1
    except LookhearError as error:
        print(f"lookhear: {error}", file=sys.stderr)
        return 2 if isinstance(error, (AddressError, NotInstalled, UsageError)) else 1


def _plugin(entry: metadata.EntryPoint, argv: list[str]) -> int:
    try:
        command = cast(Callable[[list[str]], int], entry.load())
    except ModuleNotFoundError as error:
        ours = entry.value.partition(":")[0].partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] == ours:
            raise  # our own code is broken: that is not the user's to install
        print(
            f"lookhear {entry.name} needs {NEEDS_SERVER} ({error.name} is missing)",
            file=sys.stderr,
        )
        return 2
    return command(argv)


def _parser(plugins: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lookhear", description="Live transcription and chat: client, demo and server."
    )
    parser.add_argument("--version", action="version", version=f"lookhear {_version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    transcribe = commands.add_parser(
        "transcribe",
        help="transcribe a file, or the microphone",
        description="Transcribe FILE; `-` is the microphone. Uses the server at --server, else one "
        f"that runs at {DEFAULT_URL}, else a private one that is started and ended.",
    )
    transcribe.add_argument("file", metavar="FILE", help="audio file; `-` records until Ctrl-C")
    transcribe.add_argument(
        "--live", action="store_true", help="stream it at the speed of speech, text as it comes"
    )
    _add_server_arguments(transcribe)
    transcribe.add_argument("--language", metavar="CODE", help="default: found by the model")
    transcribe.add_argument(
        "--format", choices=["text", "json", *FORMATS], default="text", help="default: text"
    )
    transcribe.add_argument(
        "--json", dest="format", action="store_const", const="json", help="same as --format json"
    )
    transcribe.set_defaults(run=_transcribe)
    chat = commands.add_parser(
        "chat",
        help="ask about pictures and videos, or talk",
        description="Ask QUESTION, perhaps about pictures; without one, converse. Uses the server "
        f"at --server, else one that runs at {DEFAULT_URL}, else a private one that is started and "
        "ended.",
    )
    chat_command.add_arguments(chat)
    _add_server_arguments(chat)
    chat.set_defaults(run=_chat)
    demo = commands.add_parser(
        "demo",
        help="start a server on the demo model and stream a recording to it",
        description="Start a server, stream a bundled recording to it live, measure, and leave the "
        "server running for the browser.",
    )
    demo.add_argument("--once", action="store_true", help="end after the measurement")
    demo.add_argument("--port", type=int, default=8000, help="default: 8000, or a free one")
    demo.add_argument("--file", metavar="FILE", help="stream this instead, FILE.json beside it")
    demo.add_argument("--model", metavar="REPO_OR_FOLDER", help="serve this, not the demo model")
    demo.set_defaults(run=_demo)
    for name in plugins:
        # Only for --help: main() hands their whole command line to the server's own parser.
        commands.add_parser(name, help=f"see `lookhear {name} --help`", add_help=False)
    return parser


def _add_server_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", metavar="URL", help="for example http://127.0.0.1:8000")
    parser.add_argument("--api-key", metavar="KEY", help="or set LOOKHEAR_API_KEY")
    parser.add_argument("--model", metavar="ID", help="default: the server's first that can")


def _version() -> str:
    try:
        return metadata.version("lookhear")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "(not installed)"


def _demo(parsed: argparse.Namespace) -> int:
    from lookhear.demo import run  # only this command needs it

    return run(once=parsed.once, port=parsed.port, file=parsed.file, model=parsed.model)


def _chat(parsed: argparse.Namespace) -> int:
    chat_command.check(parsed)
    served = chat_command.served_models(parsed)
    with _server(parsed, Console(stderr=True), served) as (url, parsed.model):
        return chat_command.run(parsed, url)


def _transcribe(parsed: argparse.Namespace) -> int:
    progress_console = Console(stderr=True)
    # The private server serves what was asked for and nothing else.
    served = [parsed.model] if parsed.model else []
    with _server(parsed, progress_console, served) as (url, parsed.model):
        client = AsyncClient(url, parsed.api_key)
        if parsed.live or parsed.file == "-":
            return asyncio.run(_live(client, parsed))
        return _whole(client, parsed, progress_console)


@contextlib.contextmanager
def _server(
    parsed: argparse.Namespace, console: Console, served: Sequence[str]
) -> Iterator[tuple[str, str | None]]:
    """The server to use, the named one, the running one, or a private one that serves `served`; and
    the model there."""
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


def _whole(client: AsyncClient, parsed: argparse.Namespace, console: Console) -> int:
    """The whole file in one request, printed in the format asked for."""
    with progress(console, f"transcribing {parsed.file}"):
        wanted = {"text": "text", "json": "verbose_json"}.get(parsed.format, parsed.format)
        answer = asyncio.run(
            client.transcribe_raw(parsed.file, wanted, model=parsed.model, language=parsed.language)
        )
    if parsed.format == "json":
        answer = json.dumps(json.loads(answer), ensure_ascii=False, indent=2)
    print(answer.rstrip("\n"))
    return 0


async def _live(client: AsyncClient, parsed: argparse.Namespace) -> int:
    """Stream at the speed of speech; text as it is committed."""
    source: Source = parsed.file
    if parsed.file == "-":
        source = microphone = Microphone()
        # The first Ctrl-C ends the recording, and what was said last is still transcribed.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, microphone.stop)
    events = client.transcribe(
        source,
        model=parsed.model,
        language=parsed.language,
        provisional=parsed.format in ("text", "json"),
        pace=None if parsed.file == "-" else 1.0,
    )
    completed: list[TurnCompleted] = []
    async with contextlib.aclosing(events):
        if parsed.format == "json":
            async for event in events:
                print(json.dumps(as_json(event), ensure_ascii=False), flush=True)
        elif parsed.format in FORMATS:
            async for event in events:
                if isinstance(event, TurnCompleted):
                    completed.append(event)
            print(FORMATS[parsed.format](completed), end="")
        else:
            with LiveTranscript(Console(highlight=False)) as transcript:
                async for event in events:
                    transcript.show(event)
    return 0
