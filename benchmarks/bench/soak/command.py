"""`lookhear bench soak`: hours at four fifths of what a server holds.

Sessions speak at the speed of speech, one after the other in each place: so many places as
--share of those that the server says it has. Beside them a minute of speech is uploaded again and
again, as wav and as mp3, and a model that sees, if there is one, is asked about small videos. Each
minute there is a row: lag, wrong words, drops, errors, and what every process of the server holds.
The result is written with every row; Ctrl-C ends it early and gives the report of what there was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from lookhear.bench.generator import Target
from lookhear.bench.numbers import Json
from lookhear.bench.overload import LAG, places
from lookhear.bench.recordings.speech import crowd, long_session
from lookhear.bench.result_file import write_result
from lookhear.bench.soak.load import Load, recordings
from lookhear.bench.soak.minutes import LEAST_ROWS, footprint, reasons, row, totals
from lookhear.bench.subject import (
    above_zero,
    add_result_arguments,
    add_server_arguments,
    begin,
    consoles,
    finish,
    models,
    require_one_server,
    target,
    warm_up,
)
from lookhear.transport.address import Server

OURS = "--model demo-whisper --model demo-qwen3-vl"


async def soak(
    load: Load, options: argparse.Namespace, count: int, pid: int | None, show: Callable[[], None],
    rows: list[Json], lags: list[list[float]],
) -> None:  # fmt: skip
    """Until it is over, or somebody interrupts it. rows, lags: get one more each minute; then
    `show` is called. count: of sessions at once."""
    draw = random.Random(options.seed)
    said = long_session("speaker", 0, options.seconds, options.data, options.language)
    upload = long_session("upload", 0, options.file_seconds, options.data, options.language)
    interrupted, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    work = [load.speak(session, random.Random(draw.random())) for session in crowd(said, count)]
    work.append(load.files(recordings(upload)))
    if load.sees is not None:
        work.append(load.videos())
    began = time.monotonic()
    tasks = [asyncio.create_task(one) for one in work]
    end = asyncio.create_task(interrupted.wait())
    try:
        while not interrupted.is_set() and (now := time.monotonic() - began) < 60 * options.minutes:
            next_row = min((len(rows) + 1) * options.every, 60 * options.minutes)
            # A task that ends is a bug of ours: none does by itself.
            done, _ = await asyncio.wait(
                [*tasks, end], timeout=next_row - now, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done - {end}:
                task.result()
            tally = load.taken()
            held = ({}, {}) if pid is None else footprint(pid)
            rows.append(row((time.monotonic() - began) / 60, tally, held))
            lags.append(tally.lags)
            show()
    finally:
        for task in [*tasks, end]:
            task.cancel()
        await asyncio.gather(*tasks, end, return_exceptions=True)
        loop.remove_signal_handler(signal.SIGINT)


# --- command -------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    """1 if something was lost, or grew. LookhearError."""
    options = _options(argv)
    console, aside = consoles(options)
    about = begin(["soak", *argv])
    rows: list[Json] = []
    lags: list[list[float]] = []
    with target(options, aside) as subject:
        warm_up(subject, options, aside)
        load = _load(subject, options)
        room = places(subject)
        count = max(1, int(options.share * room))
        aside.print(f"{room} places; {count} sessions at once for {options.minutes:g} minutes")

        def result() -> Json:
            all_of_it: Json = totals(rows, lags)
            all_of_it["reasons"] = reasons(rows, all_of_it)
            head = {"scenario": "soak", **about, "places": room, "sessions_at_once": count}
            return {**head, **all_of_it, "minutes": rows}

        def show() -> None:
            write_result(options, "soak", result())
            _print(rows[-1], aside)

        with contextlib.suppress(OSError):  # where it may: a busy server must not delay the clock
            os.nice(-10)
        asyncio.run(soak(load, options, count, subject.pid, show, rows, lags))
    done = result()
    path = finish("soak", done, options)
    if not options.json:
        console.print(table(done))
    aside.print(f"written to {path}", style="dim")
    return 1 if done["reasons"] else 0


def _load(subject: Target, options: argparse.Namespace) -> Load:
    server = Server(subject.address, subject.api_key)
    hears, sees = models(subject)
    url = server.websocket_url("/realtime", {"intent": "transcription", "model": hears})
    return Load(server, url, hears, sees, options.file_every)


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lookhear bench soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser, live=False)
    add = parser.add_argument
    add("--minutes", type=above_zero, default=120.0, metavar="M", help="default: 120")
    add("--share", type=above_zero, default=0.8, metavar="X", help="of the places; default: 0.8")
    add(
        "--seconds", type=above_zero, default=60.0, metavar="S", help="of each session; default: 60"
    )
    add("--file-seconds", type=above_zero, default=60.0, metavar="S", help="of a file; default: 60")
    add("--file-every", type=above_zero, default=20.0, metavar="S",
        help="between two files, and two videos; default: 20")  # fmt: skip
    add("--every", type=above_zero, default=60.0, metavar="S", help="between two rows; default: 60")
    add("--language", default="en", metavar="CODE", help="default: en")
    add_result_arguments(parser)
    options = parser.parse_args(argv)
    require_one_server(options)
    options.wire, options.no_provisional = "openai", False
    if options.server is None and not options.serve and options.model is None:
        options.serve = OURS
    options.serve = f"--max-lag {LAG:g} {options.serve}"  # of ours, unless --serve says another
    return options


def _print(row: Json, aside: Console) -> None:
    lag = row["commit_lag_s"]
    said = f"p50 {lag['p50']:.2f} p95 {lag['p95']:.2f} s" if lag["n"] else "no session ended"
    memory = " ".join(f"{name} {mib:.0f}" for name, mib in row["memory_mib"].items())
    counts = f"{row['drops']} drops, {row['errors']} errors"
    aside.print(f"{row['minute']:7.1f} min  {said}  {counts}  MiB: {memory}", style="dim")


def table(result: Json) -> Table:
    """What it came to."""

    def p95(lag: Json) -> str:
        return f"{lag['p95']:.2f}" if lag["n"] else "-"

    title = f"\n{result['sessions_at_once']} sessions at once, {len(result['minutes'])} rows"
    shown = Table(title=title, title_justify="left", box=None, show_header=False)
    wrong = 100 * result["wrong_words"] / max(1, result["words"])
    rows = [
        ("sessions, files, videos", f"{result['sessions']}, {result['files']}, {result['videos']}"),
        ("commit lag p95, s", p95(result["commit_lag_s"])),
        ("of the first quarter", p95(result["first_quarter_lag_s"])),
        ("of the last quarter", p95(result["last_quarter_lag_s"])),
        ("wrong words, %", f"{wrong:.2f}"),
        *(
            (f"{name}: MiB more an hour", f"{slope:.1f}")
            for name, slope in result["memory_mib_an_hour"].items()
            if len(result["minutes"]) >= LEAST_ROWS
        ),
        *(("missed", reason) for reason in result["reasons"]),
    ]
    for name, value in rows:
        shown.add_row(name, value, style="bold" if name == "missed" else None)
    return shown
