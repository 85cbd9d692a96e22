"""`lookhear bench overload`: more people come than a server holds.

Sessions arrive at random times, drawn from a seed, so many that `--times` as many would speak at
once as the server has places for. Each speaks for --seconds at the speed of speech. Who is refused
is told when to come back, and comes back then, a few times. Shown is what those inside get, and how
the others are turned away.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table
from websockets.exceptions import InvalidStatus, WebSocketException

from lookhear.bench.generator import Target
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import Trace
from lookhear.bench.numbers import Json, live_numbers
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import crowd, long_session
from lookhear.bench.subject import (
    above_zero,
    add_result_arguments,
    add_server_arguments,
    begin,
    consoles,
    finish,
    require_one_server,
    target,
    warm_up,
)
from lookhear.bench.wires import openai
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.recording import Refused, explain, recorded
from lookhear.errors import LookhearError
from lookhear.transport.address import Server

LAG, REFUSAL = 2.0, 0.05  # seconds: p95 of those inside, and of being turned away
MOST_WAIT = 30.0  # seconds that somebody stays away at most
TRIES = 3


@dataclass(slots=True)
class Turned:
    """Away. seconds: from the begin of the handshake to knowing it. retry_after: None if nobody
    said it."""

    seconds: float
    reason: str
    retry_after: float | None


@dataclass(slots=True)
class Crowd:
    """Everybody. inside: those who spoke, with what they heard. turned: refusals, in order."""

    inside: list[tuple[Session, Trace]] = field(default_factory=list)
    turned: list[Turned] = field(default_factory=list)
    came: int = 0
    gone: int = 0  # for good, without having been let in


def arrivals(count: int, rate: float, draw: random.Random) -> list[float]:
    """Seconds at which so many come, `rate` a second: a Poisson process."""
    times, now = [], 0.0
    for _ in range(count):
        now += draw.expovariate(rate)
        times.append(now)
    return times


async def visit(crowd: Crowd, job: Job, session: Session, draw: random.Random) -> None:
    """One client, until it has spoken or goes for good."""
    crowd.came += 1
    plan = SessionPlan(session.name, 0, len(session.pcm), language=session.language)
    for _ in range(TRIES):
        trace, began = Trace(session.name), time.monotonic()
        try:
            async with openai.opened(job, plan) as socket, recorded(trace):
                await openai.converse(socket, job, plan, session.pcm, trace)
        except InvalidStatus as error:
            after = error.response.headers.get("retry-after")
            reason, wait = str(error.response.status_code), float(after) if after else None
        except (Refused, OSError, WebSocketException) as error:
            reason, wait = explain(error), None
        else:
            crowd.inside.append((session, trace))
            return
        turned = Turned(time.monotonic() - began, reason, wait)
        crowd.turned.append(turned)
        away = min(turned.retry_after or 1.0, MOST_WAIT)
        await asyncio.sleep(away * draw.uniform(1.0, 1.5))
    crowd.gone += 1


async def offer(subject: Target, sessions: Sequence[Session], times: Sequence[float]) -> Crowd:
    """Everybody comes when it is their time."""
    job = Job(subject.url, "", provisional=subject.provisional, model=subject.model)
    crowd, draw = Crowd(), random.Random(len(sessions))
    began = time.monotonic()

    async def come(session: Session, at: float) -> None:
        await asyncio.sleep(began + at - time.monotonic())
        await visit(crowd, job, session, random.Random(draw.random()))

    await asyncio.gather(*(come(s, at) for s, at in zip(sessions, times, strict=True)))
    return crowd


def places(subject: Target) -> int:
    """Sessions that may speak at once, as the server says. LookhearError."""
    server = Server(subject.address, subject.api_key)
    text = server.request("/metrics").decode()
    found = [
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith(("lookhear_live_places{", "lookhear_live_speakers{"))
    ]
    if not found:
        raise LookhearError("/metrics: expected lookhear_live_places, got none: no bounded lag")
    return int(sum(found))


def numbers(crowd: Crowd) -> Json:
    """What became of all."""
    sessions = [session for session, _ in crowd.inside]
    told = [turned for turned in crowd.turned if turned.retry_after is not None]
    inside: Json = live_numbers(sessions, [trace for _, trace in crowd.inside]) if sessions else {}
    return {
        "came": crowd.came,
        "let_in": len(crowd.inside),
        "gone": crowd.gone,
        "refusals": len(crowd.turned),
        "refused_with_retry_after": len(told),
        "refusal_s": metrics.summary([turned.seconds for turned in crowd.turned]),
        "reasons": dict(Counter(turned.reason for turned in crowd.turned)),
        "inside": inside,
    }


def reasons(result: Json) -> list[str]:
    """Why it is not good enough; nothing, if it is."""
    found = []
    lag, refusal = result["inside"].get("commit_lag_s", {}), result["refusal_s"]
    if not lag.get("n"):
        found.append("nobody inside heard a word")
    elif lag["p95"] > LAG:
        found.append(f"p95 commit lag {lag['p95']:.2f} s > {LAG:g} s")
    if result["inside"].get("drops"):
        found.append(f"{result['inside']['drops']} sessions dropped")
    if refusal["n"] and refusal["p95"] > REFUSAL:
        found.append(f"p95 of refusals {refusal['p95']:.3f} s > {REFUSAL:g} s")
    silent = result["refusals"] - result["refused_with_retry_after"]
    if silent:
        found.append(f"{silent} refusals without Retry-After")
    if not result["refusals"]:
        found.append("nobody was refused")
    return found


# --- command -------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    """1 if a bound is missed. LookhearError."""
    options = _options(argv)
    console, aside = consoles(options)
    about = begin(["overload", *argv])
    with target(options, aside) as subject:
        warm_up(subject, options, aside)
        room = places(subject)
        rate = options.times * room / options.seconds
        count = max(2, round(rate * options.minutes * 60))
        spoken = long_session("speaker", 0, options.seconds, options.data, options.language)
        times = arrivals(count, rate, random.Random(options.seed))
        aside.print(f"{room} places; {count} sessions come within {times[-1]:.0f} s")
        with contextlib.suppress(OSError):  # where it may: a busy server must not delay the clock
            os.nice(-10)
        everybody = asyncio.run(offer(subject, crowd(spoken, count), times))
        result: Json = {"scenario": "overload", **about, "places": room, **numbers(everybody)}
    result["reasons"] = reasons(result)
    path = finish("overload", result, options)
    if not options.json:
        console.print(table(result))
    aside.print(f"written to {path}", style="dim")
    return 1 if result["reasons"] else 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lookhear bench overload",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser, live=False)
    add = parser.add_argument
    add("--times", type=above_zero, default=3.0, metavar="X", help="what there is room for; 3")
    add(
        "--seconds", type=above_zero, default=20.0, metavar="S", help="of each session; default: 20"
    )
    add(
        "--minutes",
        type=above_zero,
        default=2.0,
        metavar="M",
        help="in which they come; default: 2",
    )
    add("--language", default="en", metavar="CODE", help="default: en")
    add_result_arguments(parser)
    options = parser.parse_args(argv)
    require_one_server(options)
    options.wire, options.no_provisional = "openai", False
    options.serve = f"--max-lag {LAG:g} {options.serve}"  # of ours, unless --serve says another
    return options


def table(result: Json) -> Table:
    """What those inside got, and how the others were turned away."""

    def quantiles(found: Json, digits: int) -> str:
        return f"{found['p50']:.{digits}f}, {found['p95']:.{digits}f}" if found.get("n") else "-"

    title = f"\n{result['places']} places, {result['came']} sessions came"
    shown = Table(title=title, title_justify="left", box=None, show_header=False)
    inside = result["inside"]
    rows = [
        ("let in", str(result["let_in"])),
        ("commit lag p50, p95, s", quantiles(inside.get("commit_lag_s", {}), 2)),
        ("WER, %", f"{100 * inside['wer_all']:.2f}" if inside else "-"),
        ("refusals", str(result["refusals"])),
        ("of them with Retry-After", str(result["refused_with_retry_after"])),
        ("refusal p50, p95, s", quantiles(result["refusal_s"], 3)),
        ("gone for good", str(result["gone"])),
        *(("missed", reason) for reason in result["reasons"]),
    ]
    for name, value in rows:
        shown.add_row(name, value, style="bold" if name == "missed" else None)
    return shown
