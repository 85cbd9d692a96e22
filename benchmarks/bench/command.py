"""`lookhear bench`: one command for everything that is measured of servers."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import cast

from lookhear.bench.repository import from_repository

SUBCOMMANDS = {
    "live": ("lookhear.bench.live", "WER, latencies and memory of live sessions"),
    "capacity": ("lookhear.bench.prober", "the most live sessions within stated bounds"),
    "offline": ("lookhear.bench.offline", "speed, WER and memory for whole files"),
    "abuse": ("lookhear.bench.abuse.command", "what good sessions notice of attacks"),
    "chaos": ("lookhear.bench.chaos.command", "words lost or doubled while everything breaks"),
    "overload": ("lookhear.bench.overload", "who is let in and who is not, when too many come"),
    "soak": ("lookhear.bench.soak.command", "what grows or gets lost in hours of steady load"),
    "human": ("lookhear.bench.human", "people's voices, by file and live, for real models"),
    "sweep": ("lookhear.bench.sweep.command", "a grid of loads, the most that holds, on one page"),
    "dialects": ("lookhear.bench.dialects", "text and lag of every wire against OpenAI's"),
}
# Modules of benchmarks/ in the repository, that no wheel has.
IN_REPOSITORY = {
    "compare": ("peers.compare", "all of it against other servers, one table, plots"),
    "peers": ("peers.environments", "installs the other servers, each by itself"),
}
WRONG_USE = 2


def bench(argv: list[str]) -> int:
    """0 measured; 1 measured and bad, or no server; 2 wrong usage or something not installed.

    LookhearError for what one line can say: the `lookhear` command prints it.
    """
    known = SUBCOMMANDS | IN_REPOSITORY
    if argv and argv[0] in known:
        name = argv[0]
        if name in IN_REPOSITORY:
            module = from_repository(IN_REPOSITORY[name][0], f"bench {name}")
        elif importlib.util.find_spec("psutil") is None:
            return _refuse('needs pip install "lookhear[bench]" (psutil is missing)')
        else:
            module = importlib.import_module(SUBCOMMANDS[name][0])
        return cast(Callable[[list[str]], int], module.main)(argv[1:])
    if argv and argv[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if argv:
        return _refuse(f"expected one of {', '.join(known)}, got {argv[0]!r}")
    print(_usage(), file=sys.stderr)
    return WRONG_USE


def parser() -> argparse.ArgumentParser:
    """Of the first word alone: each subcommand has its own. For completion."""
    parser = argparse.ArgumentParser(prog="lookhear bench", add_help=False)
    parser.add_argument("subcommand", choices=[*SUBCOMMANDS, *IN_REPOSITORY])
    return parser


def _usage() -> str:
    lines = ["usage: lookhear bench SUBCOMMAND ...", ""]
    lines += [f"  {name:10} {about}" for name, (_, about) in SUBCOMMANDS.items()]
    lines += ["", "in a checkout of the repository:"]
    lines += [f"  {name:10} {about}" for name, (_, about) in IN_REPOSITORY.items()]
    return "\n".join([*lines, "", "`lookhear bench SUBCOMMAND --help` says more."])


def _refuse(reason: str) -> int:
    print(f"lookhear bench: {reason}", file=sys.stderr)
    return WRONG_USE
