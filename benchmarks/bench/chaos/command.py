"""`lookhear bench chaos`: what is lost or doubled while everything breaks.

Sessions of the Python client speak at the speed of speech through a proxy, once undisturbed, and
then again and again while faults come, drawn from a seed, until there were enough of them. Words
that the undisturbed text has and a disturbed one has not are lost; the other way round they are
doubled. The server is the benchmark's own, on this machine.

cut-sockets    every connection is reset         kill-engine    SIGKILL; the gateway starts it
freeze-sockets nothing passes for 0.5 to 3 s     freeze-engine  SIGSTOP for 0.5 to 3 s
cut-frozen     the same, and what waits is lost  kill-gateway   SIGKILL; it is started again
kill-decoders  SIGKILL of the file workers       freeze-gateway SIGSTOP for 0.5 to 3 s
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from rich.table import Table

from lookhear.bench.chaos.faults import FAULTS, OF_WORKERS, Chaos
from lookhear.bench.chaos.proxy import Proxy
from lookhear.bench.numbers import Json
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import crowd, long_session
from lookhear.bench.subject import (
    above_zero,
    add_result_arguments,
    begin,
    consoles,
    finish,
    private_server,
)
from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.errors import LookhearError, UsageError
from lookhear.live.events import Reconnecting, SessionReady, TurnCompleted, TurnFailed
from lookhear.transport.retry import Retry
from lookhear.wer import normalise, word_errors

PATIENCE = Retry(first=0.2, cap=2.0, seconds=300.0)


@dataclass(slots=True)
class Said:
    """What became of one session. error: why it did not come to its end, "" if it did."""

    session: str
    text: str = ""
    reconnects: int = 0
    replays: int = 0  # of them, how many had to say turns again
    sessions: int = 0  # of the server
    turns_failed: int = 0
    error: str = ""


async def speak(session: Session, port: int, pace: float) -> Said:
    """One session from its first sample to its last word."""
    said = Said(session.name)
    pieces = (session.pcm[at : at + 2400].tobytes() for at in range(0, len(session.pcm), 2400))
    turns: list[TurnCompleted] = []
    ids: set[str] = set()
    client = AsyncClient(f"http://127.0.0.1:{port}", retry=PATIENCE)
    try:
        async for event in client.transcribe(pieces, language=session.language, pace=pace):
            match event:
                case TurnCompleted():
                    turns.append(event)
                case TurnFailed():
                    said.turns_failed += 1
                case Reconnecting():
                    said.reconnects += 1
                    said.replays += bool(event.superseded)
                case SessionReady():
                    ids.add(event.session_id)
    except LookhearError as error:
        said.error = str(error)
    said.sessions = len(ids)
    said.text = " ".join(turn.text for turn in sorted(turns, key=lambda turn: turn.start))
    return said


async def until_done(
    sessions: Sequence[Session], port: int, pace: float, chaos: asyncio.Task[None]
) -> AsyncIterator[tuple[int, Said]]:
    """All that is said until the faults are over, and of those who speak then, to their end: the
    number of the session, and what became of it."""

    async def speaker(number: int) -> list[tuple[int, Said]]:
        done: list[tuple[int, Said]] = []
        while not (done and chaos.done()):
            done.append((number, await speak(sessions[number], port, pace)))
        return done

    speakers = [asyncio.create_task(speaker(number)) for number in range(len(sessions))]
    for speaking in asyncio.as_completed(speakers):
        for said in await speaking:
            yield said
    await chaos


async def measure(server: ServerProcess, options: argparse.Namespace) -> Json:
    """Undisturbed, and then disturbed. LookhearError."""
    said = long_session("speaker", 0, options.seconds, options.data, options.language)
    sessions = crowd(said, options.sessions)
    async with Proxy(urlsplit(server.address.base_url).port or 80) as proxy:
        calm = await asyncio.gather(*(speak(s, proxy.port, options.pace) for s in sessions))
        if any(one.error for one in calm):
            raise LookhearError(f"undisturbed: {next(one.error for one in calm if one.error)}")
        chaos = Chaos(server, proxy, random.Random(options.seed))
        names = options.only or list(FAULTS)
        if not chaos.workers:
            if wrong := [name for name in options.only if name in OF_WORKERS]:
                raise UsageError(f'{wrong[0]}: expected --serve "--workers N", got one process')
            names = [name for name in names if name not in OF_WORKERS]
        inflicting = asyncio.create_task(chaos.inflict(options.faults, names))
        rows: list[Json] = []
        async for number, disturbed in until_done(sessions, proxy.port, options.pace, inflicting):
            errors = word_errors(calm[number].text, disturbed.text)
            rows.append(
                {
                    **asdict(disturbed),
                    "lost": errors.deletions,
                    "doubled": errors.insertions,
                    "changed": errors.substitutions,
                }
            )
    totals = {
        name: sum(row[name] for row in rows)
        for name in ("lost", "doubled", "changed", "reconnects", "replays", "turns_failed")
    }
    words = sum(len(normalise(row["text"])) for row in rows)
    unfinished = sum(bool(row["error"]) for row in rows)
    faults = dict(sorted(chaos.tally.items()))
    totals |= {"sessions": len(rows), "words": words, "unfinished": unfinished}
    return {"faults": faults, "undisturbed": [asdict(one) for one in calm], **totals, "said": rows}


# --- command -------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    """1 if a word was lost or doubled, or a session not finished. LookhearError."""
    options = _options(argv)
    console, aside = consoles(options)
    about = begin(["chaos", *argv])
    with private_server(options, aside) as server:
        result: Json = {"scenario": "chaos", **about, **asyncio.run(measure(server, options))}
    path = finish("chaos", result, options)
    if not options.json:
        console.print(table(result))
    aside.print(f"written to {path}", style="dim")
    return 1 if result["lost"] or result["doubled"] or result["unfinished"] else 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lookhear bench chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("only", nargs="*", metavar="FAULT", help="default: all that can be")
    add("--model", metavar="ID", help="what our server loads")
    add("--serve", default="", metavar="ARGS", help="for our `lookhear serve`")
    add("--faults", type=int, default=200, metavar="N", help="default: 200")
    add("--sessions", type=int, default=4, metavar="N", help="at once; default: 4")
    add("--seconds", type=above_zero, default=30.0, metavar="S", help="of each; default: 30")
    add("--pace", type=float, default=1.0, metavar="X", help="of speech; default: 1")
    add("--language", default="en", metavar="CODE", help="default: en")
    add_result_arguments(parser)
    options = parser.parse_args(argv)
    for name in options.only:
        if name not in FAULTS:
            raise UsageError(f"fault: expected one of {', '.join(FAULTS)}, got {name!r}")
    for name in ("faults", "sessions", "seconds", "pace"):
        value = getattr(options, name)
        if value <= 0:
            raise UsageError(f"--{name}: expected more than 0, got {value:g}")
    return options


def table(result: Json) -> Table:
    """What came and what it did."""
    shown = Table(title="\npaced sessions while everything breaks", title_justify="left", box=None)
    shown.add_column("")
    shown.add_column("", justify="right")
    for name, count in result["faults"].items():
        shown.add_row(name, str(count))
    for name in ("sessions", "words", "reconnects", "replays"):
        shown.add_row(name, str(result[name]))
    for name in ("lost", "doubled", "changed", "turns_failed", "unfinished"):
        style = "bold" if result[name] else None
        shown.add_row(name.replace("_", " "), str(result[name]), style=style)
    return shown
