"""`lookhear bench`: one command for everything that is measured of servers."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import cast

SUBCOMMANDS = {
    "live": ("lookhear.benchmarks.live", "WER, latencies and memory of live sessions"),
    "capacity": ("lookhear.benchmarks.prober", "the most live sessions within stated bounds"),
    "offline": ("lookhear.benchmarks.offline", "speed, WER and memory for whole files"),
    "compare": ("lookhear.benchmarks.compare", "all of it against other servers, one table, plots"),
    "peers": (
        "lookhear.benchmarks.peers.environments",
        "installs the other servers, each by itself",
    ),
}
NEEDED = ("psutil", "matplotlib")
WRONG_USE = 2


def bench(argv: list[str]) -> int:
    """0 measured; 1 measured and bad, or no server; 2 wrong usage or something not installed.

    LookhearError for what one line can say: the `lookhear` command prints it.
    """
    if argv and argv[0] in SUBCOMMANDS:
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            return _refuse(f'needs pip install "lookhear[bench]" ({missing[0]} is missing)')
        module = importlib.import_module(SUBCOMMANDS[argv[0]][0])
        return cast(Callable[[list[str]], int], module.main)(argv[1:])
    if argv and argv[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if argv:
        return _refuse(f"expected one of {', '.join(SUBCOMMANDS)}, got {argv[0]!r}")
    print(_usage(), file=sys.stderr)
    return WRONG_USE


def _usage() -> str:
    lines = ["usage: lookhear bench SUBCOMMAND ...", ""]
    lines += [f"  {name:10} {about}" for name, (_, about) in SUBCOMMANDS.items()]
    return "\n".join([*lines, "", "`lookhear bench SUBCOMMAND --help` says more."])


def _refuse(reason: str) -> int:
    print(f"lookhear bench: {reason}", file=sys.stderr)
    return WRONG_USE
