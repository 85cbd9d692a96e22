"""`lookhear bench sweep`: a grid of loads on each of several servers, and one page of results.

Servers: `--variant NAME="ARGUMENTS OF lookhear serve"`, repeated; or one that runs, by --server.
Loads: live sessions (--sessions) and files that come by chance, so many a second (--rates), each
with recordings of every length (--lengths). --search finds the most of both that holds the bounds.
--attention times attention alone, without a model (in a checkout of the repository).

What was measured is written down point by point. Asked again with the same --out and --label, a
sweep goes on where it was stopped; more loads, lengths or variants are added to what is there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lookhear.bench.capacity import Bounds, Capacity, Probe, search
from lookhear.bench.generator import Target
from lookhear.bench.numbers import Json
from lookhear.bench.prober import Prober, add_bound_arguments, bounds_of, measure
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import crowd, long_session
from lookhear.bench.repository import from_repository
from lookhear.bench.result_file import FRESH
from lookhear.bench.subject import (
    above_zero,
    add_result_arguments,
    add_server_arguments,
    at_least_one,
    begin,
    consoles,
    finish,
    models,
    target,
    warm_up,
)
from lookhear.bench.sweep import arrivals, page
from lookhear.bench.sweep.points import Journal, Point, Variant
from lookhear.client import AsyncClient
from lookhear.errors import UsageError

FIRST_SECONDS = 2.0  # of the file whose text is the first
FEWEST_FILES = 8  # of a load: fewer have no p95
ROWS, LENGTHS = (1, 8, 32), (128, 512, 1500)  # of attention


@dataclass
class Subject:
    """A variant, started when something of it is to be measured, and not before."""

    variant: Variant
    options: argparse.Namespace
    console: Console
    stack: contextlib.ExitStack
    _target: Target | None = None
    _is_warm: bool = False
    start: Json = field(default_factory=dict)

    def target(self) -> Target:
        """Started, and asked once. LookhearError."""
        if self._target is None:
            options = argparse.Namespace(**vars(self.options))
            options.serve = self.variant.arguments
            began = time.monotonic()
            found = self.stack.enter_context(target(options, self.console))
            ready = time.monotonic()
            file = long_session("first", 0, FIRST_SECONDS, options.data, options.language)
            asyncio.run(arrivals.over_http(*self._client(found))(file))
            self.start = {"ready_s": ready - began, "first_text_s": time.monotonic() - ready}
            self._target = found
        return self._target

    def started(self) -> Json:
        """How long that took."""
        self.target()
        return {name: round(seconds, 3) for name, seconds in self.start.items()}

    def live(self, length: float, sessions: int) -> Json:
        """So many sessions of so many seconds at once."""
        speaker, seed, server = self._speaker(length), self.options.seed, self.target()
        if not self._is_warm:
            warm_up(server, self.options, self.console)
            self._is_warm = True
        found = measure(server, speaker, sessions, self.console, seed=seed)
        del found["lags"]
        return found | {"audio_per_second": float(sessions)}

    def files(self, length: float, rate: float) -> Json:
        """So many files of so many seconds a second, by chance."""
        count = max(FEWEST_FILES, round(rate * self.options.seconds))
        said = crowd(self._speaker(length), count)
        due = arrivals.moments(rate, count, self.options.seed)
        ask = arrivals.over_http(*self._client(self.target()))
        return arrivals.numbers(said, *asyncio.run(arrivals.arrivals(ask, said, due)))

    def _speaker(self, length: float) -> Session:
        return long_session("speaker", 0, length, self.options.data, self.options.language)

    def _client(self, found: Target) -> tuple[AsyncClient, str]:
        model = found.model or models(found)[0]
        return AsyncClient(found.address, found.api_key), model


@dataclass
class Sweep:
    """All of it, measured or remembered."""

    options: argparse.Namespace
    bounds: Bounds
    journal: Journal
    console: Console
    searches: list[Json] = field(default_factory=list)

    def run(self, variants: Sequence[Variant]) -> None:
        """LookhearError."""
        for variant in variants:
            with contextlib.ExitStack() as stack:
                self._variant(Subject(variant, self.options, self.console, stack))
        if self.options.attention:
            self._attention()

    def _variant(self, subject: Subject) -> None:
        options, variant = self.options, subject.variant
        if options.server is None:
            self._numbers(Point("start", variant, self._about), subject.started)
        for length in options.lengths:
            for sessions in options.sessions:
                self._live(subject, length, sessions)
            for rate in options.rates:
                self._files(subject, length, rate)
            if options.search:
                self._search(subject, length)

    @property
    def _about(self) -> str:
        options = self.options
        return f"{options.data} {options.language} model={options.model} seed={options.seed}"

    def _live(self, subject: Subject, length: float, sessions: int) -> Json:
        about = f"{self._about} wire={self.options.wire}"
        if self.options.no_provisional:
            about += " no-provisional"
        point = Point("live", subject.variant, about, length, sessions)
        return self._numbers(point, lambda: subject.live(length, sessions))

    def _files(self, subject: Subject, length: float, rate: float) -> Json:
        about = f"{self._about} seconds={self.options.seconds:g}"
        point = Point("files", subject.variant, about, length, rate)
        return self._numbers(point, lambda: subject.files(length, rate))

    def _numbers(self, point: Point, work: Any) -> Json:
        is_known = self.journal.has(point)
        late = self.bounds.late
        found = self.journal.numbers(
            point, work, lambda numbers: numbers.get("generator_late_s", 0.0) <= late
        )
        if not is_known:
            name = point.variant.name if point.variant else point.about
            load = f", {point.length:g} s, load {point.load:g}" if point.load else ""
            self.console.print(f"{point.kind}: {name}{load}", style="dim")
        return found

    def _search(self, subject: Subject, length: float) -> None:
        """The most sessions, and the most files a second."""
        options, bounds = self.options, self.bounds
        prober = Prober(lambda n: self._live(subject, length, n), self.console)
        found = search(prober.by(bounds), options.most, options.tolerance)
        by = f"p95 lag <= {bounds.lag:g} s, p95 final <= {bounds.final:g} s"
        self._searched(subject, "live sessions", length, found, 1.0, by)
        if not options.rates:
            return
        step = options.rate_step

        def probe(units: int) -> Probe:
            rate = round(units * step, 6)
            return arrivals.verdict(units, self._files(subject, length, rate), bounds)

        most = max(1, math.floor(options.most_rate / step))
        found = search(probe, most, options.tolerance)
        by = f"p95 answer <= {bounds.final:g} s, none refused"
        self._searched(subject, "files a second", length, found, step, by)

    def _searched(
        self, subject: Subject, of: str, length: float, found: Capacity, step: float, by: str
    ) -> None:
        most = round(found.sessions * step, 6)
        told = {"variant": subject.variant.name, "of": of, "length": length, "most": most}
        self.searches.append({**told, "limited_by": found.limited_by, "by": by})

    def _attention(self) -> None:
        shapes: Any = from_repository("in_process.attention", "bench sweep --attention")
        for kind in shapes.KINDS:
            for rows in ROWS:
                for length in LENGTHS:
                    point = Point("attention", None, kind, length, rows)
                    self._numbers(point, lambda k=kind, r=rows, n=length: shapes.measured(k, r, n))


def tables(result: Json) -> Iterator[Table]:
    """What the page says, for a terminal."""
    points = result["points"]
    for title, columns, rows in (
        ("the most that holds", page.SEARCHED, page.searched(result["searches"])),
        ("start", page.STARTED, page.started(points)),
        ("live sessions", page.LIVE, page.live(points)),
        ("files", page.FILES, page.files(points)),
        ("attention alone", page.ATTENTION, page.attention(points)),
    ):
        if rows:
            table = Table(*columns, title=f"\n{title}", title_justify="left", box=None)
            for row in rows:
                table.add_row(*map(str, row))
            yield table


def main(argv: list[str]) -> int:
    """LookhearError."""
    options = _options(argv)
    variants, bounds = _variants(options), bounds_of(options)
    console, aside = consoles(options)
    options.out = Path(options.out or FRESH)  # a sweep that is asked for again finds its file
    stem = f"sweep-{options.label}" if options.label else "sweep"
    about = begin(["sweep", *argv])
    journal = Journal(options.out / f"{stem}.jsonl", _of_each(about))
    if journal.num_known:
        aside.print(f"{journal.num_known} points are known from before", style="dim")
    sweep = Sweep(options, bounds, journal, aside)
    html = options.out / f"{stem}.html"
    try:
        sweep.run(variants)
    finally:  # stopped or not: what is known is shown
        result = {"scenario": "sweep", **about, "searches": sweep.searches}
        result["points"] = journal.entries()
        options.out.mkdir(parents=True, exist_ok=True)
        html.write_text(page.page(result), "utf-8")
    finish("sweep", result, options)
    if not options.json:
        for table in tables(result):
            console.print(table)
    aside.print(f"written to {html}", style="dim")
    return 0


def _of_each(about: Json) -> Json:
    """What is written beside each point."""
    return {name: about[name] for name in ("date", "commit", "cpu", "cores")}


def _variants(options: argparse.Namespace) -> list[Variant]:
    """UsageError."""
    if options.server is not None:
        if options.variant or options.serve:
            raise UsageError("--variant and --serve start servers: leave --server out with them")
        return [Variant(options.server, options.server)]
    if not options.variant:
        return [Variant.unnamed(options.serve)]
    found = [Variant.of(text) for text in options.variant]
    names = [variant.name for variant in found]
    if len(set(names)) < len(names):
        raise UsageError(f"--variant: expected a name of its own for each, got {', '.join(names)}")
    return found


def _options(argv: list[str]) -> argparse.Namespace:
    """UsageError."""
    parser = argparse.ArgumentParser(
        prog="lookhear bench sweep",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser)
    add: Any = parser.add_argument
    add("--variant", action="append", metavar="NAME=ARGS", help="of `lookhear serve`; repeated")
    add("--lengths", nargs="+", type=above_zero, default=[20.0], metavar="S", help="default: 20")
    add(
        "--sessions",
        nargs="*",
        type=at_least_one,
        default=[1],
        metavar="N",
        help="at once; default: 1",
    )
    add("--rates", nargs="*", type=above_zero, default=[], metavar="R", help="files a second")
    add("--seconds", type=above_zero, default=30.0, metavar="S", help="of each rate; default: 30")
    add("--search", action="store_true", help="the most that holds the bounds, too")
    add("--most-rate", type=above_zero, default=8.0, metavar="R", help="to try at most; default: 8")
    add(
        "--rate-step", type=above_zero, default=0.1, metavar="R", help="of the search; default: 0.1"
    )
    add("--attention", action="store_true", help="attention alone, too")
    add("--language", default="en", metavar="CODE", help="default: en")
    add_bound_arguments(parser)
    add_result_arguments(parser)
    return parser.parse_args(argv)
