"""Where the GPU's programs write, and that they end in time."""

from __future__ import annotations

import faulthandler
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results"
CUT_OFF = 124  # exit status, as `timeout` has it
GRACE = 15.0  # seconds for the last words of a program that is cut off


def output_path(name: str, chosen: Path | None, *, is_trial: bool) -> Path | None:
    """Where a program's result goes: what was chosen, else the folder in the variable OUT, else
    benchmarks/results; None for a trial without a device that chose nothing."""
    if chosen is not None:
        return chosen
    folder = os.environ.get("OUT")
    if folder:
        return Path(folder) / name
    return None if is_trial else RESULTS / name


def write_json(path: Path | None, document: Any) -> None:
    """Whole or not at all: who is stopped meanwhile leaves the file before."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(path.name + ".new")
    whole.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    whole.replace(path)


def end_within(seconds: float, last_words: Callable[[], None]) -> Callable[[], None]:
    """Ends this process after so many seconds with CUT_OFF, whatever it waits for, a device that
    hangs included; last_words is called before. Returns what calls it off."""

    def cut_off() -> None:
        try:
            last_words()
        finally:
            os._exit(CUT_OFF)

    timer = threading.Timer(max(0.0, seconds), cut_off)
    timer.daemon = True
    timer.start()
    # Where even a thread of Python's gets no turn. Its traceback says where the time went.
    faulthandler.dump_traceback_later(max(0.0, seconds) + GRACE, exit=True)

    def call_off() -> None:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()

    return call_off
