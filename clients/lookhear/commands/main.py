"""The `lookhear` command. `serve` and others are not the client's: found by entry point."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import cast

import lookhear
from lookhear.commands import chat, environment, listen, transcribe, variables, wyoming
from lookhear.commands.private_server import NEEDS_SERVER
from lookhear.commands.server_choice import EXPLANATION, add_server_arguments
from lookhear.errors import (
    KEY_HINT,
    AddressError,
    AuthenticationError,
    LookhearError,
    NotInstalled,
    UsageError,
)
from lookhear.terminal.output import patient

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of what is written
COMMANDS = "lookhear.commands"  # the entry-point group: `name(argv) -> exit status`
PARSERS = "lookhear.parsers"  # of some of these: `name() -> parser`, for completion
# What the server's own commands do, known without loading them.
PLUGINS = {
    "serve": "start a server",
    "models": "list what is packaged, downloaded or served",
    "check": "try a model here: does it agree with transformers, what does it cost",
    "bench": "measure a server: errors, latencies, capacity",
    "tune": "measure this GPU's kernels and keep the fastest",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 failed, 2 wrong usage or something is not installed, 130 Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if os.path.expanduser("~") == "~":  # a user of whom the system knows nothing
        os.environ["HOME"] = "/"  # as docker and login have it
    _open_closed_streams()
    sys.stderr = patient(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a terminal's encoding lacks, or a file's name has beyond it, ends nothing.
            stream.reconfigure(errors="backslashreplace")
    for line in variables.unread(os.environ, lambda: _parsers().get("serve")):
        print(f"lookhear: {line}", file=sys.stderr)
    try:
        try:
            return _run(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # while what goes wrong with it can still be told
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _discard_output()  # whoever read it is gone; there is nobody to tell
        return 1
    except LookhearError as error:
        is_about_key = isinstance(error, AuthenticationError) and error.code == "invalid_api_key"
        hint = f"; {KEY_HINT}" if is_about_key else ""
        print(f"lookhear: {error}{hint}", file=sys.stderr)
        return 2 if isinstance(error, (AddressError, NotInstalled, UsageError)) else 1
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        _discard_output()
        print(f"lookhear: cannot write the output: {error.strerror}", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    """The command that the arguments name; its exit status."""
    plugins = metadata.entry_points(group=COMMANDS)
    if arguments and arguments[0] in plugins.names:
        return _plugin(plugins[arguments[0]], arguments[1:])
    parser = _parser(sorted(plugins.names))
    if not arguments:
        parser.print_help()
        return 2
    parsed = parser.parse_args(arguments)
    return cast(Callable[[argparse.Namespace], int], parsed.run)(parsed)


def _open_closed_streams() -> None:
    """Those that some supervisors leave closed lead nowhere: whatever is opened next would get
    their numbers, and what is told there."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, which is this one. Our children have it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))


def _discard_output() -> None:
    """Nothing more can be written to stdout, and what it holds back would fail again at exit."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


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


def _parser(
    plugins: Sequence[str], parsers: Mapping[str, argparse.ArgumentParser] | None = None
) -> argparse.ArgumentParser:
    """parsers: of plugins, where their options are wanted, too."""
    parser = argparse.ArgumentParser(
        prog="lookhear", description="Live transcription and chat: client, demo and server."
    )
    parser.add_argument("--version", action="version", version=f"lookhear {lookhear.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module, does, description in (
        (
            listen,
            "transcribe the microphone, or a stream from a pipe",
            "Show what is said into the microphone while it is said; Ctrl-C ends, and what was "
            "said last is still shown.",
        ),
        (transcribe, "transcribe files", "Transcribe FILEs, as fast as they go."),
        (
            chat,
            "ask about pictures and videos, or talk",
            "Ask QUESTION, perhaps about pictures; without one, converse.",
        ),
        (
            wyoming,
            "serve Home Assistant and others that speak Wyoming",
            "Transcribe for clients of the Wyoming protocol, until Ctrl-C.",
        ),
    ):
        name = module.__name__.rpartition(".")[2]
        command = commands.add_parser(name, help=does, description=f"{description} {EXPLANATION}")
        module.add_arguments(command)
        add_server_arguments(command)
        command.set_defaults(run=module.run)
    demo = commands.add_parser(
        "demo",
        help="start a server and stream a recording to it",
        description="Start a server, stream a bundled recording to it live, measure, and leave the "
        "server running for the browser.",
    )
    demo.add_argument("--once", action="store_true", help="end after the measurement")
    demo.add_argument("--port", type=int, default=8000, help="default: 8000, or a free one")
    demo.add_argument("--file", metavar="FILE", help="stream this instead, FILE.json beside it")
    demo.add_argument("--model", metavar="REPO_OR_FOLDER", help="serve this one alone")
    demo.set_defaults(run=_demo)
    report = commands.add_parser(
        "env", help="describe this machine and installation, for an issue",
        description="Print versions, processor, memory, GPU, models and settings, without keys.",
    )  # fmt: skip
    report.set_defaults(run=lambda _: environment.run())
    script = commands.add_parser(
        "completion", help="print a script that completes this command in your shell",
        description="Print a script for the shell to load: completion of commands, options, files, "
        "models. How to load it: docs/settings.md.",
    )  # fmt: skip
    script.add_argument("shell", choices=["bash", "zsh", "fish"])
    script.set_defaults(run=lambda parsed: _completion(parsed.shell, plugins))
    for name in plugins:
        # Only for --help: main() hands their whole command line to the server's own parser.
        described = PLUGINS.get(name, f"see `lookhear {name} --help`")
        own = [parsers[name]] if parsers and name in parsers else []
        commands.add_parser(name, help=described, add_help=False, parents=own)
    return parser


def _completion(shell: str, plugins: Sequence[str]) -> int:
    """The script, with the options of all that can be loaded here."""
    from lookhear.commands.completion import script  # only this command needs it

    print(script(_parser(plugins, _parsers()), shell))
    return 0


def _parsers() -> dict[str, argparse.ArgumentParser]:
    """Of the server's own commands, by name."""
    parsers = {}
    for entry in metadata.entry_points(group=PARSERS):
        with contextlib.suppress(ModuleNotFoundError):  # it belongs to a part that is not installed
            parsers[entry.name] = cast(Callable[[], argparse.ArgumentParser], entry.load())()
    return parsers


def _demo(parsed: argparse.Namespace) -> int:
    from lookhear.commands.demo import run  # only this command needs it

    return run(once=parsed.once, port=parsed.port, file=parsed.file, model=parsed.model)
