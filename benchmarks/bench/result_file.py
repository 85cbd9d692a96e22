"""The file of a result: JSON, one per scenario and label."""

from __future__ import annotations

import argparse
import json
import os
import re
import stat
import time
from pathlib import Path
from typing import Any

from lookhear.bench import machine

FRESH = Path("bench-results")  # in the current folder


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """--label and --out, and when this run began, by which its files are named without --out."""
    parser.add_argument("--label", default="", help="added to the names of the result files")
    parser.add_argument(
        "--out",
        type=_folder,
        metavar="FOLDER",
        help="write NAME.json there, over what an earlier run wrote; "
        f"default: a new file in ./{FRESH}, NAME-DATE-TIME.json",
    )
    parser.set_defaults(began=time.strftime("%Y%m%d-%H%M%S"))


def _folder(text: str) -> Path:
    """One that can be written into, or made: asked before hours of measuring, not after.
    ArgumentTypeError."""
    folder = Path(text)
    for place in (folder.absolute(), *folder.absolute().parents):
        try:
            is_folder = stat.S_ISDIR(os.stat(place).st_mode)
        except FileNotFoundError:
            continue
        except OSError as error:
            problem = f"expected a folder, got {text} ({error.strerror})"
            raise argparse.ArgumentTypeError(problem) from None
        if not is_folder:
            raise argparse.ArgumentTypeError(f"expected a folder, got {text}, a file")
        if not os.access(place, os.W_OK):
            raise argparse.ArgumentTypeError(f"expected a folder to write into, got {text}")
        break
    return folder


def result_file(options: argparse.Namespace, name: str) -> Path:
    """Where this run writes the result of this name."""
    stem = _stem(options, name)
    if options.out is None:
        return FRESH / f"{stem}-{options.began}.json"
    return Path(options.out) / f"{stem}.json"


def earlier_result(options: argparse.Namespace, name: str) -> Path | None:
    """What a run before, of the same label, wrote down for this name: the newest."""
    if options.out is not None:
        path = result_file(options, name)
        return path if path.is_file() else None
    dated = FRESH.glob(f"{_stem(options, name)}-{'[0-9]' * 8}-{'[0-9]' * 6}.json")
    return max(dated, default=None)


def _stem(options: argparse.Namespace, name: str) -> str:
    return f"{name}-{options.label}" if options.label else name


def write_result(options: argparse.Namespace, name: str, result: dict[str, Any]) -> Path:
    """The path. Adds the load average, which is the one after the run."""
    result["load_average_after"] = machine.load_average()
    path = result_file(options, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    # Rows of numbers on one line each.
    text = re.sub(r"\[[\s\d.,eE+-]+\]", lambda row: " ".join(row[0].split()), text)
    whole = path.with_suffix(".new")
    whole.write_text(text + "\n", "utf-8")
    whole.replace(path)  # who reads it meanwhile finds the one before
    return path
