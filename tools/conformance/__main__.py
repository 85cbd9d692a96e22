"""`python -m tools.conformance [CASE ...]`: RFC 6455, as the Autobahn test suite sees our sockets.

CASE is a case or a section of them, like 9.3. 1 if a case fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lookhear.bench import machine
from tools.conformance import suite

Json = dict[str, Any]
FUZZER = Path(__file__).with_name("fuzzer.py")
# INFORMATIONAL: what to do is left open. NON-STRICT: allowed, but later than one could.
GOOD = ("OK", "INFORMATIONAL", "NON-STRICT")


def outcomes(packages: Path, cases: Sequence[str]) -> Iterator[Json]:
    """Of each case as it ends."""
    echo = subprocess.Popen(
        [sys.executable, "-m", "tools.conformance.echo"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with echo:
        assert echo.stdout is not None
        url = f"ws://127.0.0.1:{int(echo.stdout.readline())}"
        paths = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, str(FUZZER), url, *cases]
        environment = {**os.environ, "PYTHONPATH": paths}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment
        ) as fuzzer:
            assert fuzzer.stdout is not None
            for line in fuzzer.stdout:
                yield json.loads(line)
        if fuzzer.returncode:
            sys.exit(f"the fuzzing client failed ({fuzzer.returncode})")


def is_good(outcome: Json) -> bool:
    """Whether the server did nothing wrong."""
    return outcome["behavior"] in GOOD and outcome["close"] in GOOD


def table(found: Sequence[Json]) -> Table:
    """A line for each section."""
    shown = Table(box=None)
    for column in ("cases", "run", "ok", "non-strict", "informational", "failed", "slowest s"):
        shown.add_column(column, justify="right")
    for section in dict.fromkeys(outcome["case"].split(".")[0] for outcome in found):
        own = [outcome for outcome in found if outcome["case"].split(".")[0] == section]
        good = Counter(outcome["behavior"] for outcome in own if is_good(outcome))
        failed = sum(not is_good(outcome) for outcome in own)
        slowest = max(outcome["seconds"] for outcome in own)
        counts = (len(own), *(good[name] for name in ("OK", "NON-STRICT", "INFORMATIONAL")), failed)
        shown.add_row(f"{section}.*", *map(str, counts), f"{slowest:.2f}")
    return shown


def main(argv: Sequence[str]) -> int:
    """Get the suite, run it, say what failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.conformance", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all")
    parser.add_argument("--packages", type=Path, metavar="FOLDER", help="keep the suite there")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write conformance.json there")
    options = parser.parse_args(argv)
    console, about = Console(), machine.describe(["tools.conformance", *options.cases])
    with tempfile.TemporaryDirectory() as temporary:
        packages: Path = options.packages or Path(temporary)
        if not (packages / "case").exists():
            suite.fetch(packages)
        found = []
        for outcome in outcomes(packages, options.cases):
            found.append(outcome)
            if not is_good(outcome):
                console.print(f"{outcome['case']}: {outcome['behavior']}, {outcome['result']}")
                console.print(f"  close: {outcome['close']}, {outcome['close_result']}")
    console.print(table(found))
    if options.out is not None:
        result = {"scenario": "conformance", **about, "suite": suite.SUITE, "cases": found}
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / "conformance.json"
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if found and all(map(is_good, found)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
