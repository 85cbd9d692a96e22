"""`lookhear bench compare`: this server and others, on the same checkpoint, machine and audio.

One server at a time, each with the same cap of threads, streamed to from the same generator: what
it hears (WER), when (latencies), what that costs, and how many sessions it holds (--capacity).
What was measured is kept in the result file, so that servers can be measured one by one (--keep)
and the table and the plots can be drawn again (--read).
"""

from __future__ import annotations

import argparse
import contextlib
import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.peers import compare_table, plots
from benchmarks.peers.checkpoints import DEMO_WHISPER
from benchmarks.peers.engines import check_engines, engine_numbers
from benchmarks.peers.files import OFFLINE
from benchmarks.peers.servers import PEERS, PeerServer
from lookhear.bench import machine
from lookhear.bench.capacity import search
from lookhear.bench.generator import Target
from lookhear.bench.numbers import Json
from lookhear.bench.offline import add_engine_arguments
from lookhear.bench.prober import Prober, add_bound_arguments, as_json, bounds_of, measure
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import long_session, sentences
from lookhear.bench.result_file import earlier_result, result_file
from lookhear.bench.subject import (
    add_result_arguments,
    begin,
    consoles,
    finish,
    warm_up,
)
from lookhear.errors import ConnectionFailed, LookhearError, SourceError, UsageError
from lookhear.terminal.progress import progress

# The engine whose offline WER a server's live WER is held against; of all others FALLBACK.
OFFLINE_OF = {"lookhear": "lookhear"}
FALLBACK = "faster-whisper"
PACKET_SECONDS = 0.1  # of audio, for every server: what the peers' own clients send at least


def measure_server(
    name: str, session: Session, options: argparse.Namespace, console: Console
) -> Json:
    """Start the server, measure it, end it. LookhearError."""
    found: Json = {"date": begin([])["date"], "load_average_before": machine.load_average()}
    peer = PEERS[name]
    with contextlib.ExitStack() as stack:
        with progress(console, f"starting {name}"):
            server = PeerServer(
                peer,
                options.checkpoint or DEMO_WHISPER,
                threads=options.threads,
                language=options.language,
            )
            stack.enter_context(server)
        subject = Target(server.url, server.wire, pid=server.pid)
        warm_up(subject, options, console)

        def ask(sessions: int) -> Json:
            return measure(
                subject,
                session,
                sessions,
                console,
                seed=options.seed,
                packet_seconds=PACKET_SECONDS,
            )

        prober = Prober(ask, console)
        if options.capacity:  # first: what it finds not to be a measurement, it measures again
            found |= capacities(prober, options, console)
        found |= {"live": {}, "broken": {}}
        for count in options.sessions:
            try:
                found["live"][str(count)] = prober.numbers(count)
            except ConnectionFailed as error:
                found["broken"][str(count)] = str(error)
    return found


def capacities(prober: Prober, options: argparse.Namespace, console: Console) -> Json:
    """The most sessions by committed text, and by text that was shown and stayed."""
    found = {}
    for key, settled in (("capacity", False), ("capacity_settled", True)):
        console.print(f"by {'settled' if settled else 'committed'} text", style="dim")
        bounds = replace(bounds_of(options), settled=settled)
        held = search(prober.by(bounds), options.most, options.tolerance)
        found[key] = as_json(held, bounds)
    return found


def add_gaps(result: Json) -> None:
    """The streaming gap of every server: its live WER above that of the same checkpoint offline, on
    the same words, cut at their pauses."""
    for name, server in result["servers"].items():
        whole = result["offline"].get(OFFLINE_OF.get(name, FALLBACK), {})
        for live in server.get("live", {}).values():
            if "wer_all" in whole:
                live["streaming_gap"] = round(live["wer_all"] - whole["wer_all"], 4)


# --- command -------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Of `lookhear bench compare`."""
    found = argparse.ArgumentParser(
        prog="lookhear bench compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("servers", nargs="*", metavar="SERVER", help=", ".join(PEERS))
    add_engine_arguments(found)
    found.add_argument("--seconds", type=float, default=60.0, metavar="S", help="per session")
    found.add_argument(
        "--sessions", type=int, nargs="+", default=[1], metavar="N", help="at once; default: 1"
    )
    found.add_argument("--language", default="en", metavar="CODE", help="default: en")
    found.add_argument("--capacity", action="store_true", help="search for the most sessions")
    add_bound_arguments(found)
    found.add_argument("--keep", action="store_true", help="what the result file has of others")
    found.add_argument("--read", type=Path, metavar="FILE", help="show this result, run nothing")
    found.add_argument("--images", type=Path, help="folder for the plots; default: the result's")
    add_result_arguments(found)
    return found


def main(argv: list[str]) -> int:
    """1 if a server could not be measured. LookhearError."""
    options = parser().parse_args(argv)
    console, aside = consoles(options)
    if options.read is not None:
        result = _read(options.read)
    else:
        result = _measure(argv, options, aside)
    images = options.images or result_file(options, "compare").parent
    drawn = plots.draw(result, images)
    if not options.json:
        for table in compare_table.tables(result):
            console.print(table)
        console.print(f"plots: {', '.join(map(str, drawn)) or 'none'}", style="dim")
    return 1 if any("failed" in found for found in result["servers"].values()) else 0


def _measure(argv: list[str], options: argparse.Namespace, console: Console) -> Json:
    everything = not options.servers and not options.engine
    names = list(PEERS) if everything else options.servers
    engines = list(OFFLINE) if everything else options.engine or []
    check_engines(engines)
    for name in names:
        if name not in PEERS:
            raise UsageError(f"server: expected one of {', '.join(PEERS)}, got {name!r}")
    if min(options.sessions) < 1:
        raise UsageError(f"--sessions: expected at least 1, got {min(options.sessions)}")
    bounds_of(options)
    spoken = long_session("speaker", 0, options.seconds, options.data, options.language)
    result: Json = {"scenario": "compare", **begin(["compare", *argv])}
    result |= {
        "threads": options.threads,
        "seconds": options.seconds,
        "language": options.language,
        "checkpoint": (options.checkpoint or DEMO_WHISPER).name,
        "offline": {},
        "servers": {},
    }
    if options.keep and (path := earlier_result(options, "compare")):
        before = _read(path)
        result |= {key: before.get(key, {}) for key in ("offline", "servers")}
    # Nothing may be printed before the last server is measured: --json is one result.
    quiet = argparse.Namespace(**{**vars(options), "json": False})
    for name in engines:
        console.print(f"{name}, offline", style="bold")
        try:
            result["offline"][name] = engine_numbers(name, sentences(spoken), options, console)
        except LookhearError as error:
            console.print(f"{name}: {error}", style="red")
            result["offline"][name] = {"failed": str(error).splitlines()[0]}
    for name in names:
        console.print(f"{name}, live", style="bold")
        try:
            result["servers"][name] = measure_server(name, spoken, options, console)
        except LookhearError as error:
            console.print(f"{name}: {error}", style="red")
            result["servers"][name] = {"failed": str(error).splitlines()[0]}
        add_gaps(result)
        finish("compare", result, quiet)  # a later server that hangs does not cost the earlier
    add_gaps(result)
    finish("compare", result, options)
    return result


def _read(path: Path) -> Json:
    """SourceError."""
    try:
        result: Json = json.loads(path.read_text("utf-8"))
        if result["scenario"] != "compare":
            raise ValueError(f"a result of {result['scenario']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{path}: expected a result of bench compare: {error}") from error
    return result
