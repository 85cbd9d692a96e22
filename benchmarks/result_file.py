"""The file of a result: JSON, one per scenario and label."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from lookhear.benchmarks import machine

_FOLDER = Path(__file__).resolve().parent / "results"
RESULTS = _FOLDER if _FOLDER.is_dir() else Path()  # installed without the repository: here


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--label", default="", help="added to the names of the result files")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the result files")


def result_file(options: argparse.Namespace, name: str) -> Path:
    label = f"-{options.label}" if options.label else ""
    out: Path = options.out
    return out / f"{name}{label}.json"


def write_result(options: argparse.Namespace, name: str, result: dict[str, Any]) -> Path:
    """The path. Adds the load average, which is the one after the run."""
    result["load_average_after"] = machine.load_average()
    options.out.mkdir(parents=True, exist_ok=True)
    path = result_file(options, name)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    # Rows of numbers on one line each.
    text = re.sub(r"\[[\s\d.,eE+-]+\]", lambda row: " ".join(row[0].split()), text)
    path.write_text(text + "\n", "utf-8")
    return path
